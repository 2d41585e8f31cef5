//! Sends the transactions of some senders through one node.

use crate::{fund::Senders, rpc::Rpc};
use alloy_primitives::{Address, B256, U256, hex, keccak256};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Transactions per request, each from a different sender.
const BATCH: usize = 100;
/// Pause after a request that failed, and while the mempool is full.
const PAUSE: Duration = Duration::from_millis(20);
/// Polling interval of the size of the mempool.
const POOL_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum time without an acknowledged transaction.
const STALL_TIMEOUT: Duration = Duration::from_secs(120);
/// The recipient is derived from `index of the sender * NONCES_PER_SENDER + nonce`, which is unique.
const NONCES_PER_SENDER: u64 = 1 << 32;

/// Progress and limits of the load, shared by all threads.
#[derive(Debug)]
pub(super) struct LoadState {
    /// Acknowledged transactions at which the load ends.
    pub(super) target: u64,
    /// Maximum transactions in the mempool while more are sent.
    pub(super) ahead: u64,
    pub(super) acknowledged: AtomicU64,
    /// Transactions in the largest mempool of the producers.
    pub(super) pooled: AtomicU64,
    /// Whether all faults are over. Until then, the load continues beyond the target.
    pub(super) are_faults_over: AtomicBool,
    /// Whether the load ends early, because something failed.
    pub(super) failed: AtomicBool,
}

/// The senders of one node.
#[derive(Debug)]
pub(super) struct Share {
    senders: Arc<Senders>,
    seed: u64,
    /// Indices of the share's senders among all senders.
    indices: Range<usize>,
    /// The next nonce of each of the share's senders.
    nonces: Vec<u64>,
    /// Senders whose next nonce is unknown, with the minimum of that nonce: one above the last known transaction.
    unsure: BTreeMap<usize, u64>,
    /// The error text if an acknowledgement names another transaction.
    wrong: Option<String>,
    /// Hashes of the acknowledged transactions.
    pub(super) acknowledged: Vec<B256>,
    /// Number of transactions without a response, or with an error.
    pub(super) failed: u64,
}

impl Share {
    pub(super) fn new(senders: Arc<Senders>, seed: u64, number: usize, nodes: usize) -> Self {
        let count = senders.keys.len() / nodes;
        let indices = number * count..(number + 1) * count;
        Self {
            senders,
            seed,
            indices,
            nonces: vec![0; count],
            unsure: BTreeMap::new(),
            wrong: None,
            acknowledged: Vec::new(),
            failed: 0,
        }
    }

    /// Returns the address of one of the share's senders.
    fn address(&self, sender: usize) -> Address {
        self.senders.keys[self.indices.start + sender].address
    }

    /// Signs the next transaction of one of the share's senders.
    fn transaction(&self, sender: usize) -> Vec<u8> {
        let index = self.indices.start + sender;
        let nonce = self.nonces[sender];
        let to = self.senders.recipient(self.seed, index as u64 * NONCES_PER_SENDER + nonce);
        self.senders.template.transfer(&self.senders.keys[index], nonce, to, U256::ONE)
    }

    /// Sends one transaction of each of `senders`. Returns how many were acknowledged. Fails if the request fails.
    fn send(&mut self, senders: &[usize], rpc: &Rpc) -> anyhow::Result<u64> {
        let transactions: Vec<_> = senders.iter().map(|sender| self.transaction(*sender)).collect();
        let params = transactions.iter().map(|raw| json!([hex::encode_prefixed(raw)]));
        let params: Vec<Value> = params.collect();
        let responses = match rpc.call_each("eth_sendRawTransaction", &params) {
            Ok(responses) => responses,
            Err(error) => {
                // Some of them may have been accepted.
                self.failed += senders.len() as u64;
                for sender in senders {
                    self.unsure.insert(*sender, self.nonces[*sender]);
                }
                return Err(error);
            }
        };
        let mut acknowledged = 0;
        for ((sender, raw), response) in senders.iter().zip(&transactions).zip(responses) {
            let Ok(response) = response else {
                self.failed += 1;
                self.unsure.insert(*sender, self.nonces[*sender]);
                continue;
            };
            let hash = keccak256(raw);
            if response != json!(hash) {
                self.wrong = Some(format!("transaction {hash} was acknowledged as {response}"));
                continue;
            }
            self.nonces[*sender] += 1;
            self.acknowledged.push(hash);
            acknowledged += 1;
        }
        Ok(acknowledged)
    }

