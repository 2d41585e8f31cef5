//! Flush: writes the layers of committed blocks into the index environment, in bulk.
//!
//! Takes layers of committed blocks, in order, and checkpoints of the trie.
//! Gives the number of the last flushed block, below which views drop their layers, and that of the
//! last checkpoint written.
//! State: the only writer of the index environment; layers gathered so far; a checkpoint whose
//! block is not flushed yet.
//! Bound: changes and blocks gathered before a write; one checkpoint.
//! When full: writes; meanwhile layers wait in the ring, and then blocks in commit.

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

/// Accounts and slots gathered before a write: so many that sorted puts share their pages, and what
/// changed several times is written once. A page holds some 50 entries, and is written whole for one:
/// with a fifth of the state gathered a change costs 400 bytes of pages. Above ten million entries
/// the bound below holds instead, and a change costs more.
const FLUSH_STATE_PART: u64 = 5;
/// Least gathered, and most: a change costs about 160 bytes in its layer, and a restart computes it
/// again. A million are half a million transfers, most of whose accounts are written once for several
/// changes.
const FLUSH_WEIGHT_MIN: usize = 1_000_000;
const FLUSH_WEIGHT_MAX: usize = 2_000_000;
/// Blocks gathered before a write: bounds how many layers a read walks, beside those that come
/// while a write is going on.
const FLUSH_BLOCKS: usize = 128;
/// Longest time a layer waits for company where the least is gathered, and where the most is: any few
/// changes to a large state rewrite most of its pages.
const FLUSH_PATIENCE_MIN: Duration = Duration::from_secs(5);
const FLUSH_PATIENCE_MAX: Duration = Duration::from_secs(25);

/// The layers of a group of committed blocks.
pub(super) type Layers = Vec<Arc<Layer>>;

/// See the module.
#[derive(Debug)]
pub(super) struct Flush {
    index: IndexDb,
    layers: Inbox<Layers>,
    flushed: Arc<AtomicU64>,
    checkpoints: Inbox<TrieCheckpoint>,
    /// A checkpoint of a block that may not be flushed yet, or not even be durable.
    checkpoint: Option<TrieCheckpoint>,
    /// Block of the last checkpoint written.
    trie_written: Arc<AtomicU64>,
    gathered: Vec<Arc<Layer>>,
    weight: usize,
    /// Weight from which a write is due, and age.
    due: (usize, Duration),
    oldest: Instant,
    meter: Arc<Meter>,
}

impl Flush {
    /// The stage; `flushed` and `trie_written` tell the others how far it is.
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
            gathered: Vec::new(),
            weight: 0,
            due: due(0),
            oldest: Instant::now(),
            meter,
        }
    }

    /// Writes the checkpoint at hand if its block is flushed; tells whether it did.
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
            || self.gathered.len() >= FLUSH_BLOCKS
            || self.oldest.elapsed() >= age
            // Seal may stand still until a checkpoint is taken, and then no block comes any more.
            || self.checkpoint.is_some() && self.checkpoints.depth() > 0
            || self.layers.is_finished()
    }

    /// With no layer at hand. Once no more will come, what is left after a fault are checkpoints of blocks
    /// that never became durable: they are dropped, for seal waits until they are taken.
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
        write_layers(&self.index, &self.gathered)?;
        let newest = self.gathered.last().expect("only called with layers gathered");
        self.flushed.store(newest.number(), Ordering::Release);
        self.meter.give(self.gathered.len());
        self.gathered.clear();
        self.weight = 0;
        Ok(())
    }
}

/// How much to gather, in weight and time, where the state has so many accounts and slots.
fn due(state_entries: u64) -> (usize, Duration) {
    let part = usize::try_from(state_entries / FLUSH_STATE_PART).unwrap_or(FLUSH_WEIGHT_MAX);
    let weight = part.clamp(FLUSH_WEIGHT_MIN, FLUSH_WEIGHT_MAX);
    let above = (weight - FLUSH_WEIGHT_MIN) as f64 / (FLUSH_WEIGHT_MAX - FLUSH_WEIGHT_MIN) as f64;
    (weight, FLUSH_PATIENCE_MIN + (FLUSH_PATIENCE_MAX - FLUSH_PATIENCE_MIN).mul_f64(above))
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
            if self.gathered.is_empty() {
                self.oldest = Instant::now();
                self.due = due(self.index.reader()?.state_entries()?);
            }
            self.weight += layers.iter().map(|layer| layer.weight()).sum::<usize>();
            self.gathered.extend(layers);
            if self.is_due() {
                self.write()?;
            }
            return Ok(Progress::Worked);
        }
        if self.gathered.is_empty() {
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
    fn more_is_gathered_where_the_state_is_large() {
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
        // Commit has failed, and seal still empties what is before it.
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
