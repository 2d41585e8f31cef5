//! `evmd query block-results` shows the results and events of a block.

use super::{NodeArg, client::CallError, rest::print_json, server::Server};
use crate::cli::Output;
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of the block; by default the newest
    #[arg(value_name = "HEIGHT")]
    height: Option<u64>,
    #[command(flatten)]
    node: NodeArg,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let height = args.height.map(|height| height.to_string());
    let params = height.map_or_else(|| json!({}), |height| json!({ "height": height }));
    let client = args.node.client(Server::Comet)?;
    let results = client.call_raw("block_results", &params).map_err(described)?;
    print_json(results.get(), args.output)
}

/// Replaces a CometBFT RPC error with its data, which contains the reason.
fn described(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(CallError { data: Some(Value::String(reason)), .. }) => anyhow::anyhow!("{reason}"),
        _ => error,
    }
}
