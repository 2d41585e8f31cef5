//! `evmd tx` creates, signs and sends transactions over the node's REST server.

mod bank;
mod evm;
mod file;
mod flags;
mod gov;
mod json;
mod node;
mod send;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Tokens
    #[command(subcommand)]
    Bank(bank::Command),
    /// Proposals, deposits and votes
    #[command(subcommand)]
    Gov(gov::Command),
    /// Ethereum transactions
    #[command(subcommand)]
    Evm(evm::Command),
    /// Send a signed transaction from a file
    Broadcast(file::Broadcast),
    /// Sign a transaction from a file
    Sign(file::Sign),
    /// Execute a transaction from a file without sending it, and show the gas that it uses
    Simulate(file::Simulate),
    /// Convert a transaction from JSON to base64
    Encode(file::Encode),
    /// Convert a transaction from base64 or hex to JSON
    Decode(file::Decode),
}

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Bank(command) => bank::run(command),
        Command::Gov(command) => gov::run(command),
        Command::Evm(command) => evm::run(command),
        Command::Broadcast(args) => file::broadcast(&args),
        Command::Sign(args) => file::sign(&args),
        Command::Simulate(args) => file::simulate(&args),
        Command::Encode(args) => file::encode(&args),
        Command::Decode(args) => file::decode(&args),
    }
}
