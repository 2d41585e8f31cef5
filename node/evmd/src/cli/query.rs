//! `evmd query` sends queries to a running node.

mod auth;
mod bank;
mod block;
mod block_results;
pub(super) mod client;
mod evm;
mod feemarket;
mod gov;
pub(super) mod node;
pub(super) mod rest;
pub(super) mod server;
mod tx;
mod txs;
mod wait_tx;
pub(super) mod yaml;

pub(super) use node::NodeArg;

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
    /// The results of the transactions of a block, and its own events
    BlockResults(block_results::Args),
    /// The EVM: accounts, storage, code
    #[command(subcommand)]
    Evm(evm::Command),
    /// A mined transaction
    Tx(tx::Args),
    /// Wait until a transaction is mined, and show it
    #[command(visible_alias = "event-query-tx-for")]
    WaitTx(wait_tx::Args),
    /// Mined transactions by their events
    Txs(txs::Args),
    /// The fee market
    #[command(subcommand)]
    Feemarket(feemarket::Command),
    /// Proposals, votes and deposits
    #[command(subcommand)]
    Gov(gov::Command),
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Command::Auth(command) => auth::run(command),
        Command::Bank(command) => bank::run(command),
        Command::Block(args) => block::run(args),
        Command::BlockResults(args) => block_results::run(args),
        Command::WaitTx(args) => wait_tx::run(args),
        Command::Evm(command) => evm::run(command),
        Command::Tx(args) => tx::run(args),
        Command::Txs(args) => txs::run(args),
        Command::Feemarket(command) => feemarket::run(command),
        Command::Gov(command) => gov::run(command),
    }
}
