//! Commit: makes blocks durable, then publishes them.
//!
//! Input: sealed blocks, in order.
//! Output: layers for flush, and the new view for readers.
//! State: the only writer of the chain environment.
//! Limits: one group of blocks per write transaction.
//! Back-pressure: layers wait for flush up to the ring's depth, and then blocks wait here.

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

/// Maximum number of blocks in one write transaction, which share one fsync and all wait for it.
const GROUP_BLOCKS: usize = 64;
/// Approximate maximum bytes of bodies in one write transaction, in addition to receipts.
const GROUP_BYTES: usize = 16 * 1024 * 1024;

/// Totals of the blocks that this run made durable.
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

/// The stage; see the module documentation.
#[derive(Debug)]
pub(super) struct Commit {
    chain: ChainDb,
    published: Published,
    ports: Ports,
    totals: Arc<CommittedTotals>,
    /// Reports to other threads whether the disk responds.
    disk: DiskWatch,
    meter: Arc<Meter>,
}

/// The ring ends of the stage.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) sealed: Inbox<SealedBlock>,
    pub(super) layers: Outbox<Layers>,
}

impl Commit {
    /// Creates the stage at the head of `chain`.
    pub(super) fn new(
        chain: ChainDb,
        published: Published,
        ports: Ports,
        totals: Arc<CommittedTotals>,
        disk: DiskWatch,
        meter: Arc<Meter>,
    ) -> Self {
        Self { chain, published, ports, totals, disk, meter }
    }

    /// Takes the waiting blocks, up to one group.
    fn group(&self) -> Vec<SealedBlock> {
        let mut group = Vec::new();
        let mut bytes = 0;
        while group.len() < GROUP_BLOCKS && bytes < GROUP_BYTES {
            let Some(block) = self.ports.sealed.take() else { break };
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
        if !self.ports.layers.ready() {
            return Ok(Progress::Blocked);
        }
        let group = self.group();
        if group.is_empty() {
            let over = self.ports.sealed.is_finished();
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
        // Announced only now, because the blocks are durable.
        self.totals.add(transactions, gas);
        if let Some(view) = newest {
            self.published.publish(view);
        }
        self.meter.give(layers.len());
        self.ports.layers.send(layers);
        Ok(Progress::Worked)
    }
}
