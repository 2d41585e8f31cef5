//! `evmd query`: questions to a running node.

mod auth;
mod bank;
mod block;
pub(super) mod client;
mod evm;
mod feemarket;
mod gov;
pub(super) mod rest;
mod tx;
pub(super) mod yaml;

use super::Output;
use client::Client;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Accounts
    #[command(subcommand)]
    Auth(auth::Command),
    /// Balances
    #[command(subcommand)]
    Bank(bank::Command),
    /// A block
    Block(block::Args),
    /// The EVM: accounts, storage, code
    #[command(subcommand)]
    Evm(evm::Command),
    /// A mined transaction
    Tx(tx::Args),
    /// The fee market
    #[command(subcommand)]
    Feemarket(feemarket::Command),
    /// Proposals, votes and deposits
    #[command(subcommand)]
    Gov(gov::Command),
}

/// Port of JSON-RPC where the URL names none.
const DEFAULT_PORT: u16 = 8545;

/// What every query over JSON-RPC takes.
#[derive(Clone, Debug, clap::Args)]
struct QueryArgs {
    /// Where the node serves JSON-RPC
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8545")]
    node: String,
    /// Block to ask about; the newest by default
    #[arg(long, value_name = "NUMBER")]
    height: Option<u64>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

impl QueryArgs {
    fn client(&self) -> anyhow::Result<Client> {
        Client::new(&self.node, DEFAULT_PORT)
    }

    /// The block as JSON-RPC names it.
    fn block(&self) -> String {
        self.height.map_or_else(|| "latest".to_owned(), |height| format!("{height:#x}"))
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Command::Auth(command) => auth::run(command),
        Command::Bank(command) => bank::run(command),
        Command::Block(args) => block::run(args),
        Command::Evm(command) => evm::run(command),
        Command::Tx(args) => tx::run(args),
        Command::Feemarket(command) => feemarket::run(command),
        Command::Gov(command) => gov::run(command),
    }
}
