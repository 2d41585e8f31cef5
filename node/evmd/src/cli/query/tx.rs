//! `evmd query tx` shows a mined transaction.

use super::rest::{RestArgs, escape};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Hash of a mined transaction
    hash: String,
    #[command(flatten)]
    rest: RestArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    args.rest.show(&format!("/cosmos/tx/v1beta1/txs/{}", escape(&args.hash)))
}
