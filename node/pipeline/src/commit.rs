//! Commit: makes blocks durable, then publishes them.
//!
//! Input: sealed blocks, in order.
//! Output: layers for flush, and the new view for readers.
//! State: the chain environment, of which this stage is the only writer.
//! Limits: one group of blocks per write transaction.
//! Back-pressure: layers wait for flush up to the ring's depth, and then blocks wait here.

use super::{
    batch::{InOrder, SealedBlock},
    branch::Choice,
    fault::Fault,
    flush::ToFlush,
    meter::Meter,
    options::Certify,
    ring::{Inbox, Outbox},
    stage::{HOUSEKEEPING, Progress, Stage},
    undo::{Rebuild, Undo},
};
use alloy_primitives::Bytes;
use certificates::BlockId;
use home::{replay_block, stored_header};
use platform::disk_watch::DiskWatch;
use state::{ChainView, Published, UndoneBlock, UndoneBranch, View};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use storage::{BlockRecord, ChainDb};

/// Maximum number of blocks in one write transaction. They share one fsync, and all of them wait for it.
const GROUP_BLOCKS: usize = 64;
/// Approximate maximum bytes of block bodies in one write transaction, not counting receipts.
const GROUP_BYTES: usize = 16 * 1024 * 1024;

/// Maximum number of undone blocks whose logs are reported as removed, the newest ones: as many as
/// `storage.undo-blocks` can be.
const MAX_REPORTED_BLOCKS: u64 = 1024;
/// Polling interval while waiting for ante to journal the transactions of undone blocks, or to pause.
const ANTE_WAIT: Duration = Duration::from_millis(1);

/// Totals of the blocks that this run made durable.
#[derive(Debug, Default)]
pub struct CommittedTotals {
    transactions: AtomicU64,
    gas: AtomicU64,
}

impl CommittedTotals {
    /// Returns the number of transactions in the blocks.
    pub fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Relaxed)
    }

    /// Returns the gas used by the blocks.
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
    /// Certifies the blocks of a producer or a validator.
    certifier: Option<Arc<dyn Certify>>,
    ports: Ports,
    totals: Arc<CommittedTotals>,
    /// An undo that takes effect after the blocks taken so far.
    undo: Option<Arc<Undo>>,
    /// A rebuild of the index that takes effect after the blocks taken so far.
    rebuild: Option<Arc<Rebuild>>,
    /// A choice whose blocks are among those taken so far.
    choice: Option<Arc<Choice>>,
    /// Reports to other threads whether the disk responds.
    disk: DiskWatch,
    meter: Arc<Meter>,
}

/// The ring ends of the stage.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) sealed: Inbox<InOrder<SealedBlock>>,
    pub(super) layers: Outbox<ToFlush>,
}

impl Commit {
    /// Creates the stage at the head of `chain`.
    pub(super) fn new(
        chain: ChainDb,
        published: Published,
        certifier: Option<Arc<dyn Certify>>,
        ports: Ports,
        totals: Arc<CommittedTotals>,
        disk: DiskWatch,
        meter: Arc<Meter>,
    ) -> Self {
        let (undo, rebuild, choice) = (None, None, None);
        Self { chain, published, certifier, ports, totals, undo, rebuild, choice, disk, meter }
    }

    /// Takes the waiting blocks, up to one group, or up to the next undo, rebuild or choice.
    fn group(&mut self) -> Vec<SealedBlock> {
        let mut group = Vec::new();
        let mut bytes = 0;
        while group.len() < GROUP_BLOCKS && bytes < GROUP_BYTES {
            match self.ports.sealed.take() {
                Some(InOrder::Block(block)) => {
                    bytes += block.record.body.len();
                    group.push(block);
                }
                Some(InOrder::Undo(undo)) => {
                    self.undo = Some(undo);
                    break;
                }
                Some(InOrder::Rebuild(rebuild)) => {
                    self.rebuild = Some(rebuild);
                    break;
                }
                Some(InOrder::Choose(choice)) => {
                    self.choice = Some(choice);
                    break;
                }
                Some(InOrder::Drop(_)) => {}
                None => break,
            }
        }
        group
    }

