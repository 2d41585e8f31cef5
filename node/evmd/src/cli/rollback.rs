//! `evmd rollback` removes the newest blocks of a stopped node.

use super::{HomeArg, Output, start_logs};
use home::{Home, HomeError};
use std::io::Write;

/// Removes the newest blocks of a stopped node. Their transactions and those of the mempool are lost, and the
/// index is rebuilt from the remaining blocks.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    home: HomeArg,
    /// The block to go back to; by default one block is removed, or none with --new-term
    #[arg(long, value_name = "NUMBER")]
    height: Option<u64>,
    /// Sign a new producer term, which replicas must accept: needed to remove blocks that this producer has signed,
    /// and to produce from a restored snapshot
    #[arg(long)]
    new_term: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    start_logs("warn")?;
    let path = args.home.path()?;
    let keep = match args.height {
        Some(height) => height,
        None if args.new_term => Home::head_of(&path)?,
        None => {
            let head = Home::head_of(&path)?;
            head.checked_sub(1).ok_or(HomeError::NotBelow { keep: 0, head })?
        }
    };
    let (home, removed) = Home::rollback(&path, keep, args.new_term)?;
    let view = home.view()?;
    let mut out = crate::cli::stdout();
    match args.output {
        Output::Text => {
            let (number, hash) = (view.number(), view.head.hash);
            if removed == 0 {
                writeln!(out, "A new producer term starts after block {number} {hash}")?;
                return Ok(());
            }
            let blocks = if removed == 1 { "block" } else { "blocks" };
            writeln!(out, "Rolled back to block {number} {hash}: {removed} {blocks} removed")?;
        }
        Output::Json => {
            let value = serde_json::json!({
                "height": view.number(), "hash": view.head.hash, "removed": removed,
            });
            writeln!(out, "{value}")?;
        }
    }
    Ok(())
}
