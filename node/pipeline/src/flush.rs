//! Flush: writes the layers of committed blocks into the index environment, in batches.
//!
//! Input: layers of committed blocks in order, and checkpoints of the trie.
//! Output: the number of the last flushed block, up to which views drop their layers, and that of the last
//! checkpoint written.
//! State: the only writer of the index environment; collected layers; a checkpoint whose block is not flushed
//! yet.
//! Limits: changes and blocks collected before a write; one checkpoint.
//! Back-pressure: during a write, layers wait in the ring, and then blocks wait in commit.

use super::{
    fault::Fault,
    meter::Meter,
    ring::Inbox,
    stage::{Progress, Stage},
};
use state::{Layer, write_layers};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use storage::{IndexDb, TrieCheckpoint};

/// Part of the state's accounts and slots that is collected before a write, so that sorted writes share pages
/// and repeated changes are written once. A page holds some 50 entries and is written as a whole, so with a
/// fifth of the state a change costs 400 bytes of pages. Above ten million entries the limit below applies,
/// and a change costs more.
const FLUSH_STATE_PART: u64 = 5;
/// Minimum and maximum number of changes before a write. A change costs about 160 bytes in its layer, and has
/// to be computed again after a restart. A million changes are half a million transfers, whose accounts
/// change several times on average and are written once.
const MIN_FLUSH_WEIGHT: usize = 1_000_000;
const MAX_FLUSH_WEIGHT: usize = 2_000_000;
/// Maximum number of blocks collected before a write. Limits how many layers a read walks, in addition to
/// those that arrive during a write.
const FLUSH_BLOCKS: usize = 128;
/// Maximum age of a collected layer, for the minimum and the maximum number of changes: even few changes to a
/// large state rewrite most of its pages.
const MIN_FLUSH_DELAY: Duration = Duration::from_secs(5);
const MAX_FLUSH_DELAY: Duration = Duration::from_secs(25);

/// The layers of a group of committed blocks.
pub(super) type Layers = Vec<Arc<Layer>>;

/// The stage; see the module documentation.
#[derive(Debug)]
pub(super) struct Flush {
    index: IndexDb,
    layers: Inbox<Layers>,
    flushed: Arc<AtomicU64>,
    checkpoints: Inbox<TrieCheckpoint>,
    /// A checkpoint whose block may not be flushed or even durable yet.
    checkpoint: Option<TrieCheckpoint>,
    /// Block of the last checkpoint written.
    trie_written: Arc<AtomicU64>,
    collected: Vec<Arc<Layer>>,
    weight: usize,
    /// Number of changes and age from which a write is due.
    due: (usize, Duration),
    oldest: Instant,
    meter: Arc<Meter>,
}

impl Flush {
    /// Creates the stage, which reports its progress in `flushed` and `trie_written`.
    pub(super) fn new(
        index: IndexDb,
        layers: Inbox<Layers>,
        flushed: Arc<AtomicU64>,
        checkpoints: Inbox<TrieCheckpoint>,
        trie_written: Arc<AtomicU64>,
        meter: Arc<Meter>,
    ) -> Self {
        Self {
            index,
            layers,
            flushed,
            checkpoints,
            checkpoint: None,
            trie_written,
            collected: Vec::new(),
            weight: 0,
            due: due(0),
            oldest: Instant::now(),
            meter,
        }
    }

    /// Writes the next checkpoint if its block is flushed; returns whether it did.
    fn write_trie(&mut self) -> Result<bool, Fault> {
        if self.checkpoint.is_none() {
            self.checkpoint = self.checkpoints.take();
        }
        let flushed = self.flushed.load(Ordering::Acquire);
        let Some(checkpoint) = self.checkpoint.take_if(|next| next.number <= flushed) else {
            return Ok(false);
        };
        self.index.write_trie(&checkpoint)?;
        self.trie_written.store(checkpoint.number, Ordering::Release);
        Ok(true)
    }

    fn is_due(&self) -> bool {
        let (weight, age) = self.due;
        self.weight >= weight
            || self.collected.len() >= FLUSH_BLOCKS
            || self.oldest.elapsed() >= age
            // Seal may wait until a checkpoint is taken, and then no block arrives any more.
            || self.checkpoint.is_some() && self.checkpoints.depth() > 0
            || self.layers.is_finished()
    }

    /// The progress if no layer is waiting. When no more layers will arrive, checkpoints that are left after
    /// a fault are of blocks that never became durable. They are dropped, because seal waits until they are
    /// taken.
    fn rest(&mut self) -> Progress {
        if !self.layers.is_finished() {
            return Progress::Idle;
        }
        if self.checkpoint.take().is_some() {
            return Progress::Worked;
        }
        if self.checkpoints.is_finished() { Progress::Finished } else { Progress::Idle }
    }

    fn write(&mut self) -> Result<(), Fault> {
        write_layers(&self.index, &self.collected)?;
        let newest = self.collected.last().expect("only called with layers collected");
        self.flushed.store(newest.number(), Ordering::Release);
        self.meter.give(self.collected.len());
        self.collected.clear();
        self.weight = 0;
        Ok(())
    }
}

/// How many changes to collect and for how long, if the state has `state_entries` accounts and slots.
fn due(state_entries: u64) -> (usize, Duration) {
    let part = usize::try_from(state_entries / FLUSH_STATE_PART).unwrap_or(MAX_FLUSH_WEIGHT);
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
        if let Some(layers) = self.layers.take() {
            self.meter.take(layers.len());
            if self.collected.is_empty() {
                self.oldest = Instant::now();
                self.due = due(self.index.reader()?.state_entries()?);
            }
            self.weight += layers.iter().map(|layer| layer.weight()).sum::<usize>();
            self.collected.extend(layers);
            if self.is_due() {
                self.write()?;
            }
            return Ok(Progress::Worked);
        }
        if self.collected.is_empty() {
            return Ok(self.rest());
        }
        if !self.is_due() {
            return Ok(Progress::Idle);
        }
        self.write()?;
        Ok(Progress::Worked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::ring;
    use alloy_consensus::constants::EMPTY_ROOT_HASH;
    use storage::{IndexOptions, trie::LiveTrie};

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
        let index = IndexDb::open(folder.path(), IndexOptions { map_bytes: 1 << 20 }).unwrap();
        let (layers, layers_in) = ring("layers", 1, &[], &[]);
        let (mut checkpoints, checkpoints_in) = ring("checkpoints", 1, &[], &[]);
        let meter = Arc::new(Meter::new("flush"));
        let [flushed, written] = [0, 0].map(|number| Arc::new(AtomicU64::new(number)));
        let mut flush = Flush::new(index, layers_in, flushed, checkpoints_in, written, meter);
        // Commit has failed, and seal still processes the blocks before it.
        drop(layers);
        let mut trie = LiveTrie::new(EMPTY_ROOT_HASH, u64::MAX);
        for number in 5..=7 {
            checkpoints.send(trie.checkpoint(number));
            let mut steps = 0;
            while !checkpoints.ready() {
                assert_eq!(flush.step().unwrap(), Progress::Worked);
                steps += 1;
                assert!(steps < 10, "seal would wait for ever");
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
