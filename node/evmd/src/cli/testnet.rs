//! `evmd testnet` creates the home folders of the validators of a new chain.

use super::{
    Output,
    init::{now, with_chain_id},
    stdout,
};
use anyhow::Context;
use chain::Genesis;
use std::{io::Write, path::PathBuf};
use validator::{MAX_VALIDATORS, TestNetwork};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of validators, 1 or 4 to 10: with n, fewer than n/3 may fail
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = validators)]
    validators: u8,
    /// Folder for the homes; it must not exist or be empty
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    /// Chain id, for EIP-155 and for Cosmos transactions
    #[arg(long, value_name = "ID")]
    chain_id: Option<u64>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

fn validators(text: &str) -> Result<u8, String> {
    let number = text.parse().map_err(|_| "it is not a number".to_owned())?;
    match number {
        2 | 3 => {
            Err(format!("{number} validators tolerate no fault, as one does: use 1 or at least 4"))
        }
        1..=MAX_VALIDATORS => Ok(number),
        _ => Err(format!("it must be 1 or 4 to {MAX_VALIDATORS}")),
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let adjust = |genesis: Genesis| match args.chain_id {
        Some(id) => with_chain_id(&genesis, id),
        None => Ok(genesis),
    };
    let made = TestNetwork::create(&args.output_dir, args.validators, now(), adjust);
    print(args, &made.context("evmd testnet")?)
}

fn print(args: &Args, made: &TestNetwork) -> anyhow::Result<()> {
    let mut out = stdout();
    let TestNetwork { genesis, members, compose } = made;
    let hash = genesis.header().hash_slow();
    match args.output {
        Output::Text => {
            writeln!(
                out,
                "{} validators of chain {}, genesis {hash}. Start each of them:\n",
                members.len(),
                genesis.spec.chain_id,
            )?;
            for member in members {
                writeln!(out, "evmd start --home {}", member.home.display())?;
            }
            writeln!(
                out,
                "\nTheir operators are development accounts, whose keys are public. In containers: docker compose -f {} up",
                compose.display()
            )?;
        }
        Output::Json => {
            let members = members.iter().map(|member| {
                serde_json::json!({
                    "home": member.home.to_string_lossy(),
                    "consensusKey": member.key,
                    "operator": member.operator,
                    "portOffset": member.port_offset,
                })
            });
            let value = serde_json::json!({
                "chainId": genesis.spec.chain_id,
                "genesisHash": hash,
                "validators": members.collect::<Vec<_>>(),
            });
            writeln!(out, "{value}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_or_four_to_ten_validators_are_accepted() {
        for number in ["1", "4", "10"] {
            assert!(validators(number).is_ok(), "{number}");
        }
        for number in ["0", "2", "3", "11", "256", "-1", "x"] {
            assert!(validators(number).is_err(), "{number}");
        }
    }
}
