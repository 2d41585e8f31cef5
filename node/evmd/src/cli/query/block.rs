//! `evmd query block`

use super::rest::RestArgs;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of the block; by default the newest
    #[arg(value_name = "NUMBER", conflicts_with = "height")]
    number: Option<u64>,
    /// Meaning of NUMBER, as in the SDK's commands
    #[arg(long = "type", value_name = "TYPE", hide = true, value_parser = ["height"])]
    kind: Option<String>,
    #[command(flatten)]
    rest: RestArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let which = args.number.map_or_else(|| "latest".to_owned(), |number| number.to_string());
    args.rest.show(&format!("/cosmos/base/tendermint/v1beta1/blocks/{which}"))
}
