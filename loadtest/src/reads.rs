//! Scenario `reads`: the mix of methods that public endpoints receive, or each method alone.

use crate::{
    options::{Common, Node},
    report::Report,
    rng::Rng,
    rounds::{self, Calls, Part},
    rpc::hex,
    sample::Sample,
    token,
};
use serde_json::{Value, json};

/// Number of generated requests of the mix, and of each method alone.
const MIX_BODIES: usize = 5000;
const METHOD_BODIES: usize = 1024;
/// Blocks per log query.
const LOG_BLOCKS: u64 = 10;

#[derive(Debug, clap::Args)]
pub(crate) struct ReadsArgs {
    #[command(flatten)]
    common: Common,
    /// Measure each method alone
    #[arg(long)]
    each: bool,
    /// With --each, only methods whose name contains one of these texts
    #[arg(long, value_name = "TEXTS", value_delimiter = ',', requires = "each")]
    only: Vec<String>,
    /// With --each, alternate each method with `noop` of this server, and report the cost of each
    /// method relative to `noop` (`cargo run --release -p benches --example jsonrpsee_noop`)
    #[arg(long, value_name = "URL", requires = "each", conflicts_with = "compare")]
    yardstick: Option<String>,
    /// ERC-20 contract to call [default: the most used one in recent blocks]
    #[arg(long, value_name = "ADDRESS")]
    token: Option<String>,
}

/// Generates the parameters of one request.
pub(crate) type Params = fn(&Sample, &mut Rng) -> anyhow::Result<Value>;

/// A kind of request.
#[derive(Clone, Copy, Debug)]
struct RequestKind {
    name: &'static str,
    /// Share of the mix, in percent.
    percent: u32,
    params: Params,
}

/// The mix of public endpoints, as far as it is published. The last 14 % are other methods that
/// wallets and explorers call.
const MIX: &[RequestKind] = &[
    RequestKind { name: "eth_call", percent: 53, params: call_balance_of },
    RequestKind {
        name: "eth_getBlockByNumber",
        percent: 7,
        params: |s, r| Ok(json!([block(s, r), false])),
    },
    RequestKind {
        name: "eth_getBlockByNumber (full)",
        percent: 3,
        params: |s, r| Ok(json!([block(s, r), true])),
    },
    RequestKind {
        name: "eth_getBalance",
        percent: 7,
        params: |s, r| Ok(json!([r.pick(&s.accounts), "latest"])),
    },
    RequestKind {
        name: "eth_getTransactionReceipt",
        percent: 6,
        params: |s, r| Ok(json!([r.pick(&s.hashes)])),
    },
    RequestKind { name: "eth_chainId", percent: 6, params: |_, _| Ok(json!([])) },
    RequestKind { name: "eth_blockNumber", percent: 4, params: |_, _| Ok(json!([])) },
    RequestKind { name: "eth_getLogs", percent: 3, params: token_logs },
    RequestKind {
        name: "eth_getTransactionByHash",
        percent: 3,
        params: |s, r| Ok(json!([r.pick(&s.hashes)])),
    },
    RequestKind {
        name: "eth_getTransactionCount",
        percent: 2,
        params: |s, r| Ok(json!([r.pick(&s.accounts), "latest"])),
    },
    RequestKind { name: "eth_gasPrice", percent: 2, params: |_, _| Ok(json!([])) },
    RequestKind {
        name: "eth_getBlockReceipts",
        percent: 1,
        params: |s, r| Ok(json!([block(s, r)])),
    },
    RequestKind {
        name: "eth_feeHistory",
        percent: 1,
        params: |_, _| Ok(json!(["0x5", "latest", [50.0]])),
    },
    RequestKind {
        name: "eth_estimateGas",
        percent: 1,
        params: |s, r| Ok(json!([transfer(s, r)?])),
    },
    RequestKind {
        name: "eth_getCode",
        percent: 1,
        params: |s, _| Ok(json!([s.token()?, "latest"])),
    },
];

