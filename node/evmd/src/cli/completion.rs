//! `evmd completion`

use super::Cli;
use clap::CommandFactory;
use clap_complete::{Shell, generate};
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which shell: for bash, `source <(evmd completion bash)`
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    // Made in memory: the generator panics where it cannot write, to a pipe that closed for instance.
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "evmd", &mut script);
    let mut out = crate::cli::stdout();
    out.write_all(&script)?;
    out.flush()?;
    Ok(())
}
