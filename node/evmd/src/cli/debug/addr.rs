//! `evmd debug addr` shows an address in hex and Bech32.

use crate::cli::{HomeArg, Output, prefix};
use alloy_primitives::hex;
use keys::{Bech32Kind, parse_address};
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Address in any format: hex, or Bech32 of an account, operator or consensus key
    address: String,
    #[command(flatten)]
    home: HomeArg,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let prefix = prefix::of_home(&args.home)?;
    let address = parse_address(&args.address, &prefix)?;
    let mut out = crate::cli::stdout();
    if args.output == Output::Json {
        let value = serde_json::json!({
            "address": address.as_slice(),
            "hex": hex::encode_upper(address),
            "bech32_acc": Bech32Kind::Account.address(&prefix, address),
            "bech32_val": Bech32Kind::Validator.address(&prefix, address),
        });
        return Ok(writeln!(out, "{value}")?);
    }
    let bytes: Vec<_> = address.iter().map(u8::to_string).collect();
    writeln!(
        out,
        "Address: [{}]\nAddress (hex): {}\nBech32 Acc: {}\nBech32 Val: {}",
        bytes.join(" "),
        hex::encode_upper(address),
        Bech32Kind::Account.address(&prefix, address),
        Bech32Kind::Validator.address(&prefix, address),
    )?;
    Ok(())
}
