//! `evmd query feemarket`

use super::rest::RestArgs;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Its parameters, the current base fee among them
    Params(RestArgs),
    /// The current base fee, with all its decimals
    BaseFee(RestArgs),
    /// The gas of the last block, from which the next base fee follows
    BlockGas(RestArgs),
}

/// Where these queries are.
const ROOT: &str = "/cosmos/evm/feemarket/v1";

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    let (rest, query) = match command {
        Command::Params(rest) => (rest, "params"),
        Command::BaseFee(rest) => (rest, "base_fee"),
        Command::BlockGas(rest) => (rest, "block_gas"),
    };
    rest.show(&format!("{ROOT}/{query}"))
}
