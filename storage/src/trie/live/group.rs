//! Changes many entries of one trie, a group of neighbouring keys at a time: the way down, the change
//! and the hash of a group come one after the other, so that what they share is still in the near
//! caches. A block with many keys, taken through each of these passes as a whole, would wait for the
//! same memory again and again.

use std::ops::Range;

use alloy_primitives::B256;

use super::arena::Slot;
use super::path::Key;
use super::value::{Value, ValueBuffer};
use super::{Change, LiveTrie, RecordRead};
use crate::trie::TrieError;

/// Least keys of a group: so many that eight messages of a level are nearly always at hand, and so few
/// that the nodes above them, some 700 bytes a key, stay in a second cache. The tests have small tries.
const GROUP: usize = if cfg!(test) { 4 } else { 512 };

/// New values of entries, by rank of the key.
pub(super) trait NewValues {
    /// Has what entries some ranks later need brought into the caches.
    fn prefetch_after(&self, _rank: usize) {}
    /// The entry is removed.
    fn is_gone(&self, rank: usize) -> bool;
    /// The value of an entry that is not, given what it was.
    fn value(&mut self, rank: usize, old: Option<Value<'_>>) -> ValueBuffer;
}

impl LiveTrie {
    /// Sets or removes the entries of these keys, ascending, below the root at `slot`; tells what is
    /// there now, and whether anything changed. Most of what did is hashed then, the rest is marked.
    ///
    /// # Errors
    /// When a record is missing, damaged or cannot be read.
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
                let (after, changed) = if values.is_gone(rank) {
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

/// SortedIndex of neighbours, in order. Keys that share their first two nibbles are in one group: no group
/// changes what is two branches below the root of another.
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
