//! `evmd genesis validate` checks a genesis file and shows its chain.

use super::read;
use crate::cli::{HomeArg, Output, init::warn_of};
use std::{io::Write, path::PathBuf};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Genesis file; by default that of the home folder
    file: Option<PathBuf>,
    #[command(flatten)]
    home: HomeArg,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let path = match &args.file {
        Some(file) => file.clone(),
        None => args.home.path()?.join("genesis.json"),
    };
    let genesis = read(&path)?;
    warn_of(&genesis);
    let mut out = crate::cli::stdout();
    if args.output == Output::Json {
        let value = serde_json::json!({
            "file": path,
            "chainId": genesis.spec.chain_id,
            "rules": format!("{:?}", genesis.spec.rules),
            "accounts": genesis.state().accounts.len(),
            "hash": genesis.header().hash_slow(),
        });
        return Ok(writeln!(out, "{value}")?);
    }
    writeln!(
        out,
        "{} is a valid genesis: chain {}, {} rules, {} accounts, hash {}",
        path.display(),
        genesis.spec.chain_id,
        genesis.spec.rules,
        genesis.state().accounts.len(),
        genesis.header().hash_slow()
    )?;
    Ok(())
}
