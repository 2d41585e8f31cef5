//! `evmd debug prefixes` shows the chain's Bech32 prefixes.

use crate::cli::{HomeArg, Output, prefix};
use keys::BECH32_KINDS;
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    home: HomeArg,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let prefix = prefix::of_home(&args.home)?;
    let [acc, val, con] = BECH32_KINDS.map(|kind| kind.address_prefix(&prefix));
    let mut out = crate::cli::stdout();
    match args.output {
        Output::Text => {
            writeln!(out, "Bech32 Acc: {acc}\nBech32 Val: {val}\nBech32 Con: {con}")?;
        }
        Output::Json => {
            let value =
                serde_json::json!({ "bech32_acc": acc, "bech32_val": val, "bech32_con": con });
            writeln!(out, "{value}")?;
        }
    }
    Ok(())
}
