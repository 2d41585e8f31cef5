//! `evmd keys list` shows all keys of the keyring.

use super::{
    Common,
    output::{KeyOutput, print_list},
    prompt::Prompt,
};
use keys::{Bech32Kind, keyring::Access};
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print the names only
    #[arg(long, short = 'n')]
    list_names: bool,
}

pub(super) fn run(common: &Common, args: &Args) -> anyhow::Result<()> {
    let prefix = common.prefix()?;
    let keyring = common.open(Access::Read, &Prompt::new())?;
    let records = keyring.records();
    if !args.list_names {
        let output = |record| KeyOutput::new(record, Bech32Kind::Account, &prefix);
        return print_list(common, &records.iter().map(output).collect::<Vec<_>>());
    }
    let mut out = crate::cli::stdout();
    let names: Vec<_> = records.iter().map(|record| record.name.as_str()).collect();
    if common.json() {
        writeln!(out, "{}", serde_json::to_string(&names)?)?;
    } else if names.is_empty() {
        writeln!(out, "No records were found in keyring")?;
    } else {
        for name in names {
            writeln!(out, "{name}")?;
        }
    }
    Ok(())
}
