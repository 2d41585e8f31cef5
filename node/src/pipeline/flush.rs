//! Flush: writes the layers of committed blocks into the index environment, in bulk.
//!
//! Takes layers of committed blocks, in order.
//! Gives the number of the last flushed block, below which views drop their layers.
//! State: the only writer of the index environment; layers gathered so far.
//! Bound: changes and blocks gathered before a write.
//! When full: writes; meanwhile layers wait in the ring, and then blocks in commit.

use super::{
    fault::Fault,
    meter::Meter,
    ring::Inbox,
    stage::{Progress, Stage},
};
use crate::view::Layer;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use storage::{FlushBlock, IndexDb};

/// Accounts and slots gathered before a write: large enough that sorted puts share their pages, and
/// what changed several times is written once. A change costs about 160 bytes in its layer.
const FLUSH_WEIGHT: usize = 400_000;
/// Blocks gathered before a write: bounds how many layers a read walks.
const FLUSH_BLOCKS: usize = 128;
/// Longest time a layer waits for company.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(super) struct Flush {
    index: IndexDb,
    layers: Inbox<Vec<Arc<Layer>>>,
    flushed: Arc<AtomicU64>,
    gathered: Vec<Arc<Layer>>,
    weight: usize,
    oldest: Instant,
    meter: Arc<Meter>,
}

impl Flush {
    /// The stage; `flushed` tells the others how far it is.
    pub(super) fn new(
        index: IndexDb,
        layers: Inbox<Vec<Arc<Layer>>>,
        flushed: Arc<AtomicU64>,
        meter: Arc<Meter>,
    ) -> Self {
        let oldest = Instant::now();
        Self { index, layers, flushed, gathered: Vec::new(), weight: 0, oldest, meter }
    }

    fn is_due(&self) -> bool {
        self.weight >= FLUSH_WEIGHT
            || self.gathered.len() >= FLUSH_BLOCKS
            || self.oldest.elapsed() >= FLUSH_PATIENCE
            || self.layers.is_finished()
    }

    fn write(&mut self) -> Result<(), Fault> {
        write_layers(&self.index, &self.gathered)?;
        let newest = self.gathered.last().expect("only called with layers gathered");
        self.flushed.store(newest.number(), Ordering::Release);
        self.meter.give(self.gathered.len());
        self.gathered.clear();
        self.weight = 0;
        Ok(())
    }
}

/// Writes sealed layers into the index environment, in one transaction.
///
/// # Panics
/// If a layer is not sealed.
pub fn write_layers(index: &IndexDb, layers: &[Arc<Layer>]) -> Result<(), storage::WriteError> {
    let blocks: Vec<_> = layers
        .iter()
        .map(|layer| FlushBlock {
            number: layer.number(),
            hash: layer.hash().expect("only sealed layers are committed"),
            tx_hashes: layer.tx_hashes(),
            log_keys: layer.log_keys().expect("only sealed layers are committed"),
            changes: layer.changes(),
            trie: layer.trie().expect("only sealed layers are committed"),
        })
        .collect();
    index.flush(&blocks)
}

impl Stage for Flush {
    fn name(&self) -> &'static str {
        "flush"
    }

    fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        if let Some(layers) = self.layers.take() {
            self.meter.take(layers.len());
            if self.gathered.is_empty() {
                self.oldest = Instant::now();
            }
            self.weight += layers.iter().map(|layer| layer.weight()).sum::<usize>();
            self.gathered.extend(layers);
            if self.is_due() {
                self.write()?;
            }
            return Ok(Progress::Worked);
        }
        if self.gathered.is_empty() {
            let over = self.layers.is_finished();
            return Ok(if over { Progress::Finished } else { Progress::Idle });
        }
        if !self.is_due() {
            return Ok(Progress::Idle);
        }
        self.write()?;
        Ok(Progress::Worked)
    }
}
