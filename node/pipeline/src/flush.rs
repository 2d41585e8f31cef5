//! Flush: writes the layers of committed blocks into the index environment, in batches.
//!
//! Input: layers of committed blocks in order, undos, and checkpoints of the trie.
//! Output: the number of the last flushed block, up to which views drop their layers, and the block number of the
//! last checkpoint written.
//! State: the index environment, of which this stage is the only writer; collected layers; the newest layers, which
//! are kept back because their blocks may be undone; a checkpoint whose block is not flushed yet.
//! Limits: changes and blocks collected before a write; blocks and bytes kept back; one checkpoint.
//! Back-pressure: during a write, layers wait in the ring, and then blocks wait in commit.

use super::{
    batch::InOrder,
    fault::Fault,
    meter::Meter,
    ring::Inbox,
    stage::{Progress, Stage},
    undo::{Rebuild, Rebuilt, Undo},
    undo_floor::UndoFloor,
};
use home::replay;
use state::{Layer, write_layers};
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use storage::{ChainDb, IndexDb, TrieCheckpoint};

/// A write is due when the number of changes reaches the number of accounts and slots in the state divided by this, so
/// that sorted writes share pages and repeated changes are written once. A page holds some 50 entries and is always
/// written whole, so if a fifth of the state has changed, each change costs 400 bytes of pages. Above ten million
/// entries, [`MAX_FLUSH_WEIGHT`] applies, and a change costs more.
const FLUSH_STATE_DIVISOR: u64 = 5;
/// Minimum and maximum of the number of changes at which a write is due. A change costs about 160 bytes in its
/// layer, and must be read again after a restart. A million changes are half a million transfers, whose accounts
/// change several times on average and are written once.
const MIN_FLUSH_WEIGHT: usize = 1_000_000;
const MAX_FLUSH_WEIGHT: usize = 2_000_000;
/// Maximum number of blocks collected before a write. This limits how many layers a read walks, apart from those
/// that are kept back and those that arrive during a write.
const FLUSH_BLOCKS: usize = 128;
/// Age of the oldest collected layer at which a write is due. It grows from the minimum at [`MIN_FLUSH_WEIGHT`] to the
/// maximum at [`MAX_FLUSH_WEIGHT`], because even few changes to a large state rewrite most of its pages.
const MIN_FLUSH_DELAY: Duration = Duration::from_secs(5);
const MAX_FLUSH_DELAY: Duration = Duration::from_secs(25);

/// Approximate number of bytes of a change in a layer.
const CHANGE_BYTES: usize = 160;
/// Approximate maximum bytes of the layers that are kept back. Above it, fewer blocks can be undone.
const MAX_KEPT_BACK_BYTES: usize = 256 * 1024 * 1024;

/// The layers of a group of committed blocks.
pub(super) type Layers = Vec<Arc<Layer>>;
pub(super) type ToFlush = InOrder<Layers>;

/// The stage; see the module documentation.
#[derive(Debug)]
pub(super) struct Flush {
    chain: ChainDb,
    index: IndexDb,
    /// Maximum memory of the trie while the index is being rebuilt.
    trie_bytes: u64,
    /// The index was rebuilt, and the undo to a block after its end has not arrived yet.
    is_rebuilt: bool,
    layers: Inbox<ToFlush>,
    flushed: Arc<AtomicU64>,
    checkpoints: Inbox<TrieCheckpoint>,
    /// A checkpoint whose block may not be flushed or even durable yet.
    checkpoint: Option<TrieCheckpoint>,
    /// Block number of the last checkpoint written.
    trie_written: Arc<AtomicU64>,
    /// Layers to be written, oldest first, and the number of changes in them.
    collected: Vec<Arc<Layer>>,
    weight: usize,
    /// Newer layers, which are kept back, and the number of changes in them.
    kept_back: VecDeque<Arc<Layer>>,
    weight_kept_back: usize,
    /// Maximum number of blocks kept back.
    undo_blocks: usize,
    floor: UndoFloor,
    /// Number of changes at which a write is due, and age at which it is.
    due: (usize, Duration),
    oldest: Instant,
    meter: Arc<Meter>,
}

/// The ring ends of the stage, and the numbers through which it reports its progress.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) layers: Inbox<ToFlush>,
    /// The last flushed block.
    pub(super) flushed: Arc<AtomicU64>,
    pub(super) checkpoints: Inbox<TrieCheckpoint>,
    /// The block of the last checkpoint written.
    pub(super) trie_written: Arc<AtomicU64>,
}

impl Flush {
    pub(super) fn new(
        chain: ChainDb,
        index: IndexDb,
        trie_bytes: u64,
        ports: Ports,
        undo_blocks: usize,
        floor: UndoFloor,
        meter: Arc<Meter>,
    ) -> Self {
        let Ports { layers, flushed, checkpoints, trie_written } = ports;
        Self {
            chain,
            index,
            trie_bytes,
            is_rebuilt: false,
            layers,
            flushed,
            checkpoints,
            checkpoint: None,
            trie_written,
            collected: Vec::new(),
            weight: 0,
            kept_back: VecDeque::new(),
            weight_kept_back: 0,
            undo_blocks,
            floor,
            due: due(0),
            oldest: Instant::now(),
            meter,
        }
    }

