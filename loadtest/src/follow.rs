//! Follows the chain while transactions are sent: which block was seen when, and what it held.

use crate::{drive::Watch, options::Node, rpc::hex};
use anyhow::bail;
use serde_json::json;
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Time between two looks at the head.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Most blocks of one question about base fees.
const MAX_FEE_BLOCKS: u64 = 1024;

/// A block that came during the load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenBlock {
    pub(crate) number: u64,
    pub(crate) at: Instant,
    pub(crate) txs: u64,
}

/// How many transactions are to be waited for.
#[derive(Debug, Default)]
pub(crate) struct Goal {
    /// Known once everything has been sent.
    pub(crate) sent: AtomicBool,
    /// Transactions the node has taken.
    pub(crate) taken: AtomicU64,
    /// Transactions mined so far.
    pub(crate) mined: AtomicU64,
    /// The sending has failed: there is nothing to wait for.
    pub(crate) failed: AtomicBool,
}

/// Watches the chain from `head` on until it has mined what was taken.
pub(crate) fn follow(
    node: &Node,
    mut head: u64,
    goal: &Goal,
    watch: &Watch,
    patience: Duration,
) -> anyhow::Result<Vec<SeenBlock>> {
    let mut blocks: Vec<SeenBlock> = Vec::new();
    let mut mined = 0;
    let mut last_progress = Instant::now();
    loop {
        let sent = goal.sent.load(Relaxed);
        if goal.failed.load(Relaxed) || sent && mined >= goal.taken.load(Relaxed) {
            return Ok(blocks);
        }
        let newest = node.rpc.block_number()?;
        let at = Instant::now();
        while head < newest {
            head += 1;
            let txs = node.rpc.tx_count(head)?;
            mined += txs;
            goal.mined.store(mined, Relaxed);
            if txs > 0 {
                last_progress = at;
            }
            blocks.push(SeenBlock { number: head, at, txs });
        }
        // While sending, what was answered is what there is to mine.
        let taken = if sent { goal.taken.load(Relaxed) } else { watch.operations.load(Relaxed) };
        if mined >= taken {
            last_progress = Instant::now();
        } else if last_progress.elapsed() > patience {
            bail!(
                "{} of {taken} transactions are mined, and none for {patience:.0?} (--patience)",
                mined.min(taken)
            );
        }
        std::thread::park_timeout(POLL_INTERVAL);
    }
}

/// Seconds since `begun` and base fee in gwei of the blocks seen.
pub(crate) fn base_fees(node: &Node, blocks: &[SeenBlock], begun: Instant) -> Vec<(f64, f64)> {
    let Some(last) = blocks.last() else { return Vec::new() };
    let count = (blocks.len() as u64).min(MAX_FEE_BLOCKS);
    let params = json!([hex(count), hex(last.number), []]);
    // A chain without a fee market has none to show.
    let Ok(history) = node.rpc.call("eth_feeHistory", params) else { return Vec::new() };
    let fees = history["baseFeePerGas"].as_array().into_iter().flatten();
    let fees = fees.filter_map(|fee| crate::rpc::quantity(fee).ok());
    // A node may answer for fewer blocks than asked.
    let oldest = crate::rpc::quantity(&history["oldestBlock"]).unwrap_or(u64::MAX);
    let shown = blocks.iter().skip_while(|block| block.number < oldest);
    let point = |(block, wei): (&SeenBlock, u64)| {
        (block.at.saturating_duration_since(begun).as_secs_f64(), wei as f64 / 1e9)
    };
    shown.zip(fees).map(point).collect()
}
