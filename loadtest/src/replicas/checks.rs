//! What must hold on all nodes after the load.

use super::{cluster::Cluster, heads::Heads, sending::pooled};
use crate::rpc::{Rpc, hex, quantity};
use alloy_primitives::B256;
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

/// Polling interval of the mempool and of the heads.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum time until a mempool is empty, and then until every node has the newest block of the first one.
const MAX_WAIT: Duration = Duration::from_secs(120);
/// Receipts that are requested from each node.
const RECEIPTS: usize = 1_000;
/// Blocks per batch.
const BLOCKS: u64 = 20;

/// What was found.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) blocks: u64,
    /// Transactions in them.
    pub(super) mined: u64,
    /// Receipts that each node returned.
    pub(super) receipts: usize,
    /// The state root of the newest block that was compared.
    pub(super) state_root: String,
}

/// Checks that all nodes have the same blocks with each acknowledged transaction once, and with every block that a client has
/// seen, and that their accounts have the state roots of the headers.
pub(super) fn check(
    cluster: &Cluster,
    producers: usize,
    acknowledged: &[B256],
    heads: &Heads,
) -> anyhow::Result<Checked> {
    let newest = wait_for_heads(cluster, producers, heads)?;
    let blocks = blocks(cluster.rpc(0), newest)?;
    for node in 1..cluster.len() {
        if self::blocks(cluster.rpc(node), newest)? != blocks {
            bail!("the blocks of node {node} differ from those of node 0");
        }
    }
    for (number, hash) in heads.hashes() {
        if blocks.get(number as usize).is_none_or(|block| block.hash != hash) {
            bail!(
                "block {number} was reported as {hash}, and the chain has another one, or none among its {} blocks",
                blocks.len()
            );
        }
    }
    let mut mined = HashSet::new();
    for transaction in blocks.iter().flat_map(|block| &block.transactions) {
        if !mined.insert(*transaction) {
            bail!("transaction {transaction} is in two blocks");
        }
    }
    let lost: Vec<_> = acknowledged.iter().filter(|hash| !mined.contains(*hash)).collect();
    if let Some(hash) = lost.first() {
        bail!("{} acknowledged transactions are lost, such as {hash}", lost.len());
    }
    let asked: Vec<B256> = acknowledged
        .iter()
        .step_by(acknowledged.len().div_ceil(RECEIPTS).max(1))
        .copied()
        .collect();
    for node in 0..cluster.len() {
        check_receipts(cluster.rpc(node), &asked).with_context(|| format!("node {node}"))?;
        check_state(cluster, node, newest).with_context(|| format!("state of node {node}"))?;
    }
    Ok(Checked {
        blocks: newest,
        mined: mined.len() as u64,
        receipts: asked.len(),
        state_root: blocks.last().map(|block| block.state_root.clone()).unwrap_or_default(),
    })
}

/// Waits until the index of a node has the block `newest`, and computes the state root from its accounts. The index is written
/// some time after the blocks; before that, the root would not include all transactions.
fn check_state(cluster: &Cluster, node: usize, newest: u64) -> anyhow::Result<()> {
    wait_until("the index has the newest block", || Ok(cluster.audit(node)?.block >= newest))
}

/// Waits until all transactions are mined. Returns the newest block then.
pub(super) fn wait_for_empty_pools(cluster: &Cluster, producers: usize) -> anyhow::Result<u64> {
    for producer in 0..producers {
        wait_until(
            "the mempool of a producer is empty (a lost transaction keeps the later ones of its sender there)",
            || Ok(pooled(cluster.rpc(producer))? == 0),
        )?;
    }
    cluster.rpc(0).block_number()
}

/// Waits until all transactions are mined, and all replicas have the blocks. Returns the newest of these blocks.
fn wait_for_heads(cluster: &Cluster, producers: usize, heads: &Heads) -> anyhow::Result<u64> {
    // A transaction may be on its way from the mempool into a block, and the first node may be behind one that has reported a later block.
    let reported = heads.hashes().last_key_value().map_or(0, |(number, _)| *number);
    let begun = wait_for_empty_pools(cluster, producers)?.max(reported);
    wait_until(
        "the chain has two more blocks",
        || Ok(cluster.rpc(0).block_number()? >= begun + 2),
    )?;
    let newest = cluster.rpc(0).block_number()?;
    for node in 1..cluster.len() {
        wait_until("another node has the newest block", || {
            Ok(cluster.rpc(node).block_number()? >= newest)
        })?;
    }
    Ok(newest)
}

fn wait_until(what: &str, mut holds: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !holds()? {
        if begun.elapsed() > MAX_WAIT {
            bail!("waited {} s until {what}", MAX_WAIT.as_secs());
        }
        std::thread::park_timeout(POLL_INTERVAL);
    }
    Ok(())
}

/// A block as a node serves it.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    hash: String,
    state_root: String,
    transactions: Vec<B256>,
}

/// All blocks of a node up to `newest`.
fn blocks(rpc: &Rpc, newest: u64) -> anyhow::Result<Vec<Block>> {
    let mut blocks = Vec::new();
    for first in (0..=newest).step_by(BLOCKS as usize) {
        let numbers = first..=newest.min(first + BLOCKS - 1);
        let params: Vec<_> = numbers.map(|number| json!([hex(number), false])).collect();
        for block in rpc.call_all("eth_getBlockByNumber", &params)? {
            blocks.push(read_block(block, blocks.len() as u64)?);
        }
    }
    Ok(blocks)
}

fn read_block(mut block: Value, expected: u64) -> anyhow::Result<Block> {
    if quantity(&block["number"])? != expected {
        bail!("block {} was returned for block {expected}", block["number"]);
    }
    let text = |name: &str| block[name].as_str().map(str::to_owned).context("an incomplete block");
    let (hash, state_root) = (text("hash")?, text("stateRoot")?);
    let transactions = serde_json::from_value(block["transactions"].take())?;
    Ok(Block { hash, state_root, transactions })
}

fn check_receipts(rpc: &Rpc, hashes: &[B256]) -> anyhow::Result<()> {
    let params: Vec<_> = hashes.iter().map(|hash| json!([hash])).collect();
    let receipts = rpc.call_all("eth_getTransactionReceipt", &params)?;
    for (hash, receipt) in hashes.iter().zip(receipts) {
        if receipt["transactionHash"] != json!(hash) || receipt["status"] != "0x1" {
            bail!("the receipt of {hash} is {receipt}");
        }
    }
    Ok(())
}
