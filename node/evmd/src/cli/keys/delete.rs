//! `evmd keys delete` removes keys from the keyring.

use super::{Common, prompt::Prompt, show::find};
use anyhow::bail;
use keys::keyring::Access;
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Names, or addresses in any format
    #[arg(required = true, value_name = "NAME_OR_ADDRESS")]
    keys: Vec<String>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Do not ask for confirmation; same as --yes
    #[arg(long, short)]
    force: bool,
}

pub(super) fn run(common: &Common, args: &Args) -> anyhow::Result<()> {
    let prompt = Prompt::new();
    let prefix = common.prefix()?;
    let mut keyring = common.open(Access::Write, &prompt)?;
    let name = |text: &String| find(&keyring, text, &prefix).map(|record| record.name.clone());
    let names = args.keys.iter().map(name).collect::<anyhow::Result<Vec<_>>>()?;
    for name in names.iter().filter(|_| !args.yes && !args.force) {
        if !prompt.confirm(&format!("Key {name} will be deleted. Continue?"))? {
            bail!("aborted");
        }
    }
    keyring.remove(&names)?;
    for _ in names {
        writeln!(std::io::stderr(), "Key deleted forever (uh oh!)")?;
    }
    Ok(())
}
