//! Records the newest block that each node reports, across its restarts.

use crate::rpc::{Rpc, quantity};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// Polling interval of the newest block.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// What the nodes reported.
#[derive(Debug)]
pub(super) struct Heads {
    reported: Mutex<Reported>,
}

#[derive(Debug)]
struct Reported {
    /// The newest block of each node.
    newest: Vec<u64>,
    /// Hashes of the blocks that any node reported, by number.
    hashes: BTreeMap<u64, String>,
}

impl Heads {
    pub(super) fn new(nodes: usize) -> Self {
        let reported = Reported { newest: vec![0; nodes], hashes: BTreeMap::new() };
        Self { reported: Mutex::new(reported) }
    }

    /// Polls the newest block of a node until `done` is set, even while the node is down.
    pub(super) fn watch(&self, node: usize, rpc: &Rpc, done: &AtomicBool) -> anyhow::Result<()> {
        while !done.load(Relaxed) {
            if let Ok(block) = rpc.call("eth_getBlockByNumber", json!(["latest", false])) {
                self.record(node, &block)?;
            }
            std::thread::park_timeout(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Records the newest block of a node. Fails if the node has already reported a later one, or if any node has
    /// reported a different block with this number.
    fn record(&self, node: usize, block: &Value) -> anyhow::Result<()> {
        let number = quantity(&block["number"])?;
        let hash = block["hash"].as_str().context("a block without a hash")?;
        let mut reported = self.reported();
        if number < reported.newest[node] {
            bail!(
                "the newest block of node {node} was {} and is now {number}",
                reported.newest[node]
            );
        }
        reported.newest[node] = number;
        let known = reported.hashes.entry(number).or_insert_with(|| hash.to_owned());
        if *known != hash {
            bail!("node {node} reported block {number} as {hash}, and another node as {known}");
        }
        Ok(())
    }

    /// Hashes of all reported blocks.
    pub(super) fn hashes(&self) -> BTreeMap<u64, String> {
        self.reported().hashes.clone()
    }

    fn reported(&self) -> MutexGuard<'_, Reported> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_heads_and_other_hashes_are_errors() {
        let heads = Heads::new(2);
        let block = |number: &str, hash: &str| json!({ "number": number, "hash": hash });
        heads.record(0, &block("0x5", "a")).unwrap();
        heads.record(0, &block("0x5", "a")).unwrap();
        heads.record(1, &block("0x4", "b")).unwrap();
        let older = heads.record(0, &block("0x4", "b")).unwrap_err().to_string();
        assert_eq!(older, "the newest block of node 0 was 5 and is now 4");
        let other = heads.record(1, &block("0x5", "c")).unwrap_err().to_string();
        assert_eq!(other, "node 1 reported block 5 as c, and another node as a");
        assert_eq!(heads.hashes().len(), 2);
    }
}
