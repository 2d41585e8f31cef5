//! Checks what must hold on all nodes after the load.

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
/// Maximum wait for each condition, such as an empty mempool or the newest block on another node.
const MAX_WAIT: Duration = Duration::from_secs(120);
/// Maximum number of receipts that are requested from each node.
const MAX_RECEIPTS: usize = 1_000;
/// Blocks per batch.
const BLOCKS_PER_BATCH: u64 = 20;

/// The results of successful checks.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) blocks: u64,
    /// Transactions in these blocks.
    pub(super) mined: u64,
    /// Receipts that each node returned.
    pub(super) receipts: usize,
    /// The state root of the newest block that was compared.
    pub(super) state_root: String,
}

/// Checks that all nodes have the same blocks, that these include every reported block and every acknowledged
/// transaction once, and that the accounts of each node match its state root.
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
    let sampled: Vec<B256> = acknowledged
        .iter()
        .step_by(acknowledged.len().div_ceil(MAX_RECEIPTS).max(1))
        .copied()
        .collect();
    for node in 0..cluster.len() {
        check_receipts(cluster.rpc(node), &sampled).with_context(|| format!("node {node}"))?;
        check_state(cluster, node, newest).with_context(|| format!("state of node {node}"))?;
    }
    Ok(Checked {
        blocks: newest,
        mined: mined.len() as u64,
        receipts: sampled.len(),
        state_root: blocks.last().map(|block| block.state_root.clone()).unwrap_or_default(),
    })
}

/// Waits until the index of a node has the block `newest`, and checks the state root against its accounts. The index is
/// written some time after the blocks; before that, the root would not include all transactions.
fn check_state(cluster: &Cluster, node: usize, newest: u64) -> anyhow::Result<()> {
    wait_until("the index has the newest block", || Ok(cluster.audit(node)?.block >= newest))
}

/// Waits until the mempools of all producers are empty. Returns the head of the first node at that time.
pub(super) fn wait_for_empty_pools(cluster: &Cluster, producers: usize) -> anyhow::Result<u64> {
    for producer in 0..producers {
        wait_until(
            "the mempool of a producer is empty (a lost transaction keeps the later ones of its sender there)",
            || Ok(pooled(cluster.rpc(producer))? == 0),
        )?;
    }
    cluster.rpc(0).block_number()
}

/// Waits until all transactions are mined and all nodes have their blocks. Returns the newest of these blocks.
fn wait_for_heads(cluster: &Cluster, producers: usize, heads: &Heads) -> anyhow::Result<u64> {
    // A transaction may be on its way from the mempool into a block, and another node may have reported a later block.
    let reported = heads.hashes().last_key_value().map_or(0, |(number, _)| *number);
    let drained = wait_for_empty_pools(cluster, producers)?.max(reported);
    wait_until("the chain has two more blocks", || {
        Ok(cluster.rpc(0).block_number()? >= drained + 2)
    })?;
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

/// Reads all blocks of a node up to `newest`.
fn blocks(rpc: &Rpc, newest: u64) -> anyhow::Result<Vec<Block>> {
    let mut blocks = Vec::new();
    for first in (0..=newest).step_by(BLOCKS_PER_BATCH as usize) {
        let numbers = first..=newest.min(first + BLOCKS_PER_BATCH - 1);
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
