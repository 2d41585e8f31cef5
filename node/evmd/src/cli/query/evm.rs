//! `evmd query evm` queries accounts, storage, code and parameters of the EVM, and converts addresses.

use super::rest::{RestArgs, escape};
use crate::cli::{HomeArg, Output, prefix};
use keys::{bech32, parse_address};
use std::io::Write;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Parameters of the EVM
    Params(RestArgs),
    /// Balance, code hash and nonce of an account
    Account {
        /// Address in any format
        address: String,
        #[command(flatten)]
        rest: RestArgs,
    },
    /// A storage slot
    Storage {
        /// Address in any format
        address: String,
        /// Key of the slot, in hex
        key: String,
        #[command(flatten)]
        rest: RestArgs,
    },
    /// Code of an account
    Code {
        /// Address in any format
        address: String,
        #[command(flatten)]
        rest: RestArgs,
    },
    /// The base fee in wei
    BaseFee(RestArgs),
    /// The chain id, the token and the fork schedule
    Config(RestArgs),
    /// Convert an address to Bech32, without a node
    #[command(name = "0x-to-bech32")]
    ToBech32(Convert),
    /// Convert an address to hex, without a node
    #[command(name = "bech32-to-0x")]
    ToHex(Convert),
}

#[derive(Debug, clap::Args)]
pub(super) struct Convert {
    /// Address in any format
    address: String,
    #[command(flatten)]
    home: HomeArg,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

const ROOT: &str = "/cosmos/evm/vm/v1";

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    let (rest, path) = match command {
        Command::Params(rest) => (rest, "params".to_owned()),
        Command::BaseFee(rest) => (rest, "base_fee".to_owned()),
        Command::Config(rest) => (rest, "config".to_owned()),
        Command::Account { address, rest } => (rest, format!("account/{}", escape(address))),
        Command::Code { address, rest } => (rest, format!("codes/{}", escape(address))),
        Command::Storage { address, key, rest } => {
            (rest, format!("storage/{}/{}", escape(address), escape(key)))
        }
        Command::ToBech32(convert) => return convert.print(true),
        Command::ToHex(convert) => return convert.print(false),
    };
    rest.show(&format!("{ROOT}/{path}"))
}

impl Convert {
    fn print(&self, to_bech32: bool) -> anyhow::Result<()> {
        let prefix = prefix::of_home(&self.home)?;
        let address = parse_address(&self.address, &prefix)?;
        let text = if to_bech32 { bech32(&prefix, address) } else { address.to_checksum(None) };
        let mut out = crate::cli::stdout();
        match self.output {
            Output::Text => writeln!(out, "{text}")?,
            Output::Json => writeln!(out, "{}", serde_json::json!({ "address": text }))?,
        }
        Ok(())
    }
}
