//! `evmd keys show` shows keys by name or address.

use super::{
    Common,
    output::{KeyOutput, print_list, print_one},
    prompt::Prompt,
    usage,
};
use anyhow::anyhow;
use keys::{
    Bech32Kind,
    keyring::{Access, Keyring, Record},
    parse_address,
};
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Names, or addresses in any format
    #[arg(required = true, value_name = "NAME_OR_ADDRESS")]
    keys: Vec<String>,
    /// Bech32 kind: acc, val or cons
    #[arg(long, value_name = "KIND")]
    bech: Option<Bech32Kind>,
    /// Print only the address
    #[arg(long, short)]
    address: bool,
    /// Print only the public key: in JSON, or in Bech32 with --bech
    #[arg(long, short)]
    pubkey: bool,
}

pub(super) fn run(common: &Common, args: &Args) -> anyhow::Result<()> {
    if args.address && args.pubkey {
        usage("cannot use both --address and --pubkey at once");
    }
    if common.json() && (args.address || args.pubkey) {
        usage("cannot use --output with --address or --pubkey");
    }
    let prefix = common.prefix()?;
    let kind = args.bech.unwrap_or(Bech32Kind::Account);
    let keyring = common.open(Access::Read, &Prompt::new())?;
    let found = args.keys.iter().map(|text| find(&keyring, text, &prefix));
    let records = found.collect::<anyhow::Result<Vec<&Record>>>()?;
    let mut out = crate::cli::stdout();
    if args.address {
        for record in records {
            writeln!(out, "{}", kind.address(&prefix, record.address()))?;
        }
    } else if args.pubkey {
        for record in records {
            match args.bech {
                Some(kind) => writeln!(out, "{}", kind.public_key(&prefix, &record.public_key))?,
                None => writeln!(out, "{}", record.public_key.to_json())?,
            }
        }
    } else {
        let keys: Vec<_> =
            records.into_iter().map(|record| KeyOutput::new(record, kind, &prefix)).collect();
        match keys.as_slice() {
            [key] => print_one(common, key)?,
            keys => print_list(common, keys)?,
        }
    }
    Ok(())
}

/// Finds a record by name, or else by address.
pub(super) fn find<'k>(
    keyring: &'k Keyring,
    text: &str,
    prefix: &str,
) -> anyhow::Result<&'k Record> {
    let unknown =
        |reason: &dyn std::fmt::Display| anyhow!("{text} is not a valid name or address: {reason}");
    match keyring.by_name(text) {
        Some(record) => Ok(record),
        None => {
            let address = parse_address(text, prefix).map_err(|error| unknown(&error))?;
            keyring.by_address(address).ok_or_else(|| unknown(&"key not found"))
        }
    }
}
