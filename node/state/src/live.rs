//! The trie of the newest state, in memory above the trie records of the index. The seal stage computes state roots
//! with it. It can replay blocks that the trie records do not include.

use crate::{Fork, StateView};
use alloy_primitives::B256;
use storage::{
    ChainReader, IndexDb, LiveTrie, ReadError, StateChanges, TrieCheckpoint,
    trie::{EMPTY_ROOT_HASH, MIN_TRIE_CACHE_BYTES, TrieError},
    update_state_root,
};

/// Number of records changed since the last checkpoint from which the next one is due: 700 MB in addition to the
/// trie. It is this large because a checkpoint of a large state rewrites most pages of the table, and millions of
/// changes should share that cost. It is lower if the memory of the trie has a lower limit.
pub const CHECKPOINT_RECORDS: usize = 1 << 21;
/// Minimum number of changes of accounts and slots between checkpoints, unless [`CHECKPOINT_RECORDS`] changed. A
/// restart applies them again, which takes 2 to 3 seconds. They come from a million transfers, and from up to four
/// times as many in a state of some million accounts, because of `CHANGES_PER_RECORD`.
pub const CHECKPOINT_CHANGES: usize = 2_000_000;
/// Minimum number of changes per changed record before a checkpoint is due. In a large state nearly every change is of
/// another record, and waiting for more changes writes each record less often.
const CHANGES_PER_RECORD: usize = 4;
/// Size of a changed record in bytes. Changed records stay in memory until their checkpoint.
const RECORD_BYTES: u64 = 350;

/// The trie; see the module documentation.
#[derive(Debug)]
pub struct StateTrie {
    live: LiveTrie,
    index: IndexDb,
    /// The newest block applied; `None` before block 0.
    number: Option<u64>,
    /// Accounts and slots changed since the last checkpoint.
    changed: usize,
    /// Number of changed records from which a checkpoint is due in any case.
    max_records: usize,
}

