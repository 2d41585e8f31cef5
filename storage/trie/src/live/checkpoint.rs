//! The records that have changed since the last checkpoint, for writing in bulk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use alloy_primitives::B256;

use super::arena::{Arena, Slot, nibbles, position};
use super::path::Path;
use super::record::{put_branch_record, put_root_leaf_record};
use crate::rows::Rows;

/// The records of all tries that have changed since the last checkpoint, in key order. Applying them to the
/// records of that checkpoint yields the records of a later block.
#[derive(Debug)]
pub struct TrieCheckpoint {
    /// The block whose state the records describe.
    pub number: u64,
    /// Root of that state.
    pub state_root: B256,
    /// Hashed addresses whose earlier storage records are removed, in ascending order.
    pub wiped: Vec<B256>,
    /// Records of the account trie.
    pub accounts: Arc<Records>,
    /// Records of the storage tries.
    pub storages: Arc<Records>,
    pub(super) withdrawn: Arc<AtomicBool>,
}

impl TrieCheckpoint {
    /// Returns whether the block was undone, in which case the records must not be written.
    pub fn is_withdrawn(&self) -> bool {
        self.withdrawn.load(Ordering::Acquire)
    }

    /// Returns the number of records written and removed.
    pub fn len(&self) -> usize {
        self.accounts.rows.len() + self.storages.rows.len()
    }

    /// Returns whether no record has changed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.wiped.is_empty()
    }

    /// Returns the size of the records in bytes.
    pub fn bytes(&self) -> usize {
        self.accounts.rows.bytes() + self.storages.rows.bytes()
    }
}

/// Average size of a record with its key in large tries, in bytes. Memory is reserved for this size, because
/// growing a buffer copies it, and no block can be sealed during the copy.
const RECORD_BYTES: usize = 300;

/// Records of one table.
#[derive(Debug, Default)]
pub struct Records {
    rows: Rows,
}

impl Records {
    /// Creates an empty list with capacity for `records`. It reuses the memory of earlier records,
    /// unless they are still being read.
    pub(super) fn reuse(kept: &mut Arc<Self>, records: usize) -> Self {
        let mut rows = Arc::get_mut(kept).map(std::mem::take).unwrap_or_default().rows;
        rows.clear_and_reserve(records, RECORD_BYTES);
        Self { rows }
    }

    /// Returns the rows in ascending order of keys, each key once.
    pub const fn rows(&self) -> &Rows {
        &self.rows
    }

    fn put(&mut self, owner: Option<B256>, path: &Path, encode: impl FnOnce(&mut Vec<u8>)) {
        self.rows.put(|out| path.put_record_key(owner, out), encode);
    }

    pub(super) fn remove(&mut self, owner: Option<B256>, path: &Path) {
        self.rows.remove(|out| path.put_record_key(owner, out));
    }

    /// Sorts by key. A written record takes precedence over the removal of the same key.
    pub(super) fn finish(&mut self) {
        self.rows.sort();
    }

    /// Adds the marked nodes of one trie, and clears the marks.
    pub(super) fn collect(&mut self, arena: &mut Arena, owner: Option<B256>, root: Slot) {
        match root {
            Slot::Empty => self.remove(owner, &Path::ROOT),
            Slot::Leaf(leaf) => {
                let (key, value) = (arena.key(leaf), arena.value(leaf));
                self.put(owner, &Path::ROOT, |out| put_root_leaf_record(out, key, value));
            }
            Slot::Branch(branch) => self.walk(arena, owner, Path::ROOT, branch),
            Slot::Cold => unreachable!("a trie that changed is in memory"),
        }
    }

    fn walk(&mut self, arena: &mut Arena, owner: Option<B256>, path: Path, index: u32) {
        let dirty = std::mem::take(&mut arena.branch_mut(index).dirty);
        let branch = *arena.branch(index);
        let base = path.join(arena.prefix(&branch));
        self.put(owner, &path, |out| put_branch_record(out, arena, &branch, base.len()));
        let below = dirty & branch.mask & !branch.leaves;
        arena.prefetch_branches(&branch, below);
        let child = |arena: &Arena, at| arena.links(&branch)[position(branch.mask, at)];
        let mut rest = nibbles(below).peekable();
        while let Some(nibble) = rest.next() {
            if let Some(next) = rest.peek() {
                let next = child(arena, *next);
                arena.prefetch_references(next);
                arena.prefetch_leaves(arena.branch(next));
            }
            self.walk(arena, owner, base.with(nibble), child(arena, nibble));
        }
    }
}
