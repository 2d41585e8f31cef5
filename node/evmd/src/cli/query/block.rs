//! `evmd query block` shows a block.

use super::rest::RestArgs;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of the block, or latest, safe or finalized for the newest, which is the default
    #[arg(value_name = "NUMBER", conflicts_with = "height", value_parser = block_id)]
    number: Option<String>,
    /// Meaning of NUMBER, as in the SDK's commands
    #[arg(long = "type", value_name = "TYPE", hide = true, value_parser = ["height"])]
    kind: Option<String>,
    #[command(flatten)]
    rest: RestArgs,
}

const NEWEST: &str = "latest";

/// Converts the argument to the name of a block in a REST path.
fn block_id(text: &str) -> Result<String, String> {
    // Blocks are final immediately, so all three names mean the head.
    if [NEWEST, "safe", "finalized"].contains(&text) {
        return Ok(NEWEST.to_owned());
    }
    let reason = "expected the number of a block, such as 12, or latest, safe or finalized";
    text.parse::<u64>().map(|number| number.to_string()).map_err(|_| reason.to_owned())
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let block = args.number.as_deref().unwrap_or(NEWEST);
    args.rest.show(&format!("/cosmos/base/tendermint/v1beta1/blocks/{block}"))
}