    /// Writes the next checkpoint if its block is flushed; returns whether it did.
    fn write_trie(&mut self) -> Result<bool, Fault> {
        self.checkpoint.take_if(|next| next.is_withdrawn());
        if self.checkpoint.is_none() {
            self.checkpoint = self.checkpoints.take();
        }
        let flushed = self.flushed.load(Ordering::Acquire);
        let Some(checkpoint) = self.checkpoint.take_if(|next| next.number <= flushed) else {
            return Ok(false);
        };
        if checkpoint.is_withdrawn() {
            return Ok(true);
        }
        self.index.write_trie(&checkpoint)?;
        self.trie_written.store(checkpoint.number, Ordering::Release);
        Ok(true)
    }

    fn is_due(&self) -> bool {
        let (weight, age) = self.due;
        self.weight >= weight
            || self.collected.len() >= FLUSH_BLOCKS
            || self.oldest.elapsed() >= age
            // While seal waits until a checkpoint is taken, no block arrives.
            || self.checkpoint.is_some() && self.checkpoints.depth() > 0
            || self.layers.is_finished()
    }

    /// Returns the progress if no layer is waiting. When no more layers will arrive, any checkpoints that are left
    /// after a fault belong to blocks that never became durable. They are dropped, because seal waits until they
    /// are taken.
    fn progress_without_layers(&mut self) -> Progress {
        if !self.layers.is_finished() {
            return Progress::Idle;
        }
        if self.checkpoint.take().is_some() {
            return Progress::Worked;
        }
        if self.checkpoints.is_finished() { Progress::Finished } else { Progress::Idle }
    }

    /// Takes the layers that the index lacks after a start or a rebuild.
    pub(super) fn keep_back(&mut self, layers: &[Arc<Layer>]) {
        self.take(layers.to_vec());
    }

    /// Takes layers of committed blocks.
    fn take(&mut self, layers: Layers) {
        self.weight_kept_back += layers.iter().map(|layer| layer.weight()).sum::<usize>();
        self.kept_back.extend(layers);
        while self.kept_back.len() > self.undo_blocks
            || self.weight_kept_back * CHANGE_BYTES > MAX_KEPT_BACK_BYTES
        {
            self.collect_oldest();
        }
    }

    /// Moves the oldest layer that is kept back to the collected ones, which may be written.
    fn collect_oldest(&mut self) {
        let Some(layer) = self.kept_back.pop_front() else { return };
        if self.collected.is_empty() {
            self.oldest = Instant::now();
        }
        self.weight_kept_back -= layer.weight();
        self.weight += layer.weight();
        self.collected.push(layer);
    }

    /// If seal waits for a checkpoint to be taken, collects the layers up to the block of the checkpoint: no further
    /// block would arrive that would cause them to be collected. These blocks can no longer be undone.
    fn unblock_seal(&mut self) {
        let Some(checkpoint) = self.checkpoint.as_ref().filter(|_| self.checkpoints.depth() > 0)
        else {
            return;
        };
        let number = checkpoint.number;
        while self.kept_back.front().is_some_and(|layer| layer.number() <= number) {
            self.collect_oldest();
        }
    }

    /// Rebuilds the index from the chain, up to the block that is `undo_blocks` below `rebuild.to`. The old index
    /// contains the state of blocks that are about to be undone. Execute waits for the new one.
    fn rebuild(&mut self, rebuild: &Rebuild) -> Result<(), Fault> {
        self.collected.clear();
        self.kept_back.clear();
        (self.weight, self.weight_kept_back) = (0, 0);
        // The trie in seal is no longer used.
        self.checkpoint = None;
        while self.checkpoints.take().is_some() {}
        let number = rebuild.to.saturating_sub(self.undo_blocks as u64);
        tracing::info!(rebuild.to, "rebuilding the index to return to an earlier block");
        self.index = self.index.renew()?;
        replay(&self.chain, &self.index, number, self.trie_bytes)
            .map_err(|error| Fault::Home(Box::new(error)))?;
        self.flushed.store(number, Ordering::Release);
        self.trie_written.store(number, Ordering::Release);
        self.floor.restart(number);
        self.is_rebuilt = true;
        rebuild.finish(Rebuilt { index: self.index.clone(), number });
        Ok(())
    }

