//! Changes many entries of one trie, one group of neighbouring keys at a time. A group is located, changed and
//! hashed before the next group, so that shared nodes are still in the L1 and L2 caches. If each pass processed
//! all keys of a large block, the same memory would be loaded repeatedly.

use std::ops::Range;

use alloy_primitives::B256;

use super::arena::Slot;
use super::path::Key;
use super::value::{Value, ValueBuffer};
use super::{Change, LiveTrie, RecordRead};
use crate::TrieError;

/// Usual number of keys per group; keys with the same first byte are never split, so a group can be larger. At this
/// size, a level almost always has eight messages to hash, and the nodes above the keys, about 700 bytes per key,
/// stay in the L2 cache. Tests use a small value.
const GROUP: usize = if cfg!(test) { 4 } else { 512 };

/// New values of entries, by rank of the key.
pub(super) trait NewValues {
    /// Prefetches the data of an entry a few ranks ahead.
    fn prefetch_after(&self, _rank: usize) {}
    /// Returns whether the entry is removed.
    fn is_removed(&self, rank: usize) -> bool;
    /// Returns the new value of an entry that is not removed, given its old value.
    fn value(&mut self, rank: usize, old: Option<Value<'_>>) -> ValueBuffer;
}

impl LiveTrie {
    /// Sets or removes the entries of these keys, which must be ascending, below the root at `slot`. Returns the
    /// new slot, and whether anything changed. If there are several groups, most changed nodes are hashed by then; the
    /// others are marked.
    ///
    /// # Errors
    /// If a record is missing, damaged or cannot be read.
    pub(super) fn change_entries<S: RecordRead>(
        &mut self,
        source: &S,
        owner: Option<B256>,
        mut slot: Slot,
        keys: &[Key],
        values: &mut impl NewValues,
    ) -> Result<(Slot, bool), TrieError<S::Error>> {
        let mut any = false;
        for group in groups(keys) {
            let some = &keys[group.clone()];
            slot = self.locate.run(&mut self.arena, source, owner, slot, some, self.now)?;
            let (arena, removed) = (&mut self.arena, &mut self.removed);
            let mut trie = Change { arena, source, owner, used: self.now, removed };
            for (rank, key) in group.zip(some) {
                values.prefetch_after(rank);
                let (after, changed) = if values.is_removed(rank) {
                    trie.remove(slot, 0, key)?
                } else {
                    (trie.put(slot, 0, key, &mut |old| values.value(rank, old)), true)
                };
                slot = after;
                any |= changed;
            }
            if some.len() < keys.len() {
                self.hash.ahead(&mut self.arena, slot, some, self.epoch);
            }
        }
        Ok((slot, any))
    }
}

/// Returns the ranges of neighbouring keys, in order. Keys that share their first two nibbles are in one group,
/// so no group changes nodes two or more branches below the root that belong to another group.
fn groups(keys: &[Key]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let mut end = start + GROUP;
        while end < keys.len() && keys[end][0] == keys[end - 1][0] {
            end += 1;
        }
        let group = start..end.min(keys.len());
        start = group.end;
        (!group.is_empty()).then_some(group)
    })
}
