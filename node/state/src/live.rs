//! The trie of the newest state over the index: what seal computes roots with, and what replays
//! blocks that the trie records of the index do not have.

use crate::StateView;
use alloy_primitives::B256;
use storage::{
    ChainReader, IndexDb, LiveTrie, ReadError, StateChanges, TrieCheckpoint,
    trie::{EMPTY_ROOT_HASH, TRIE_CACHE_BYTES_MIN, TrieError},
    update_state_root,
};

/// Records changed since the last checkpoint from which the next one is due in any case: 700 MB of
/// records, of ten million accounts, beside the trie. So many that a checkpoint of a large state,
/// which rewrites most pages of the table, is paid for by millions of changes. Fewer where the
/// memory of the trie is bounded below that.
pub const CHECKPOINT_RECORDS: usize = 1 << 21;
/// Accounts and slots changed since the last checkpoint before the next one is due: what a restart
/// computes again, 2 to 3 seconds' work. A million transfers; in a state of some million accounts
/// up to four times as many, by the bounds around.
pub const CHECKPOINT_CHANGES: usize = 2_000_000;
/// Changes for each record to be written: in a large state nearly every change is of another record,
/// and to wait for more of them writes each record less often.
const CHANGES_A_RECORD: usize = 4;
/// Bytes that a changed record takes: none of them may leave memory before its checkpoint.
const RECORD_BYTES: u64 = 350;

/// See the module.
#[derive(Debug)]
pub struct StateTrie {
    live: LiveTrie,
    index: IndexDb,
    /// The newest block applied; `None` before block 0.
    number: Option<u64>,
    /// Accounts and slots changed since the last checkpoint.
    changed: usize,
    /// Records changed from which a checkpoint is due in any case.
    records_most: usize,
}

impl StateTrie {
    /// The trie as the index has it. `limit` bounds its memory, bytes.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn open(index: &IndexDb, limit: u64) -> Result<Self, ReadError> {
        let at = index.reader()?.trie_block()?;
        let root = at.map_or(EMPTY_ROOT_HASH, |(_, root)| root);
        let number = at.map(|(number, _)| number);
        let live = LiveTrie::new(root, limit);
        let records_most = records_most(limit);
        Ok(Self { live, index: index.clone(), number, changed: 0, records_most })
    }

    /// Number of the next block.
    pub fn next(&self) -> u64 {
        self.number.map_or(0, |number| number + 1)
    }

    /// Root after the newest block applied.
    pub const fn state_root(&self) -> B256 {
        self.live.state_root()
    }

    /// Bytes of memory in use.
    pub fn bytes(&self) -> usize {
        self.live.bytes()
    }

    /// Applies the next block; tells the state root after it.
    ///
    /// # Errors
    /// When records cannot be read, are missing or damaged. The trie is of no use then.
    pub fn update(&mut self, changes: &StateChanges) -> Result<B256, TrieError<ReadError>> {
        let reader = self.index.reader().map_err(TrieError::Read)?;
        let root = self.live.update(&reader, changes)?;
        self.number = Some(self.next());
        self.changed += weight(changes);
        Ok(root)
    }

    /// The state root after `changes` to the newest state, which stays as it is.
    ///
    /// # Errors
    /// When records cannot be read, are missing or damaged.
    pub fn root_after(&self, changes: &StateChanges) -> Result<B256, TrieError<ReadError>> {
        let reader = self.index.reader().map_err(TrieError::Read)?;
        let nodes = self.live.nodes(&reader);
        let updated = update_state_root(&nodes, changes, self.state_root());
        updated.map(|(root, _)| root).map_err(TrieError::flatten)
    }

    /// Applies the blocks up to the one before `state.next()`, which its layers or the chain have.
    ///
    /// # Errors
    /// When records cannot be read, are missing or damaged.
    pub fn catch_up(
        &mut self,
        state: &StateView,
        blocks: &ChainReader,
    ) -> Result<(), TrieError<ReadError>> {
        for number in self.next()..state.next() {
            let layer = state.layers().iter().find(|layer| layer.number() == number);
            match layer {
                Some(layer) => self.update(layer.changes())?,
                None => {
                    let changes = blocks.changes(number).map_err(TrieError::Read)?;
                    self.update(&changes.unwrap_or_default())?
                }
            };
        }
        Ok(())
    }

    /// Whether so much has changed since the last checkpoint that the next one is due.
    pub fn is_checkpoint_due(&self) -> bool {
        is_due(self.changed, self.live.dirty(), self.records_most)
    }

    /// Records that differ from the last checkpoint's.
    pub fn dirty(&self) -> usize {
        self.live.dirty()
    }

    /// Hands over what has changed since the last checkpoint; `None` before block 0.
    pub fn checkpoint(&mut self) -> Option<TrieCheckpoint> {
        self.changed = 0;
        Some(self.live.checkpoint(self.number?))
    }

    /// Leaves the checkpoint to another trie that follows the same blocks.
    pub fn skip_checkpoint(&mut self) {
        if let Some(number) = self.number {
            self.changed = 0;
            self.live.skip_checkpoint(number);
        }
    }

    /// Learns that the index has the checkpoints up to block `number`.
    pub fn written(&mut self, number: u64) {
        self.live.written(number);
    }

    /// Whether every checkpoint is in the index.
    pub fn is_written(&self) -> bool {
        self.live.is_written()
    }
}

/// Accounts and slots changed.
fn weight(changes: &StateChanges) -> usize {
    changes.accounts.iter().map(|change| 1 + change.slots.len()).sum()
}

/// Records that may wait for their checkpoint where the trie has so many bytes.
fn records_most(limit: u64) -> usize {
    let fit = limit.max(TRIE_CACHE_BYTES_MIN) / RECORD_BYTES;
    usize::try_from(fit).unwrap_or(usize::MAX).min(CHECKPOINT_RECORDS)
}

/// Whether a checkpoint is due after so many changes, with so many records to be written, of
/// `records_most` that may be.
fn is_due(changed: usize, dirty: usize, records_most: usize) -> bool {
    dirty >= records_most || changed >= CHECKPOINT_CHANGES.max(CHANGES_A_RECORD * dirty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_waits_for_changes_to_share_records() {
        let is_due = |changed, dirty| is_due(changed, dirty, CHECKPOINT_RECORDS);
        // A million accounts: most records change again and again.
        assert!(!is_due(1_999_999, 300_000));
        assert!(is_due(2_000_000, 300_000));
        // Ten million: nearly each change is of another record, up to the bound.
        assert!(!is_due(3_500_000, 2_000_000));
        assert!(is_due(3_500_000, CHECKPOINT_RECORDS));
        assert!(is_due(8_000_000, 2_000_000));
    }

    #[test]
    fn a_trie_with_little_memory_keeps_few_records_back() {
        assert_eq!(records_most(2 << 30), CHECKPOINT_RECORDS);
        let few = records_most(64 << 20);
        assert_eq!(few, (64 << 20) / 350);
        assert!(!is_due(few, few - 1, few) && is_due(few, few, few));
        // No less than the least bound of the trie itself.
        assert_eq!(records_most(0), records_most(16 << 20));
    }
}
