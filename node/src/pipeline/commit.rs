//! Commit: makes blocks durable, then publishes them.
//!
//! Takes sealed blocks, in order.
//! Gives layers to flush, and the new view to readers.
//! State: the only writer of the chain environment.
//! Bound: a group of blocks per write transaction.
//! When full: layers wait for flush up to the ring's depth; then blocks wait here.

use super::{
    batch::SealedBlock,
    fault::Fault,
    flush::Layers,
    meter::Meter,
    ring::{Inbox, Outbox},
    stage::{Progress, Stage},
};
use crate::view::Published;
use std::sync::Arc;
use storage::ChainDb;

/// Most blocks in one write transaction: they share one fsync, and all wait for it.
const GROUP_BLOCKS: usize = 64;
/// Most bytes of bodies in one write transaction, roughly; receipts come on top.
const GROUP_BYTES: usize = 16 * 1024 * 1024;

/// See the module.
#[derive(Debug)]
pub(super) struct Commit {
    chain: ChainDb,
    published: Published,
    sealed: Inbox<SealedBlock>,
    layers: Outbox<Layers>,
    meter: Arc<Meter>,
}

impl Commit {
    /// The stage at the head of `chain`.
    pub(super) fn new(
        chain: ChainDb,
        published: Published,
        sealed: Inbox<SealedBlock>,
        layers: Outbox<Layers>,
        meter: Arc<Meter>,
    ) -> Self {
        Self { chain, published, sealed, layers, meter }
    }

    /// Takes what is waiting, up to a group.
    fn group(&self) -> Vec<SealedBlock> {
        let mut group = Vec::new();
        let mut bytes = 0;
        while group.len() < GROUP_BLOCKS && bytes < GROUP_BYTES {
            let Some(block) = self.sealed.take() else { break };
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
        if !self.layers.ready() {
            return Ok(Progress::Blocked);
        }
        let group = self.group();
        if group.is_empty() {
            let over = self.sealed.is_finished();
            return Ok(if over { Progress::Finished } else { Progress::Idle });
        }
        self.meter.take(group.len());
        let mut records = Vec::with_capacity(group.len());
        let mut layers = Vec::with_capacity(group.len());
        let mut newest = None;
        for block in group {
            records.push(block.record);
            layers.push(block.layer);
            newest = Some(block.view);
        }
        self.chain.append(&records)?;
        // Durable: from here on the blocks are announced.
        if let Some(view) = newest {
            self.published.publish(view);
        }
        self.meter.give(layers.len());
        self.layers.send(layers);
        Ok(Progress::Worked)
    }
}
