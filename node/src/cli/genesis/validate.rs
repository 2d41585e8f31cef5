//! `evmd genesis validate`

use super::read;
use crate::cli::HomeArg;
use std::{io::Write, path::PathBuf};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The file; that of the home folder without it
    file: Option<PathBuf>,
    #[command(flatten)]
    home: HomeArg,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let path = match &args.file {
        Some(file) => file.clone(),
        None => args.home.path()?.join("genesis.json"),
    };
    let genesis = read(&path)?;
    writeln!(
        std::io::stdout(),
        "{} is a valid genesis: chain {}, {:?} rules, {} accounts, hash {}",
        path.display(),
        genesis.spec.chain_id,
        genesis.spec.rules,
        genesis.state().accounts.len(),
        genesis.header().hash_slow()
    )?;
    Ok(())
}
