//! `evmd query bank`

use super::rest::{RestArgs, escape};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Balances of an account
    Balances {
        /// Address in any form
        address: String,
        /// Of this token only
        #[arg(long, value_name = "NAME")]
        denom: Option<String>,
        #[command(flatten)]
        rest: RestArgs,
    },
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    let Command::Balances { address, denom, rest } = command;
    let path = format!("/cosmos/bank/v1beta1/balances/{}", escape(address));
    match denom {
        Some(denom) => rest.show(&format!("{path}/by_denom?denom={}", escape(denom))),
        None => rest.show(&path),
    }
}
