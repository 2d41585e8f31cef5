//! `evmd debug state-root` compares the state root in a header with the root computed from all stored accounts.

use crate::cli::{HomeArg, Output};
use anyhow::bail;
use home::audit;
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
    let audit = audit::state_root(&args.home.path()?)?;
    let mut out = crate::cli::stdout();
    match args.output {
        Output::Json => writeln!(
            out,
            "{}",
            serde_json::json!({
                "block": audit.number,
                "accounts": audit.accounts,
                "stateRoot": audit.root,
                "header": audit.expected,
                "head": audit.head,
                "unflushedTransactions": audit.unflushed,
            })
        )?,
        Output::Text => writeln!(
            out,
            "block {}: state root {} of {} accounts; header {}; {} transactions in later blocks, head {}",
            audit.number, audit.root, audit.accounts, audit.expected, audit.unflushed, audit.head
        )?,
    }
    if audit.root != audit.expected {
        bail!("the state root of block {} differs from its header", audit.number);
    }
    Ok(())
}
