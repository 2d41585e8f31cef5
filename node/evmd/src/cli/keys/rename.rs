//! `evmd keys rename` changes the name of a key.

use super::{Common, prompt::Prompt};
use anyhow::bail;
use keys::keyring::{Access, KeyringError};
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the key
    old: String,
    /// Its new name
    new: String,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn run(common: &Common, args: &Args) -> anyhow::Result<()> {
    let prompt = Prompt::new();
    let mut keyring = common.open(Access::Write, &prompt)?;
    if keyring.by_name(&args.old).is_none() {
        return Err(KeyringError::Unknown(args.old.clone()).into());
    }
    let question = format!("Key {} will be renamed to {}. Continue?", args.old, args.new);
    if !args.yes && !prompt.confirm(&question)? {
        bail!("aborted");
    }
    keyring.rename(&args.old, &args.new)?;
    writeln!(std::io::stderr(), "Key was successfully renamed from {} to {}", args.old, args.new)?;
    Ok(())
}
