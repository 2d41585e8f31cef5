//! Sets and removes single entries in the arena. At most the sibling of a collapsing branch has to be loaded.
//!
//! Every change marks references as stale in all branches above it ([`Branch::stale`]). Hashing follows these
//! marks.
//!
//! [`Branch::stale`]: super::arena::Branch

use alloy_primitives::B256;

use super::RecordRead;
use super::arena::{Arena, Slot};
use super::path::{Key, Path, common, nibble};
use super::record::take_record;
use super::value::Value;
use crate::TrieError;

/// A trie to which changes are applied.
#[derive(Debug)]
pub(super) struct Change<'a, S> {
    pub(super) arena: &'a mut Arena,
    pub(super) source: &'a S,
    pub(super) owner: Option<B256>,
    /// Number of the update.
    pub(super) used: u32,
    /// Paths whose records are removed, unless a record is written there again.
    pub(super) removed: &'a mut Vec<(Option<B256>, Path)>,
}

impl<S: RecordRead> Change<'_, S> {
    /// Sets the entry of `key` below `slot`, at depth `depth` in nibbles. `value` receives the old value.
    /// Returns the new slot. The nodes on the path to the key must be in memory.
    ///
    /// An entry that is set to its old value counts as changed. Blocks rarely contain such changes,
    /// and a comparison would stall on the value that was just written.
    pub(super) fn put(
        &mut self,
        slot: Slot,
        depth: usize,
        key: &Key,
        value: &mut impl FnMut(Option<Value<'_>>) -> super::value::ValueBuffer,
    ) -> Slot {
        match slot {
            Slot::Empty => {
                let leaf = self.arena.new_leaf(key, value(None).value());
                Slot::Leaf(leaf)
            }
            Slot::Cold => unreachable!("the path to a key is loaded before it is changed"),
            Slot::Leaf(leaf) => {
                let other = *self.arena.key(leaf);
                if other == *key {
                    let new = value(Some(self.arena.value(leaf)));
                    self.arena.set_value(leaf, new.value());
                    return slot;
                }
                let fork = common(&other, key);
                let new = self.arena.new_leaf(key, value(None).value());
                let prefix = Path::of(key, fork).slice(depth, fork);
                let children = [(nibble(&other, fork), slot), (nibble(key, fork), Slot::Leaf(new))];
                self.new_branch(prefix, children)
            }
            Slot::Branch(index) => self.put_below(index, depth, key, value),
        }
    }

    fn put_below(
        &mut self,
        index: u32,
        depth: usize,
        key: &Key,
        value: &mut impl FnMut(Option<Value<'_>>) -> super::value::ValueBuffer,
    ) -> Slot {
        let length = self.arena.prefix_len(self.arena.branch(index));
        let shared = self.shared_prefix(index, depth, key);
        if shared < length {
            // The key diverges within the prefix: a new branch at this position has the old one as a child.
            let prefix = *self.arena.prefix(self.arena.branch(index));
            let leaf = self.arena.new_leaf(key, value(None).value());
            self.arena.set_prefix(index, prefix.slice(shared + 1, length));
            let children = [
                (prefix.nibble(shared), Slot::Branch(index)),
                (nibble(key, depth + shared), Slot::Leaf(leaf)),
            ];
            return self.new_branch(prefix.slice(0, shared), children);
        }
        let base = depth + length;
        let at = nibble(key, base);
        let child = self.arena.child(index, at);
        let after = self.put(child, base + 1, key, value);
        if after != child {
            self.arena.set_child(index, at, after);
        }
        self.arena.branch_mut(index).stale |= 1 << at;
        Slot::Branch(index)
    }

    fn new_branch(&mut self, prefix: Path, children: [(u8, Slot); 2]) -> Slot {
        let index = self.arena.new_branch(prefix, children.len(), self.used);
        for (nibble, child) in children {
            self.arena.set_child(index, nibble, child);
            self.arena.branch_mut(index).stale |= 1 << nibble;
        }
        Slot::Branch(index)
    }

    /// Returns the number of nibbles of a branch's prefix that `key` shares.
    fn shared_prefix(&self, index: u32, depth: usize, key: &Key) -> usize {
        shared_prefix(self.arena, index, depth, key)
    }

    /// Removes the entry of `key`. Returns the new slot, and whether the entry existed.
    ///
    /// # Errors
    /// If the sibling that a branch collapses onto cannot be read.
    pub(super) fn remove(
        &mut self,
        slot: Slot,
        depth: usize,
        key: &Key,
    ) -> Result<(Slot, bool), TrieError<S::Error>> {
        match slot {
            Slot::Empty => Ok((slot, false)),
            Slot::Cold => unreachable!("the path to a key is loaded before it is changed"),
            Slot::Leaf(leaf) if self.arena.key(leaf) == key => {
                self.arena.free_leaf(leaf);
                Ok((Slot::Empty, true))
            }
            Slot::Leaf(_) => Ok((slot, false)),
            Slot::Branch(index) => self.remove_below(index, depth, key),
        }
    }

    fn remove_below(
        &mut self,
        index: u32,
        depth: usize,
        key: &Key,
    ) -> Result<(Slot, bool), TrieError<S::Error>> {
        let length = self.arena.prefix_len(self.arena.branch(index));
        if self.shared_prefix(index, depth, key) < length {
            return Ok((Slot::Branch(index), false));
        }
        let base = depth + length;
        let at = nibble(key, base);
        let child = self.arena.child(index, at);
        let (after, changed) = self.remove(child, base + 1, key)?;
        if !changed {
            return Ok((Slot::Branch(index), false));
        }
        if after != child {
            self.arena.set_child(index, at, after);
        }
        if after != Slot::Empty {
            self.arena.branch_mut(index).stale |= 1 << at;
        }
        let slot = match self.arena.branch(index).mask.count_ones() {
            1 => self.collapse(index, Path::of(key, depth))?,
            _ => Slot::Branch(index),
        };
        Ok((slot, true))
    }

    /// Replaces a branch that has one remaining child with that child, whose prefix or suffix grows.
    fn collapse(&mut self, index: u32, path: Path) -> Result<Slot, TrieError<S::Error>> {
        let nibble = self.arena.branch(index).mask.trailing_zeros() as u8;
        let joined = self.arena.prefix(self.arena.branch(index)).with(nibble);
        let below = path.join(&joined);
        let child = match self.arena.child(index, nibble) {
            Slot::Cold => load(self.arena, self.source, self.owner, &below, self.used)?,
            child => child,
        };
        match child {
            Slot::Branch(child) => {
                let prefix = joined.join(self.arena.prefix(self.arena.branch(child)));
                self.arena.set_prefix(child, prefix);
                self.removed.push((self.owner, below));
            }
            _ => self.removed.push((self.owner, path)),
        }
        self.arena.free_branch(index);
        Ok(child)
    }
}

/// Returns the number of nibbles of a branch's prefix that `key` shares.
pub(super) fn shared_prefix(arena: &Arena, index: u32, depth: usize, key: &Key) -> usize {
    let prefix = arena.prefix(arena.branch(index));
    (0..prefix.len()).take_while(|&at| prefix.nibble(at) == nibble(key, depth + at)).count()
}

/// Loads the record at `path`, which must exist.
pub(super) fn load<S: RecordRead>(
    arena: &mut Arena,
    source: &S,
    owner: Option<B256>,
    path: &Path,
    used: u32,
) -> Result<Slot, TrieError<S::Error>> {
    match load_if_any(arena, source, owner, path, used)? {
        Slot::Empty => Err(TrieError::MissingNode { owner, path: path.to_nibbles() }),
        slot => Ok(slot),
    }
}

/// Loads the record at `path`, if there is one.
pub(super) fn load_if_any<S: RecordRead>(
    arena: &mut Arena,
    source: &S,
    owner: Option<B256>,
    path: &Path,
    used: u32,
) -> Result<Slot, TrieError<S::Error>> {
    let mut key = Vec::with_capacity(65);
    path.put_record_key(owner, &mut key);
    let Some(record) = source.record(owner.is_some(), &key).map_err(TrieError::Read)? else {
        return Ok(Slot::Empty);
    };
    take_record(arena, path, record, used).map_err(|error| TrieError::Damaged {
        what: error.what,
        owner,
        path: path.to_nibbles(),
    })
}