impl StateTrie {
    /// Opens the trie as of the last checkpoint in the index. `limit` is the maximum of its memory, in bytes.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn open(index: &IndexDb, limit: u64) -> Result<Self, ReadError> {
        let at = index.reader()?.trie_block()?;
        let root = at.map_or(EMPTY_ROOT_HASH, |(_, root)| root);
        let number = at.map(|(number, _)| number);
        let live = LiveTrie::new(root, limit);
        let max_records = max_records(limit);
        Ok(Self { live, index: index.clone(), number, changed: 0, max_records })
    }

    /// Opens the trie as of a state. `limit` is the maximum of its memory, in bytes.
    ///
    /// # Errors
    /// If records cannot be read, are missing or are damaged.
    pub fn open_at(
        state: &StateView,
        blocks: &ChainReader,
        limit: u64,
    ) -> Result<Self, TrieError<ReadError>> {
        let mut trie = Self::open(state.index(), limit).map_err(TrieError::Read)?;
        trie.catch_up(state, blocks)?;
        Ok(trie)
    }

    /// Returns the number of the next block.
    pub fn next(&self) -> u64 {
        self.number.map_or(0, |number| number + 1)
    }

    /// Returns the root after the newest block applied.
    pub const fn state_root(&self) -> B256 {
        self.live.state_root()
    }

    /// Returns the memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        self.live.bytes()
    }

    /// Applies the next block; returns the state root after it.
    ///
    /// # Errors
    /// If records cannot be read, are missing or are damaged. The trie must not be used any more then.
    pub fn update(&mut self, changes: &StateChanges) -> Result<B256, TrieError<ReadError>> {
        let reader = self.index.reader().map_err(TrieError::Read)?;
        let root = self.live.update(&reader, changes)?;
        self.number = Some(self.next());
        self.changed += weight(changes);
        Ok(root)
    }

    /// Moves from state `from`, which must be that of the trie, to state `to`, and returns the state root. Withdraws
    /// the checkpoints of undone blocks.
    ///
    /// # Errors
    /// If records cannot be read, are missing or are damaged. The trie must not be used any more then.
    ///
    /// # Panics
    /// If the layers since the last common block are not in memory.
    pub fn move_to(
        &mut self,
        from: &StateView,
        to: &StateView,
    ) -> Result<B256, TrieError<ReadError>> {
        let fork = Fork::between(from, to).expect("undoable blocks have layers");
        if !fork.undone.is_empty() {
            let number = fork.ancestor.next().checked_sub(1);
            self.live.withdraw_above(number.expect("block 0 cannot be undone"));
            let changes = fork.undo_changes().map_err(TrieError::Read)?;
            self.update(&changes)?;
            self.number = number;
        }
        for layer in &fork.applied {
            self.update(layer.changes())?;
        }
        Ok(self.state_root())
    }

    /// Returns the state root after `changes` to the newest state, without applying them.
    ///
    /// # Errors
    /// If records cannot be read, are missing or are damaged.
    pub fn root_after(&self, changes: &StateChanges) -> Result<B256, TrieError<ReadError>> {
        let reader = self.index.reader().map_err(TrieError::Read)?;
        let nodes = self.live.nodes(&reader);
        let updated = update_state_root(&nodes, changes, self.state_root());
        updated.map(|(root, _)| root).map_err(TrieError::flatten)
    }

    /// Applies the blocks up to the one before `state.next()`, from its layers or the chain.
    ///
    /// # Errors
    /// If records cannot be read, are missing or are damaged.
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

    /// Returns whether the changes since the last checkpoint require the next one.
    pub fn is_checkpoint_due(&self) -> bool {
        is_due(self.changed, self.live.dirty(), self.max_records)
    }

    /// Returns the number of records that differ from the last checkpoint.
    pub fn dirty(&self) -> usize {
        self.live.dirty()
    }

    /// Takes the changes since the last checkpoint; returns `None` before block 0.
    pub fn checkpoint(&mut self) -> Option<TrieCheckpoint> {
        self.changed = 0;
        Some(self.live.checkpoint(self.number?))
    }

    /// Discards the changes, because another trie that follows the same blocks writes the checkpoint.
    pub fn skip_checkpoint(&mut self) {
        if let Some(number) = self.number {
            self.changed = 0;
            self.live.skip_checkpoint(number);
        }
    }

    /// Records that the checkpoints up to block `number` are in the index.
    pub fn written(&mut self, number: u64) {
        self.live.written(number);
    }

    /// Returns the block of the newest checkpoint that is not in the index yet.
    pub fn pending_checkpoint(&self) -> Option<u64> {
        self.live.pending_checkpoint()
    }

    /// Returns whether every checkpoint is in the index.
    pub fn is_written(&self) -> bool {
        self.live.is_written()
    }
}

/// Returns the number of changed accounts and slots.
fn weight(changes: &StateChanges) -> usize {
    changes.accounts.iter().map(|change| 1 + change.slots.len()).sum()
}

/// Returns the number of changed records from which a checkpoint is due if the trie may use `limit` bytes.
fn max_records(limit: u64) -> usize {
    let fit = limit.max(MIN_TRIE_CACHE_BYTES) / RECORD_BYTES;
    usize::try_from(fit).unwrap_or(usize::MAX).min(CHECKPOINT_RECORDS)
}

/// Returns whether a checkpoint is due after `changed` changes of `dirty` records. From `max_records` records on, it
/// always is.
fn is_due(changed: usize, dirty: usize, max_records: usize) -> bool {
    dirty >= max_records || changed >= CHECKPOINT_CHANGES.max(CHANGES_PER_RECORD * dirty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoint_is_due_later_if_changes_share_few_records() {
        let is_due = |changed, dirty| is_due(changed, dirty, CHECKPOINT_RECORDS);
        // A million accounts: most records change repeatedly.
        assert!(!is_due(1_999_999, 300_000));
        assert!(is_due(2_000_000, 300_000));
        // Ten million accounts: nearly every change is of another record, up to the limit.
        assert!(!is_due(3_500_000, 2_000_000));
        assert!(is_due(3_500_000, CHECKPOINT_RECORDS));
        assert!(is_due(8_000_000, 2_000_000));
    }

    #[test]
    fn trie_with_little_memory_has_a_checkpoint_after_few_records() {
        assert_eq!(max_records(2 << 30), CHECKPOINT_RECORDS);
        let few = max_records(64 << 20);
        assert_eq!(few, (64 << 20) / 350);
        assert!(!is_due(few, few - 1, few) && is_due(few, few, few));
        // The limit is at least the minimum of the trie.
        assert_eq!(max_records(0), max_records(16 << 20));
    }
}
