//! Scenario `peers`: the wallet and explorer calls with which anvil, hardhat and ganache were
//! measured, one row each, so that `docs/benchmarks.md` can compare the nodes.

use crate::{
    options::{Common, Node},
    reads::{self, Params, block, block_range, call_balance_of, logs_over},
    report::Report,
    rng::Rng,
    rounds::{self, Calls, Part},
    sample::Sample,
    token,
};
use serde_json::{Value, json};

/// Blocks of a wide log query.
const WIDE_BLOCKS: u64 = 1000;
/// Blocks of a narrow log query.
const NARROW_BLOCKS: u64 = 10;
/// Calls per batch.
const BATCH: usize = 20;

#[derive(Debug, clap::Args)]
pub(crate) struct PeersArgs {
    #[command(flatten)]
    common: Common,
    /// Only rows whose name contains one of these texts
    #[arg(long, value_name = "TEXTS", value_delimiter = ',')]
    only: Vec<String>,
    /// ERC-20 contract to call [default: the most used one in recent blocks]
    #[arg(long, value_name = "ADDRESS")]
    token: Option<String>,
}

/// Rows of one method each. The text after a method's name distinguishes its rows.
const ROWS: [(&str, Params); 18] = [
    ("eth_blockNumber", |_, _| Ok(json!([]))),
    ("eth_chainId", |_, _| Ok(json!([]))),
    ("eth_gasPrice", |_, _| Ok(json!([]))),
    ("eth_maxPriorityFeePerGas", |_, _| Ok(json!([]))),
    ("eth_getBalance", |s, r| Ok(json!([r.pick(&s.accounts), "latest"]))),
    ("eth_getTransactionCount", |s, r| Ok(json!([r.pick(&s.accounts), "latest"]))),
    ("eth_getBalance (old block)", |s, r| Ok(json!([r.pick(&s.accounts), block(s, r)]))),
    ("eth_call (balanceOf)", call_balance_of),
    ("eth_estimateGas (ERC-20 transfer)", token_transfer),
    ("eth_getBlockByNumber (full)", |s, r| Ok(json!([block(s, r), true]))),
    ("eth_getBlockByNumber (latest, full)", |_, _| Ok(json!(["latest", true]))),
    ("eth_getBlockReceipts", |s, r| Ok(json!([block(s, r)]))),
    ("eth_getTransactionReceipt", |s, r| Ok(json!([r.pick(&s.hashes)]))),
    ("eth_getTransactionByHash", |s, r| Ok(json!([r.pick(&s.hashes)]))),
    ("eth_getLogs (token, 1000 blocks)", |s, r| logs_over(s, r, WIDE_BLOCKS)),
    ("eth_getLogs (holder, 1000 blocks)", holder_logs),
    ("eth_getLogs (token, 10 blocks)", |s, r| logs_over(s, r, NARROW_BLOCKS)),
    ("debug_traceTransaction (callTracer)", |s, r| {
        Ok(json!([r.pick(&s.hashes), { "tracer": "callTracer" }]))
    }),
];

/// Creates a transfer of 0 tokens from one holder to another, which succeeds with any balance.
fn token_transfer(sample: &Sample, rng: &mut Rng) -> anyhow::Result<Value> {
    let (from, to) = (rng.pick(&sample.holders), rng.pick(&sample.holders));
    let to = to.and_then(|to| to.parse().ok()).unwrap_or_default();
    let data = alloy_primitives::hex::encode_prefixed(token::transfer(to, 0));
    Ok(json!([{ "from": from, "to": sample.token()?, "data": data }]))
}

/// Creates a query for the transfers of the token to one holder.
fn holder_logs(sample: &Sample, rng: &mut Rng) -> anyhow::Result<Value> {
    let holder = rng.pick(&sample.holders).map(|holder| token::topic(holder));
    let (first, last) = block_range(sample, rng, WIDE_BLOCKS);
    Ok(json!([{
        "fromBlock": first, "toBlock": last,
        "address": sample.token()?, "topics": [token::TRANSFER, Value::Null, holder],
    }]))
}

pub(crate) fn run(args: &PeersArgs) -> anyhow::Result<(Report, &Common)> {
    let common = &args.common;
    common.check()?;
    let nodes = common.nodes()?;
    let parts = nodes.iter().map(|node| parts(args, node)).collect::<anyhow::Result<_>>()?;
    Ok((rounds::run("peers", common, &nodes, parts)?, common))
}

fn parts(args: &PeersArgs, node: &Node) -> anyhow::Result<Vec<Box<dyn Part>>> {
    let common = &args.common;
    let sample = Sample::take(&node.rpc, common.seed, args.token.as_deref())?;
    let mut rows = Vec::new();
    for (name, params) in ROWS {
        rows.push((name, reads::bodies(name, params, &sample, common.seed)?));
    }
    let mix = reads::mix(&sample, common.seed)?;
    let batches = mix.chunks_exact(BATCH).map(|calls| {
        let calls: Vec<&[u8]> = calls.iter().map(Vec::as_slice).collect();
        [b"[", calls.join(&b","[..]).as_slice(), b"]"].concat()
    });
    let batches = batches.collect();
    rows.extend([("mix", mix), ("mix, batches of 20", batches)]);
    rows.retain(|(name, _)| {
        args.only.is_empty() || args.only.iter().any(|only| name.contains(only.as_str()))
    });
    anyhow::ensure!(!rows.is_empty(), "--only matches no row");
    let part = |(name, bodies)| Box::new(Calls::new(name, common, node, bodies)) as Box<dyn Part>;
    Ok(rows.into_iter().map(part).collect())
}
