//! `evmd debug prefixes`

use crate::{
    account::Bech32Kind,
    cli::{HomeArg, prefix},
};
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    home: HomeArg,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let prefix = prefix::of_home(&args.home)?;
    writeln!(
        std::io::stdout(),
        "Bech32 Acc: {}\nBech32 Val: {}\nBech32 Con: {}",
        Bech32Kind::Account.address_prefix(&prefix),
        Bech32Kind::Validator.address_prefix(&prefix),
        Bech32Kind::Consensus.address_prefix(&prefix),
    )?;
    Ok(())
}
