//! Scenario `explorer`: the requests that whole pages of Otterscan and Blockscout make. Each page is
//! one JSON-RPC batch and counts as one operation.

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

/// Number of different pages of each kind.
const PAGES_PER_KIND: usize = 256;
/// Blocks in one request of an indexer.
const INDEXER_BLOCKS: u64 = 10;
/// Blocks on a front page.
const FRONT_PAGE_BLOCKS: u64 = 10;

#[derive(Debug, clap::Args)]
pub(crate) struct ExplorerArgs {
    #[command(flatten)]
    common: Common,
    /// ERC-20 contract of token pages [default: the most used one in recent blocks]
    #[arg(long, value_name = "ADDRESS")]
    token: Option<String>,
    /// Also request pages of address history: ots_searchTransactionsBefore
    #[arg(long)]
    ots: bool,
}

type Call = (&'static str, Value);
type Page = fn(&Sample, &mut Rng) -> anyhow::Result<Vec<Call>>;

const KINDS: [(&str, Page); 6] = [
    ("front page", front_page),
    ("block page", block_page),
    ("transaction page", transaction_page),
    ("address page", address_page),
    ("token holder page", holder_page),
    ("indexer, 10 blocks", indexer),
];

/// The page that is also requested with `--ots`.
const HISTORY: (&str, Page) = ("address history", history_page);
/// Transactions on a history page of Otterscan.
const HISTORY_PAGE_TXS: u64 = 25;

fn random_block(sample: &Sample, rng: &mut Rng) -> u64 {
    *rng.pick(&sample.blocks).unwrap_or(&sample.head)
}

/// Returns the calls of a front page: the latest blocks and the gas prices.
fn front_page(sample: &Sample, _: &mut Rng) -> anyhow::Result<Vec<Call>> {
    let first = sample.head.saturating_sub(FRONT_PAGE_BLOCKS - 1);
    let mut calls: Vec<_> = (first..=sample.head)
        .map(|number| ("eth_getBlockByNumber", json!([hex(number), false])))
        .collect();
    calls.push(("eth_gasPrice", json!([])));
    calls.push(("eth_feeHistory", json!([hex(FRONT_PAGE_BLOCKS), "latest", [50.0]])));
    Ok(calls)
}

/// Returns the calls of Otterscan's block page: the block, its transactions and their receipts.
fn block_page(sample: &Sample, rng: &mut Rng) -> anyhow::Result<Vec<Call>> {
    let number = hex(random_block(sample, rng));
    Ok(vec![
        ("eth_blockNumber", json!([])),
        ("eth_getBlockByNumber", json!([number, true])),
        ("eth_getBlockReceipts", json!([number])),
    ])
}

fn transaction_page(sample: &Sample, rng: &mut Rng) -> anyhow::Result<Vec<Call>> {
    let hash = rng.pick(&sample.hashes);
    Ok(vec![
        ("eth_getTransactionByHash", json!([hash])),
        ("eth_getTransactionReceipt", json!([hash])),
        ("eth_getBlockByNumber", json!([hex(random_block(sample, rng)), false])),
        ("eth_blockNumber", json!([])),
    ])
}

fn address_page(sample: &Sample, rng: &mut Rng) -> anyhow::Result<Vec<Call>> {
    let account = rng.pick(&sample.accounts);
    Ok(account_state(account.map_or("", String::as_str)).to_vec())
}

/// Returns the calls for the balance, nonce and code of an account.
fn account_state(account: &str) -> [Call; 3] {
    [
        ("eth_getBalance", json!([account, "latest"])),
        ("eth_getTransactionCount", json!([account, "latest"])),
        ("eth_getCode", json!([account, "latest"])),
    ]
}

/// Returns the calls of Otterscan's address page: the newest transactions with their receipts.
fn history_page(sample: &Sample, rng: &mut Rng) -> anyhow::Result<Vec<Call>> {
    let account = rng.pick(&sample.accounts);
    let newest = ("ots_searchTransactionsBefore", json!([account, 0, HISTORY_PAGE_TXS]));
    Ok(account_state(account.map_or("", String::as_str)).into_iter().chain([newest]).collect())
}

/// Returns the calls for a holder's token and ether balances, and for all token transfers to the holder.
fn holder_page(sample: &Sample, rng: &mut Rng) -> anyhow::Result<Vec<Call>> {
    let holder = rng.pick(&sample.holders).map_or("0x0", String::as_str);
    let token = sample.token()?;
    let filter = json!({
        "fromBlock": "0x0", "toBlock": hex(sample.head), "address": token,
        "topics": [token::TRANSFER, Value::Null, token::topic(holder)],
    });
    Ok(vec![
        ("eth_call", json!([{ "to": token, "data": token::balance_of(holder) }, "latest"])),
        ("eth_getBalance", json!([holder, "latest"])),
        ("eth_getLogs", json!([filter])),
    ])
}

/// Returns the calls of Blockscout's indexer: whole blocks with their receipts.
fn indexer(sample: &Sample, rng: &mut Rng) -> anyhow::Result<Vec<Call>> {
    let last = random_block(sample, rng).max(INDEXER_BLOCKS);
    let numbers = last + 1 - INDEXER_BLOCKS..=last.min(sample.head);
    Ok(numbers
        .flat_map(|number| {
            let number = hex(number);
            [
                ("eth_getBlockByNumber", json!([number, true])),
                ("eth_getBlockReceipts", json!([number])),
            ]
        })
        .collect())
}

fn batch(calls: Vec<Call>) -> Vec<u8> {
    let calls = calls.into_iter().enumerate().map(|(id, (method, params))| {
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    });
    Value::Array(calls.collect()).to_string().into_bytes()
}

pub(crate) fn run(args: &ExplorerArgs) -> anyhow::Result<(Report, &Common)> {
    rounds::run_on_each_node("explorer", &args.common, |node| parts(args, node))
}

fn parts(args: &ExplorerArgs, node: &Node) -> anyhow::Result<Vec<Box<dyn Part>>> {
    let common = &args.common;
    let sample = Sample::take(&node.rpc, common.seed, args.token.as_deref())?;
    let part = |(name, page): (&'static str, Page)| {
        let mut rng = Rng::new(common.seed);
        let bodies = (0..PAGES_PER_KIND).map(|_| Ok(batch(page(&sample, &mut rng)?)));
        let bodies = bodies.collect::<anyhow::Result<_>>()?;
        Ok(Box::new(Calls::new(name, common, node, bodies)) as Box<dyn Part>)
    };
    KINDS.into_iter().chain(args.ots.then_some(HISTORY)).map(part).collect()
}