    /// Reads the next nonces of the senders in `unsure`. Fails while the node reports one below its minimum.
    fn learn_nonces(&mut self, rpc: &Rpc) -> anyhow::Result<()> {
        let unsure: Vec<(usize, u64)> =
            self.unsure.iter().map(|(sender, least)| (*sender, *least)).collect();
        for part in unsure.chunks(BATCH) {
            let params: Vec<_> =
                part.iter().map(|(sender, _)| json!([self.address(*sender), "pending"])).collect();
            let nonces = rpc.call_all("eth_getTransactionCount", &params)?;
            for ((sender, least), nonce) in part.iter().zip(&nonces) {
                let nonce = crate::rpc::quantity(nonce)?;
                // A producer that has just started may not have read its journal yet.
                if nonce >= *least {
                    self.nonces[*sender] = nonce;
                    self.unsure.remove(sender);
                }
            }
        }
        match self.unsure.iter().next() {
            None => Ok(()),
            Some((sender, least)) => bail!(
                "{least} transactions of {} were acknowledged, and its next nonce is lower",
                self.address(*sender)
            ),
        }
    }
}

impl LoadState {
    /// Sends the transactions of a share through the node at `rpc` until the target is reached.
    pub(super) fn send(&self, mut share: Share, rpc: &Rpc) -> anyhow::Result<Share> {
        let sent = self.send_all(&mut share, rpc);
        if sent.is_err() {
            self.failed.store(true, Relaxed);
        }
        sent.map(|()| share)
    }

    fn send_all(&self, share: &mut Share, rpc: &Rpc) -> anyhow::Result<()> {
        let all: Vec<usize> = (0..share.nonces.len()).collect();
        let mut last_progress = Instant::now();
        for batch in all.chunks(BATCH).cycle() {
            while self.pooled.load(Relaxed) > self.ahead && !self.is_over() {
                std::thread::park_timeout(PAUSE);
            }
            if self.is_over() {
                return Ok(());
            }
            let tried = share.learn_nonces(rpc).and_then(|()| share.send(batch, rpc));
            if let Some(wrong) = &share.wrong {
                bail!("{wrong}");
            }
            match tried {
                Ok(acknowledged) if acknowledged > 0 => {
                    self.acknowledged.fetch_add(acknowledged, Relaxed);
                    last_progress = Instant::now();
                }
                other if last_progress.elapsed() > STALL_TIMEOUT => {
                    other?;
                    bail!("no transaction was acknowledged for {} s", STALL_TIMEOUT.as_secs());
                }
                Ok(_) | Err(_) => std::thread::park_timeout(PAUSE),
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let is_sent = self.acknowledged.load(Relaxed) >= self.target;
        (is_sent && self.are_faults_over.load(Relaxed)) || self.failed.load(Relaxed)
    }

    /// Polls the sizes of the mempools until `done` is set, even while nodes are down, and stores the largest.
    pub(super) fn measure_pool(&self, producers: &[&Rpc], done: &AtomicBool) {
        while !done.load(Relaxed) {
            let sizes = producers.iter().filter_map(|producer| pooled(producer).ok());
            if let Some(largest) = sizes.max() {
                self.pooled.store(largest, Relaxed);
            }
            std::thread::park_timeout(POOL_POLL_INTERVAL);
        }
    }
}

/// Returns the number of pending and queued transactions in the mempool of a producer.
pub(super) fn pooled(producer: &Rpc) -> anyhow::Result<u64> {
    let status = producer.call("txpool_status", json!([]))?;
    let number = |name: &str| crate::rpc::quantity(&status[name]).context("txpool_status");
    Ok(number("pending")? + number("queued")?)
}
