//! Commit: makes blocks durable, then publishes them.
//!
//! Takes sealed blocks, in order.
//! Gives layers to flush, and the new view to readers.
//! State: the only writer of the chain environment.
//! Bound: a group of blocks per write transaction.
//! When full: layers wait for flush up to the ring's depth; then blocks wait here.

use super::{
    batch::SealedBlock,
    disk::DiskWatch,
    fault::Fault,
    flush::Layers,
    meter::Meter,
    ring::{Inbox, Outbox},
    stage::{Progress, Stage},
};
use state::Published;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use storage::ChainDb;

/// Most blocks in one write transaction: they share one fsync, and all wait for it.
const GROUP_BLOCKS: usize = 64;
/// Most bytes of bodies in one write transaction, roughly; receipts come on top.
const GROUP_BYTES: usize = 16 * 1024 * 1024;

/// What the blocks that this run made durable amount to.
#[derive(Debug, Default)]
pub struct CommittedTotals {
    transactions: AtomicU64,
    gas: AtomicU64,
}

impl CommittedTotals {
    /// Transactions of the blocks.
    pub fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Relaxed)
    }

    /// Gas used by the blocks.
    pub fn gas(&self) -> u64 {
        self.gas.load(Ordering::Relaxed)
    }

    fn add(&self, transactions: u64, gas: u64) {
        self.transactions.fetch_add(transactions, Ordering::Relaxed);
        self.gas.fetch_add(gas, Ordering::Relaxed);
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Commit {
    chain: ChainDb,
    published: Published,
    ends: Ends,
    totals: Arc<CommittedTotals>,
    /// Tells other threads whether the disk responds.
    disk: DiskWatch,
    meter: Arc<Meter>,
}

/// The stage's ends of rings.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) sealed: Inbox<SealedBlock>,
    pub(super) layers: Outbox<Layers>,
}

impl Commit {
    /// The stage at the head of `chain`.
    pub(super) fn new(
        chain: ChainDb,
        published: Published,
        ends: Ends,
        totals: Arc<CommittedTotals>,
        disk: DiskWatch,
        meter: Arc<Meter>,
    ) -> Self {
        Self { chain, published, ends, totals, disk, meter }
    }

    /// Takes what is waiting, up to a group.
    fn group(&self) -> Vec<SealedBlock> {
        let mut group = Vec::new();
        let mut bytes = 0;
        while group.len() < GROUP_BLOCKS && bytes < GROUP_BYTES {
            let Some(block) = self.ends.sealed.take() else { break };
            bytes += block.record.body.len();
            group.push(block);
        }
        group
    }
}

impl Stage for Commit {
    fn name(&self) -> &'static str {
        "commit"
    }

    fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        if !self.ends.layers.ready() {
            return Ok(Progress::Blocked);
        }
        let group = self.group();
        if group.is_empty() {
            let over = self.ends.sealed.is_finished();
            return Ok(if over { Progress::Finished } else { Progress::Idle });
        }
        self.meter.take(group.len());
        let mut records = Vec::with_capacity(group.len());
        let mut layers = Vec::with_capacity(group.len());
        let (mut transactions, mut gas) = (0, 0);
        let mut newest = None;
        for block in group {
            transactions += block.record.senders.len() as u64;
            gas += block.view.head.header.gas_used;
            records.push(block.record);
            layers.push(block.layer);
            newest = Some(block.view);
        }
        self.disk.write(|| self.chain.append(&records))?;
        // Durable: from here on the blocks are announced.
        self.totals.add(transactions, gas);
        if let Some(view) = newest {
            self.published.publish(view);
        }
        self.meter.give(layers.len());
        self.ends.layers.send(layers);
        Ok(Progress::Worked)
    }
}