/// Methods that are measured with `--each`, but are not part of the mix.
const OTHER_METHODS: &[RequestKind] = &[
    RequestKind { name: "web3_clientVersion", percent: 0, params: |_, _| Ok(json!([])) },
    RequestKind { name: "net_version", percent: 0, params: |_, _| Ok(json!([])) },
    RequestKind { name: "eth_maxPriorityFeePerGas", percent: 0, params: |_, _| Ok(json!([])) },
    RequestKind {
        name: "eth_getBlockByNumber (latest)",
        percent: 0,
        params: |_, _| Ok(json!(["latest", false])),
    },
    RequestKind {
        name: "eth_getBalance (old block)",
        percent: 0,
        params: |s, r| Ok(json!([r.pick(&s.accounts), block(s, r)])),
    },
    RequestKind {
        name: "eth_getStorageAt",
        percent: 0,
        params: |s, r| Ok(json!([s.token()?, hex(r.below(8)), "latest"])),
    },
    RequestKind { name: "eth_getLogs (holder, all blocks)", percent: 0, params: holder_logs },
    RequestKind { name: "eth_getLogs (token, 100 blocks)", percent: 0, params: logs_of_100_blocks },
    RequestKind {
        name: "eth_feeHistory (1024, 5p)",
        percent: 0,
        params: |_, _| Ok(json!(["0x400", "latest", [10.0, 25.0, 50.0, 75.0, 90.0]])),
    },
    RequestKind {
        name: "eth_feeHistory (20, 3p)",
        percent: 0,
        params: |_, _| Ok(json!(["0x14", "latest", [10.0, 50.0, 90.0]])),
    },
];

pub(crate) fn block(sample: &Sample, rng: &mut Rng) -> String {
    hex(*rng.pick(&sample.blocks).unwrap_or(&sample.head))
}

pub(crate) fn call_balance_of(sample: &Sample, rng: &mut Rng) -> anyhow::Result<Value> {
    let holder = rng.pick(&sample.holders).or(sample.accounts.first());
    let data = token::balance_of(holder.map_or("0x", String::as_str));
    Ok(json!([{ "to": sample.token()?, "data": data }, "latest"]))
}

fn transfer(sample: &Sample, rng: &mut Rng) -> anyhow::Result<Value> {
    // Most holders are externally owned accounts. Other sampled accounts may be contracts, which revert.
    let (from, to) = (rng.pick(&sample.holders), rng.pick(&sample.holders));
    sample.token()?;
    Ok(json!({ "from": from, "to": to, "value": "0x0" }))
}

pub(crate) fn token_logs(sample: &Sample, rng: &mut Rng) -> anyhow::Result<Value> {
    logs_over(sample, rng, LOG_BLOCKS)
}

fn logs_of_100_blocks(sample: &Sample, rng: &mut Rng) -> anyhow::Result<Value> {
    logs_over(sample, rng, 100)
}

pub(crate) fn logs_over(sample: &Sample, rng: &mut Rng, blocks: u64) -> anyhow::Result<Value> {
    let (first, last) = block_range(sample, rng, blocks);
    Ok(json!([{
        "fromBlock": first, "toBlock": last,
        "address": sample.token()?, "topics": [token::TRANSFER],
    }]))
}

/// Returns the first and last of `blocks` consecutive blocks, or of all blocks if there are fewer.
pub(crate) fn block_range(sample: &Sample, rng: &mut Rng, blocks: u64) -> (String, String) {
    let last = *rng.pick(&sample.blocks).unwrap_or(&sample.head);
    let last = last.max(blocks - 1).min(sample.head);
    (hex(last.saturating_sub(blocks - 1)), hex(last))
}

fn holder_logs(sample: &Sample, rng: &mut Rng) -> anyhow::Result<Value> {
    let holder = rng.pick(&sample.holders).map(|holder| token::topic(holder));
    Ok(json!([{
        "fromBlock": "0x0", "toBlock": hex(sample.head),
        "address": sample.token()?, "topics": [token::TRANSFER, Value::Null, holder],
    }]))
}

/// Creates a JSON-RPC request. Text after a space in `method` is ignored.
pub(crate) fn body(method: &str, params: &Value) -> Vec<u8> {
    let method = method.split(' ').next().unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#).into_bytes()
}