    /// Drops the layers of undone blocks, none of which has been written.
    fn undo(&mut self, undo: &Undo) {
        if std::mem::take(&mut self.is_rebuilt) {
            self.keep_back(undo.view.state.layers());
        }
        let number = undo.number();
        self.kept_back.retain(|layer| layer.number() <= number);
        self.collected.retain(|layer| layer.number() <= number);
        self.weight_kept_back = self.kept_back.iter().map(|layer| layer.weight()).sum();
        self.weight = self.collected.iter().map(|layer| layer.weight()).sum();
        self.floor.end_undo();
    }

    /// Writes the collected layers, unless one of their blocks is about to be undone.
    fn write(&mut self) -> Result<Progress, Fault> {
        let newest = self.collected.last().expect("only called with layers collected");
        if !self.floor.may_write(newest.number()) {
            return Ok(Progress::Idle);
        }
        write_layers(&self.index, &self.collected)?;
        self.flushed.store(newest.number(), Ordering::Release);
        self.meter.count_sent(self.collected.len());
        self.collected.clear();
        self.weight = 0;
        Ok(Progress::Worked)
    }
}

/// Returns how many changes to collect, and for how long, if the state has `state_entries` accounts and slots.
fn due(state_entries: u64) -> (usize, Duration) {
    let part = usize::try_from(state_entries / FLUSH_STATE_DIVISOR).unwrap_or(MAX_FLUSH_WEIGHT);
    let weight = part.clamp(MIN_FLUSH_WEIGHT, MAX_FLUSH_WEIGHT);
    let above = (weight - MIN_FLUSH_WEIGHT) as f64 / (MAX_FLUSH_WEIGHT - MIN_FLUSH_WEIGHT) as f64;
    (weight, MIN_FLUSH_DELAY + (MAX_FLUSH_DELAY - MIN_FLUSH_DELAY).mul_f64(above))
}

impl Stage for Flush {
    fn name(&self) -> &'static str {
        "flush"
    }

    fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        if self.write_trie()? {
            return Ok(Progress::Worked);
        }
        self.unblock_seal();
        if let Some(next) = self.layers.take() {
            match next {
                InOrder::Block(layers) => {
                    self.meter.count_received(layers.len());
                    if self.collected.is_empty() {
                        self.due = due(self.index.reader()?.state_entries()?);
                    }
                    self.take(layers);
                }
                InOrder::Undo(undo) => self.undo(&undo),
                InOrder::Rebuild(rebuild) => self.rebuild(&rebuild)?,
                // Commit does not send these: chosen blocks arrive like any others, and unfinished ones never arrive.
                InOrder::Choose(_) | InOrder::Drop(_) => {}
            }
            if !self.collected.is_empty() && self.is_due() {
                self.write()?;
            }
            return Ok(Progress::Worked);
        }
        if self.collected.is_empty() {
            return Ok(self.progress_without_layers());
        }
        if !self.is_due() {
            return Ok(Progress::Idle);
        }
        self.write()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::ring;
    use alloy_consensus::constants::EMPTY_ROOT_HASH;
    use storage::{ChainOptions, IndexOptions, trie::LiveTrie};

    #[test]
    fn larger_states_collect_more_changes() {
        assert_eq!(due(0), (1_000_000, Duration::from_secs(5)));
        assert_eq!(due(5_000_000), (1_000_000, Duration::from_secs(5)));
        assert_eq!(due(7_500_000), (1_500_000, Duration::from_secs(15)));
        assert_eq!(due(u64::MAX), (2_000_000, Duration::from_secs(25)));
    }

    #[test]
    fn checkpoints_of_blocks_that_never_became_durable_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        let index = IndexDb::open(path("index"), IndexOptions { map_bytes: 1 << 20 }).unwrap();
        let chain = ChainOptions { map_bytes: 1 << 20 };
        let chain = ChainDb::open(path("chain"), chain).unwrap();
        let (layers, layers_in) = ring("layers", 1, &[], &[]);
        let (mut checkpoints, checkpoints_in) = ring("checkpoints", 1, &[], &[]);
        let meter = Arc::new(Meter::new("flush"));
        let [flushed, written] = [0, 0].map(|number| Arc::new(AtomicU64::new(number)));
        let ports = Ports {
            layers: layers_in,
            flushed,
            checkpoints: checkpoints_in,
            trie_written: written,
        };
        let mut flush = Flush::new(chain, index, 0, ports, 0, UndoFloor::new(0), meter);
        // Commit has failed, but seal is still processing blocks that it received before.
        drop(layers);
        let mut trie = LiveTrie::new(EMPTY_ROOT_HASH, u64::MAX);
        for number in 5..=7 {
            checkpoints.send(trie.checkpoint(number));
            let mut steps = 0;
            while !checkpoints.ready() {
                assert_eq!(flush.step().unwrap(), Progress::Worked);
                steps += 1;
                assert!(steps < 10, "seal would wait forever");
            }
        }
        drop(checkpoints);
        let mut progress = Progress::Worked;
        while progress == Progress::Worked {
            progress = flush.step().unwrap();
        }
        assert_eq!(progress, Progress::Finished);
    }
}
