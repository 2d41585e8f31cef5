//! `evmd version` shows the version of the program and its signature recovery backend.

use super::Output;
use std::io::Write;
use storage::{CHAIN_FORMAT, INDEX_FORMAT};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Show the storage formats, too
    #[arg(long)]
    long: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let backend = verify::Backend::detect()?;
    let mut out = crate::cli::stdout();
    match args.output {
        Output::Text => {
            writeln!(out, "evmd {version}\nrecovery backend: {backend}")?;
            if args.long {
                writeln!(out, "storage formats: chain {CHAIN_FORMAT}, index {INDEX_FORMAT}")?;
            }
        }
        Output::Json => {
            let mut value = serde_json::json!({ "version": version, "backend": backend.name() });
            if args.long {
                value["chainFormat"] = CHAIN_FORMAT.into();
                value["indexFormat"] = INDEX_FORMAT.into();
            }
            writeln!(out, "{value}")?;
        }
    }
    Ok(())
}