/// Returns the requests of the mix in random order.
pub(crate) fn mix(sample: &Sample, seed: u64) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut rng = Rng::new(seed);
    let mut bodies = Vec::with_capacity(MIX_BODIES);
    for kind in MIX {
        for _ in 0..MIX_BODIES * kind.percent as usize / 100 {
            bodies.push(body(kind.name, &(kind.params)(sample, &mut rng)?));
        }
    }
    rng.shuffle(&mut bodies);
    Ok(bodies)
}

pub(crate) fn run(args: &ReadsArgs) -> anyhow::Result<(Report, &Common)> {
    let common = &args.common;
    common.check()?;
    let mut nodes = common.nodes()?;
    let mut parts: Vec<_> =
        nodes.iter().map(|node| parts(args, node)).collect::<anyhow::Result<_>>()?;
    if let Some(url) = &args.yardstick {
        let yardstick = Node::without_rpc(url, "a method that does nothing")?;
        let noop = || {
            let bodies = vec![body("noop", &json!([]))];
            Box::new(Calls::new("noop", common, &yardstick, bodies)) as Box<dyn Part>
        };
        parts.push(parts[0].iter().map(|_| noop()).collect());
        nodes.push(yardstick);
    }
    let mut report = rounds::run("reads", common, &nodes, parts)?;
    if args.yardstick.is_some() {
        add_cost_notes(&mut report);
    }
    Ok((report, common))
}

/// Adds notes on the cost of each method relative to `noop` in the same rounds.
fn add_cost_notes(report: &mut Report) {
    let [methods, noops] = report.rows.as_slice() else { return };
    let notes = methods.iter().zip(noops).filter_map(|(method, noop)| {
        let cost = method.cost_relative_to(noop)?;
        Some(format!("{}: {cost:.2} times the CPU of a method that does nothing", method.part))
    });
    let notes: Vec<_> = notes.collect();
    report.notes.extend(notes);
}

fn parts(args: &ReadsArgs, node: &Node) -> anyhow::Result<Vec<Box<dyn Part>>> {
    let common = &args.common;
    let sample = Sample::take(&node.rpc, common.seed, args.token.as_deref())?;
    let part =
        |name: &str, bodies| Box::new(Calls::new(name, common, node, bodies)) as Box<dyn Part>;
    if !args.each {
        return Ok(vec![part("mix", mix(&sample, common.seed)?)]);
    }
    let named = |kind: &RequestKind| args.only.iter().any(|only| kind.name.contains(only.as_str()));
    let wanted = |kind: &&RequestKind| args.only.is_empty() || named(kind);
    let kinds: Vec<_> = OTHER_METHODS.iter().chain(MIX).filter(wanted).collect();
    anyhow::ensure!(!kinds.is_empty(), "--only matches no method");
    let kinds = kinds.into_iter();
    let parts = kinds
        .map(|kind| Ok(part(kind.name, bodies(kind.name, kind.params, &sample, common.seed)?)));
    parts.collect()
}

/// Requests of one kind. Text after the method in `name` is ignored.
pub(crate) fn bodies(
    name: &str,
    params: Params,
    sample: &Sample,
    seed: u64,
) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut rng = Rng::new(seed);
    (0..METHOD_BODIES).map(|_| Ok(body(name, &params(sample, &mut rng)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_has_the_documented_shares() {
        assert_eq!(MIX.iter().map(|kind| kind.percent).sum::<u32>(), 100);
        let addresses = vec![format!("0x{:040x}", 7)];
        let sample = Sample {
            head: 9,
            blocks: vec![3],
            hashes: vec!["0x1".to_owned()],
            accounts: addresses.clone(),
            holders: addresses.clone(),
            token: Some(addresses[0].clone()),
        };
        let bodies = mix(&sample, 1).unwrap();
        assert_eq!(bodies.len(), MIX_BODIES);
        assert_eq!(bodies, mix(&sample, 1).unwrap(), "requests depend only on the seed");
        assert_ne!(bodies, mix(&sample, 2).unwrap());
        let calls = bodies.iter().filter(|body| memchr::memmem::find(body, b"eth_call").is_some());
        assert_eq!(calls.count(), MIX_BODIES * 53 / 100);
        let without = Sample { token: None, ..sample };
        assert!(mix(&without, 1).unwrap_err().to_string().contains("--token"));
    }
}
