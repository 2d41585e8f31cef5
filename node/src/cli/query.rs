//! `evmd query`: questions to a running node.

mod client;
mod feemarket;

use super::Output;
use client::Client;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// The fee market
    #[command(subcommand)]
    Feemarket(feemarket::Command),
}

/// What every query takes.
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
        Client::new(&self.node)
    }

    /// The block as JSON-RPC names it.
    fn block(&self) -> String {
        self.height.map_or_else(|| "latest".to_owned(), |height| format!("{height:#x}"))
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Command::Feemarket(command) => feemarket::run(command),
    }
}
