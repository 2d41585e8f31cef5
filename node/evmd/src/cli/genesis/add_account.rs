//! `evmd genesis add-account` adds a funded account to a genesis file.

use super::read;
use crate::cli::{Output, init::new_genesis};
use alloy_primitives::U256;
use anyhow::{Context, bail, ensure};
use chain::{ChainSpec, Genesis, TokenUnit};
use keys::parse_address;
use platform::whole_file;
use std::{io::Write, path::PathBuf};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Address in any format
    address: String,
    /// Balance: a number of wei, or an amount with the name of its unit: 1000000000000000000atest
    amount: String,
    /// Genesis file; created from the development genesis if it does not exist. `evmd init --genesis` reads it
    #[arg(long, value_name = "FILE", default_value = "genesis.json")]
    file: PathBuf,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let writing = || format!("cannot write {}", args.file.display());
    let lock = whole_file::lock_for_change(&args.file).with_context(writing)?;
    let genesis = if args.file.exists() { read(&args.file)? } else { new_genesis() };
    let address = parse_address(&args.address, &genesis.spec.bech32_prefix)?;
    let amount = amount(&args.amount, &genesis)?;
    let mut file: serde_json::Value = serde_json::from_str(&genesis.to_json())?;
    let alloc = file["alloc"].as_object_mut().context("the genesis has no accounts")?;
    let key = format!("{address:#x}");
    ensure!(
        !alloc.keys().any(|known| known.trim_start_matches("0x").eq_ignore_ascii_case(&key[2..])),
        "{} is already in {}",
        address.to_checksum(None),
        args.file.display()
    );
    alloc.insert(key, serde_json::json!({ "balance": format!("{amount:#x}") }));
    let text = format!("{file:#}\n");
    Genesis::from_json(&text).context("the changed genesis")?;
    whole_file::write(&args.file, text.as_bytes()).with_context(writing)?;
    drop(lock);
    let (address, mut out) = (address.to_checksum(None), crate::cli::stdout());
    match args.output {
        Output::Text => writeln!(out, "{address} has {amount} in {}", args.file.display())?,
        Output::Json => {
            let amount = amount.to_string();
            let value = serde_json::json!({ "address": address, "amount": amount, "file": args.file.to_string_lossy() });
            writeln!(out, "{value}")?;
        }
    }
    Ok(())
}

/// Parses a number with an optional unit of the chain's token, and returns wei. Without a unit the number is in wei.
fn amount(text: &str, genesis: &Genesis) -> anyhow::Result<U256> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, denom) = text.split_at(end);
    let unit = if denom.is_empty() { TokenUnit::WEI } else { unit_named(denom, &genesis.spec)? };
    let amount = U256::from_str_radix(digits, 10).ok().filter(|_| !digits.is_empty());
    let amount = amount.with_context(|| format!("{text:?} is not an amount of the token"))?;
    unit.to_wei(amount).with_context(|| format!("{text} exceeds 2^256 - 1 wei"))
}

/// Returns the unit of the chain's token that has this name: the base unit, or wei if the name is the extended one.
fn unit_named(denom: &str, spec: &ChainSpec) -> anyhow::Result<TokenUnit> {
    if spec.native().is_none() {
        bail!("an Ethereum chain has no token named {denom:?}");
    }
    let token = spec.token(0);
    if denom == token.denom {
        return Ok(token.unit);
    }
    ensure!(denom == token.extended_denom(), "the chain's token is {}, not {denom:?}", token.denom);
    Ok(TokenUnit::WEI)
}
