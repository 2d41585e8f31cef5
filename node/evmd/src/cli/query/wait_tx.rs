//! `evmd query wait-tx` waits until a transaction is mined, and shows it.

use super::{
    NodeArg,
    rest::{escape, print_json, refusal},
    server::Server,
};
use crate::cli::{Output, start::duration};
use anyhow::{Context, bail};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Interval at which the node is queried.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The HTTP status of the REST response for a transaction that is not mined.
const NOT_FOUND: u16 = 404;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Hash of the transaction; by default, the txhash of a response that is read from standard input, as
    /// `evmd tx ... -o json` prints one
    hash: Option<String>,
    /// Maximum time to wait, such as 15s or 500ms
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    node: NodeArg,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let hash = args.hash.clone().map_or_else(hash_from_input, Ok)?;
    let client = args.node.client(Server::Rest)?;
    let path = format!("/cosmos/tx/v1beta1/txs/{}", escape(&hash));
    let end = Instant::now() + args.timeout;
    loop {
        let (status, body) = client.get(&path, "")?;
        match status {
            200 => return print_json(&body, args.output),
            NOT_FOUND if Instant::now() < end => std::thread::park_timeout(POLL_INTERVAL),
            NOT_FOUND => {
                bail!("the transaction {hash} was not mined within {:?} (--timeout)", args.timeout)
            }
            _ => return Err(refusal(&body)),
        }
    }
}

fn hash_from_input() -> anyhow::Result<String> {
    let response: Value = serde_json::from_reader(std::io::stdin()).context(
        "standard input is not the JSON of a response: name the hash of the transaction",
    )?;
    let hash = response["txhash"].as_str().context("the response has no txhash")?;
    Ok(hash.to_owned())
}
