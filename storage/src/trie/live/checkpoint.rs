//! What has changed since the last checkpoint, as records to be written in bulk.

use std::sync::Arc;

use alloy_primitives::B256;

use super::arena::{Arena, Slot, nibbles, position};
use super::path::Path;
use super::record::{put_branch_record, put_root_leaf_record};

/// Records of all tries that differ from the last checkpoint, in the order of their keys: what
/// makes the records of that checkpoint those of a later block.
#[derive(Debug)]
pub struct TrieCheckpoint {
    /// The block whose state the records are of.
    pub number: u64,
    /// Root of that state.
    pub state_root: B256,
    /// Hashed addresses whose earlier storage records are gone, ascending.
    pub(crate) wiped: Vec<B256>,
    pub(crate) accounts: Arc<Records>,
    pub(crate) storages: Arc<Records>,
}

impl TrieCheckpoint {
    /// Records written and removed.
    pub fn len(&self) -> usize {
        self.accounts.entries.len() + self.storages.entries.len()
    }

    /// Whether no record differs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.wiped.is_empty()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let entries = size_of::<Entry>() * self.len();
        self.accounts.bytes.len() + self.storages.bytes.len() + entries
    }
}

/// Where a record is in the bytes: key, then value.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: usize,
    key: u32,
    /// [`GONE`] for a record that is removed.
    value: u32,
}

/// Length of the value of a record that is removed.
const GONE: u32 = u32::MAX;

/// Records of one table.
#[derive(Debug, Default)]
pub(crate) struct Records {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Records {
    /// No records, in the memory of earlier ones unless somebody still reads those.
    pub(super) fn reuse(kept: &mut Arc<Self>) -> Self {
        let Some(kept) = Arc::get_mut(kept) else { return Self::default() };
        let mut records = std::mem::take(kept);
        records.bytes.clear();
        records.entries.clear();
        records
    }

    /// Key, and value or `None` when the record is gone, ascending by key, each key once.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.entries.iter().map(|entry| (self.key(entry), self.value(entry)))
    }

    fn key(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.start..entry.start + entry.key as usize]
    }

    fn value(&self, entry: &Entry) -> Option<&[u8]> {
        let start = entry.start + entry.key as usize;
        (entry.value != GONE).then(|| &self.bytes[start..start + entry.value as usize])
    }

    fn put(&mut self, owner: Option<B256>, path: &Path, encode: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        path.put_record_key(owner, &mut self.bytes);
        let key = self.bytes.len() - start;
        encode(&mut self.bytes);
        let value = (self.bytes.len() - start - key) as u32;
        self.entries.push(Entry { start, key: key as u32, value });
    }

    pub(super) fn remove(&mut self, owner: Option<B256>, path: &Path) {
        let start = self.bytes.len();
        path.put_record_key(owner, &mut self.bytes);
        let key = (self.bytes.len() - start) as u32;
        self.entries.push(Entry { start, key, value: GONE });
    }

    /// Sorts by key; a record that is written is not removed.
    pub(super) fn finish(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        let order = |entry: &Entry| (self.key(entry), entry.value == GONE);
        entries.sort_unstable_by(|a, b| order(a).cmp(&order(b)));
        entries.dedup_by(|later, first| self.key(later) == self.key(first));
        self.entries = entries;
    }

    /// Adds what is marked in one trie, and takes the marks away.
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
