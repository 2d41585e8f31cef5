//! Follows the chain while transactions are sent. Records when each block appeared and how many
//! transactions it contained.

use crate::{drive::Watch, options::Node, rpc::hex};
use anyhow::bail;
use serde_json::json;
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Polling interval of the head.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum blocks of one `eth_feeHistory` call.
const MAX_FEE_BLOCKS: u64 = 1024;

/// A block that appeared during the load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenBlock {
    pub(crate) number: u64,
    pub(crate) at: Instant,
    pub(crate) txs: u64,
}

/// Progress of sending and mining.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Whether everything has been sent; `accepted` is final from then on.
    pub(crate) sent: AtomicBool,
    /// Transactions that the node accepted.
    pub(crate) accepted: AtomicU64,
    /// Transactions mined so far.
    pub(crate) mined: AtomicU64,
    /// Whether sending failed, so that there is nothing to wait for.
    pub(crate) failed: AtomicBool,
}

/// Follows the chain after block `head` until all accepted transactions are mined or sending has
/// failed. Fails if no transaction is mined for `patience`.
pub(crate) fn follow(
    node: &Node,
    mut head: u64,
    progress: &Progress,
    watch: &Watch,
    patience: Duration,
) -> anyhow::Result<Vec<SeenBlock>> {
    let mut blocks: Vec<SeenBlock> = Vec::new();
    let mut mined = 0;
    let mut last_progress = Instant::now();
    loop {
        let sent = progress.sent.load(Relaxed);
        if progress.failed.load(Relaxed) || sent && mined >= progress.accepted.load(Relaxed) {
            return Ok(blocks);
        }
        let newest = node.rpc.block_number()?;
        let at = Instant::now();
        while head < newest {
            head += 1;
            let txs = node.rpc.tx_count(head)?;
            mined += txs;
            progress.mined.store(mined, Relaxed);
            if txs > 0 {
                last_progress = at;
            }
            blocks.push(SeenBlock { number: head, at, txs });
        }
        // While requests are being sent, every answered transaction counts as accepted.
        let accepted =
            if sent { progress.accepted.load(Relaxed) } else { watch.operations.load(Relaxed) };
        if mined >= accepted {
            last_progress = Instant::now();
        } else if last_progress.elapsed() > patience {
            bail!(
                "{} of {accepted} transactions are mined, and none in the last {patience:.0?} (--patience)",
                mined.min(accepted)
            );
        }
        std::thread::park_timeout(POLL_INTERVAL);
    }
}

/// Returns the seconds since `begun` and the base fee in gwei of each block.
pub(crate) fn base_fees(node: &Node, blocks: &[SeenBlock], begun: Instant) -> Vec<(f64, f64)> {
    let Some(last) = blocks.last() else { return Vec::new() };
    let count = (blocks.len() as u64).min(MAX_FEE_BLOCKS);
    let params = json!([hex(count), hex(last.number), []]);
    // A node whose chain has no fee market may not serve the method.
    let Ok(history) = node.rpc.call("eth_feeHistory", params) else { return Vec::new() };
    let fees = history["baseFeePerGas"].as_array().into_iter().flatten();
    let fees = fees.filter_map(|fee| crate::rpc::quantity(fee).ok());
    // A node may return fewer blocks than requested.
    let oldest = crate::rpc::quantity(&history["oldestBlock"]).unwrap_or(u64::MAX);
    let shown = blocks.iter().skip_while(|block| block.number < oldest);
    let point = |(block, wei): (&SeenBlock, u64)| {
        (block.at.saturating_duration_since(begun).as_secs_f64(), wei as f64 / 1e9)
    };
    shown.zip(fees).map(point).collect()
}
