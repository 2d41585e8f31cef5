//! `evmd genesis` changes and checks genesis files before a chain is created.

mod add_account;
mod validate;

use anyhow::Context;
use chain::Genesis;
use std::path::Path;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Add a funded account to a genesis file
    #[command(visible_alias = "add-genesis-account")]
    AddAccount(add_account::Args),
    /// Check a genesis file
    Validate(validate::Args),
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::AddAccount(args) => add_account::run(args),
        Command::Validate(args) => validate::run(args),
    }
}

fn read(path: &Path) -> anyhow::Result<Genesis> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Genesis::from_json(&text).with_context(|| path.display().to_string())
}
