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

/// Transactions per request, each of another sender.
const BATCH: usize = 100;
/// Pause after a request that failed, and while the mempool is full.
const PAUSE: Duration = Duration::from_millis(20);
/// Polling interval of the size of the mempool.
const POOL_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum time without an acknowledged transaction.
const STALL_TIMEOUT: Duration = Duration::from_secs(120);
/// Transactions of a sender with different indices have different recipients.
const NONCES_PER_SENDER: u64 = 1 << 32;

/// Progress and limits of the load, which all shares have in common.
#[derive(Debug)]
pub(super) struct Load {
    /// Acknowledged transactions at which the load ends.
    pub(super) target: u64,
    /// Maximum transactions in the mempool while more are sent.
    pub(super) ahead: u64,
    pub(super) acknowledged: AtomicU64,
    /// Transactions in the mempool.
    pub(super) pooled: AtomicU64,
    /// Whether all kills are over: until then, more than the target is sent, so that no kill is without load.
    pub(super) are_kills_over: AtomicBool,
    /// Whether the load ends early, because something failed.
    pub(super) failed: AtomicBool,
}

/// The senders of one node.
#[derive(Debug)]
pub(super) struct Share {
    senders: Arc<Senders>,
    seed: u64,
    /// Places of its senders among all of them.
    places: Range<usize>,
    /// The next nonce of each.
    nonces: Vec<u64>,
    /// Senders whose next nonce is not known, with the number of their transactions that were acknowledged.
    unsure: BTreeMap<usize, u64>,
    /// An acknowledgement that names another transaction.
    wrong: Option<String>,
    /// Hashes of the acknowledged transactions.
    pub(super) acknowledged: Vec<B256>,
    /// Number of transactions without an answer, or with an error.
    pub(super) failed: u64,
}

impl Share {
    pub(super) fn new(senders: Arc<Senders>, seed: u64, number: usize, nodes: usize) -> Self {
        let count = senders.keys.len() / nodes;
        let places = number * count..(number + 1) * count;
        Self {
            senders,
            seed,
            places,
            nonces: vec![0; count],
            unsure: BTreeMap::new(),
            wrong: None,
            acknowledged: Vec::new(),
            failed: 0,
        }
    }

    /// The address of one of its senders.
    fn address(&self, sender: usize) -> Address {
        self.senders.keys[self.places.start + sender].address
    }

    /// The next transaction of one of its senders.
    fn transaction(&self, sender: usize) -> Vec<u8> {
        let place = self.places.start + sender;
        let nonce = self.nonces[sender];
        let to = self.senders.recipient(self.seed, place as u64 * NONCES_PER_SENDER + nonce);
        self.senders.template.transfer(&self.senders.keys[place], nonce, to, U256::ONE)
    }

    /// Sends one transaction of each of `senders`. Returns how many were acknowledged; an error if the request failed.
    fn send(&mut self, senders: &[usize], rpc: &Rpc) -> anyhow::Result<u64> {
        let transactions: Vec<_> = senders.iter().map(|sender| self.transaction(*sender)).collect();
        let params = transactions.iter().map(|raw| json!([hex::encode_prefixed(raw)]));
        let params: Vec<Value> = params.collect();
        let answers = match rpc.call_each("eth_sendRawTransaction", &params) {
            Ok(answers) => answers,
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
        for ((sender, raw), answer) in senders.iter().zip(&transactions).zip(answers) {
            let Ok(answer) = answer else {
                self.failed += 1;
                self.unsure.insert(*sender, self.nonces[*sender]);
                continue;
            };
            let hash = keccak256(raw);
            if answer != json!(hash) {
                self.wrong = Some(format!("transaction {hash} was acknowledged as {answer}"));
                continue;
            }
            self.nonces[*sender] += 1;
            self.acknowledged.push(hash);
            acknowledged += 1;
        }
        Ok(acknowledged)
    }

    /// Asks for the next nonces of senders whose transactions had no answer. An acknowledged transaction must not be missing.
    fn learn_nonces(&mut self, rpc: &Rpc) -> anyhow::Result<()> {
        let unsure: Vec<(usize, u64)> =
            self.unsure.iter().map(|(at, least)| (*at, *least)).collect();
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

impl Load {
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
        (is_sent && self.are_kills_over.load(Relaxed)) || self.failed.load(Relaxed)
    }

    /// Polls the sizes of the mempools until `done`, also while their nodes are down. The largest one counts.
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

/// The number of transactions in the mempool of the producer.
pub(super) fn pooled(producer: &Rpc) -> anyhow::Result<u64> {
    let status = producer.call("txpool_status", json!([]))?;
    let number = |name: &str| crate::rpc::quantity(&status[name]).context("txpool_status");
    Ok(number("pending")? + number("queued")?)
}