    /// Makes a group of blocks durable and publishes the newest one.
    fn append(&mut self, group: Vec<SealedBlock>) -> Result<(), Fault> {
        self.meter.count_received(group.len());
        let mut records = Vec::with_capacity(group.len());
        let mut layers = Vec::with_capacity(group.len());
        let (mut transactions, mut gas) = (0, 0);
        let mut newest = None;
        for mut block in group {
            if let Some(certificate) = self.certificate(&block.record) {
                block.record.certificate = Some(certificate);
            }
            transactions += block.record.senders.len() as u64;
            gas += block.view.head.header.gas_used;
            records.push(block.record);
            layers.push(block.layer);
            newest = Some(block.view);
        }
        self.disk.write(|| self.chain.append(&records))?;
        // Count and publish the blocks only now that they are durable.
        self.totals.add(transactions, gas);
        if let Some(view) = newest {
            self.published.publish(view);
        }
        self.meter.count_sent(layers.len());
        self.ports.layers.send(InOrder::Block(layers));
        Ok(())
    }

    /// Certifies a block. The certificate is stored with the block, so it cannot leave the node before the block is
    /// durable.
    fn certificate(&self, block: &BlockRecord) -> Option<Bytes> {
        let block = BlockId { number: block.number, hash: block.hash };
        self.certifier.as_ref()?.certificate(block)
    }

    /// Removes the blocks above the target of the undo in one transaction, and publishes the target.
    fn undo(&mut self, undo: Arc<Undo>) -> Result<(), Fault> {
        let branch = self.undone_branch(undo.number())?;
        self.disk.write(|| self.chain.truncate_after(undo.number()))?;
        let View { head, state, .. } = undo.view.clone();
        // Create it after the removal, so that its readers need not check whether the block is still in the chain.
        let chain = ChainView::new(self.chain.clone(), undo.number(), head.hash);
        self.published.publish_undo(View { head, state, chain, undone: 0 }, branch);
        undo.report();
        self.ports.layers.send(InOrder::Undo(undo));
        Ok(())
    }

    /// Reads the data about the newest undone blocks, those above `ancestor`, that subscribers receive.
    fn undone_branch(&self, ancestor: u64) -> Result<UndoneBranch, Fault> {
        let view = self.published.load();
        let blocks = view.blocks()?;
        let unreadable = |error| Fault::Home(Box::new(error));
        let first = (ancestor + 1).max(view.number().saturating_sub(MAX_REPORTED_BLOCKS - 1));
        let mut undone = Vec::new();
        for number in first..=view.number() {
            let (hash, header) = stored_header(&blocks, number).map_err(unreadable)?;
            let layer = view.state.layers().iter().find(|layer| layer.number() == number);
            let layer = match layer {
                Some(layer) => Arc::clone(layer),
                None => replay_block(&blocks, number).map_err(unreadable)?,
            };
            undone.push(UndoneBlock {
                number,
                hash,
                timestamp: header.timestamp,
                tx_hashes: layer.tx_hashes().to_vec(),
                receipts: blocks.receipts(number)?.unwrap_or_default(),
            });
        }
        Ok(UndoneBranch { ancestor, blocks: undone })
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
        if let Some(undo) = self.undo.take() {
            if !undo.is_journalled() {
                self.undo = Some(undo);
                return Ok(Progress::Idle);
            }
            self.undo(undo)?;
            return Ok(Progress::Worked);
        }
        if let Some(rebuild) = self.rebuild.take() {
            if !rebuild.is_paused() {
                self.rebuild = Some(rebuild);
                return Ok(Progress::Idle);
            }
            self.ports.layers.send(InOrder::Rebuild(rebuild));
            return Ok(Progress::Worked);
        }
        let group = self.group();
        let follows = self.undo.is_some() || self.rebuild.is_some() || self.choice.is_some();
        let worked = !group.is_empty() || follows;
        if !group.is_empty() {
            self.append(group)?;
        }
        if let Some(choice) = self.choice.take() {
            choice.report();
        }
        if worked {
            return Ok(Progress::Worked);
        }
        let over = self.ports.sealed.is_finished();
        Ok(if over { Progress::Finished } else { Progress::Idle })
    }

    fn wake_after(&self) -> Duration {
        match self.undo.is_some() || self.rebuild.is_some() {
            true => ANTE_WAIT,
            false => HOUSEKEEPING,
        }
    }
}
