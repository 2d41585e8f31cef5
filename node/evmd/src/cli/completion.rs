//! `evmd completion` prints a shell script that completes commands and flags.

use super::Cli;
use clap::CommandFactory;
use clap_complete::{Shell, generate};
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Shell, as in `source <(evmd completion bash)`
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    // The script is generated in memory, because the generator panics if a write fails, for example on a full disk.
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "evmd", &mut script);
    let mut out = crate::cli::stdout();
    out.write_all(&script)?;
    out.flush()?;
    Ok(())
}
