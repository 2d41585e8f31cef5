//! `evmd query feemarket` queries the fee market.

use super::rest::RestArgs;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Parameters of the fee market, including the current base fee
    Params(RestArgs),
    /// The current base fee, with all its decimals
    BaseFee(RestArgs),
    /// Gas of the newest block, from which the next base fee is computed
    BlockGas(RestArgs),
}

const ROOT: &str = "/cosmos/evm/feemarket/v1";

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    let (rest, query) = match command {
        Command::Params(rest) => (rest, "params"),
        Command::BaseFee(rest) => (rest, "base_fee"),
        Command::BlockGas(rest) => (rest, "block_gas"),
    };
    rest.show(&format!("{ROOT}/{query}"))
}
