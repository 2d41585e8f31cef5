//! `evmd query bank` queries balances and the total supply.

use super::rest::{RestArgs, escape};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Balances of an account
    Balances {
        /// Address in any format
        address: String,
        /// Show only this token
        #[arg(long, value_name = "NAME")]
        denom: Option<String>,
        #[command(flatten)]
        rest: RestArgs,
    },
    /// Balance of an account in one token
    Balance {
        /// Address in any format
        address: String,
        /// Name of the token
        denom: String,
        #[command(flatten)]
        rest: RestArgs,
    },
    /// Total supply, which is fixed in genesis
    #[command(visible_alias = "total")]
    TotalSupply {
        #[command(flatten)]
        rest: RestArgs,
    },
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Balances { address, denom: None, rest } => rest.show(&balances(address)),
        Command::Balances { address, denom: Some(denom), rest }
        | Command::Balance { address, denom, rest } => {
            rest.show(&format!("{}/by_denom?denom={}", balances(address), escape(denom)))
        }
        Command::TotalSupply { rest } => rest.show("/cosmos/bank/v1beta1/supply"),
    }
}

fn balances(address: &str) -> String {
    format!("/cosmos/bank/v1beta1/balances/{}", escape(address))
}
