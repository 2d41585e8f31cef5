//! Implements a map of plain keys to plain values in an array of cache lines, for lookups of many keys at a time. The
//! first line of a key depends only on the key, so it can be prefetched long before the lookup. A map with a separate
//! table of tags would have two dependent cache misses per lookup.
//!
//! The map uses open addressing with linear probing. The hasher must be seeded at random, because clients choose
//! the keys.
//!
//! A caller that limits the number of entries uses the clock algorithm to choose the entries to remove: a line has a
//! mark that its entry was used. A hand moves around the lines, clears the marks and removes entries without a mark.
#![allow(unsafe_code)]

use std::{
    fmt,
    hash::{BuildHasher, Hash},
    mem::MaybeUninit,
};
use storage::prefetch;

/// Minimum number of lines of a table that is not empty.
const MIN_LINES: usize = 16;
/// Number of quarters of the lines that may be full, if most lookups succeed.
const QUARTERS: usize = 3;
/// Number of quarters of the lines that may be full, if many lookups fail: these continue to the next free line.
const QUARTERS_SPARSE: usize = 2;

/// A line with or without an entry. All zeros are a line without one.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line<K: Copy, V: Copy> {
    full: bool,
    /// Whether the entry was inserted, changed or used since the hand passed it.
    used: bool,
    entry: MaybeUninit<(K, V)>,
}

/// The map; see the module documentation.
#[derive(Clone)]
pub struct Table<K: Copy, V: Copy, S> {
    /// Empty, or as many lines as a power of two.
    lines: Box<[Line<K, V>]>,
    len: usize,
    /// Minimum number of entries for which the table reserves memory when it grows.
    expected: usize,
    /// Number of quarters of the lines that may be full.
    quarters: usize,
    /// The line that [`Self::remove_unused`] looks at next.
    hand: usize,
    /// How often the hand has begun at the first line.
    rounds: u64,
    hasher: S,
}

impl<K: Copy, V: Copy, S> Table<K, V, S> {
    /// Returns the number of entries.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the table has no entries.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<K: Copy, V: Copy, S: Default> Default for Table<K, V, S> {
    /// Returns an empty table, which has no memory yet.
    fn default() -> Self {
        Self {
            lines: Box::default(),
            len: 0,
            expected: 0,
            quarters: QUARTERS,
            hand: 0,
            rounds: 0,
            hasher: S::default(),
        }
    }
}

impl<K: Copy, V: Copy, S> fmt::Debug for Table<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<K: Copy + Eq + Hash, V: Copy, S: BuildHasher + Default> Table<K, V, S> {
    /// Returns an empty table for lookups that often fail. It takes up to twice the memory.
    pub fn sparse() -> Self {
        Self { quarters: QUARTERS_SPARSE, ..Self::default() }
    }

    /// Returns the maximum number of entries in this many lines. With more, probe sequences become long.
    const fn max_entries(&self, lines: usize) -> usize {
        lines / 4 * self.quarters
    }

    /// Makes the table reserve memory for this many entries when it next grows.
    pub const fn reserve(&mut self, entries: usize) {
        self.expected = entries;
    }

    /// Reserves memory for this many entries in total.
    fn grow(&mut self, entries: usize) {
        let lines = (entries.div_ceil(self.quarters) * 4).next_power_of_two().max(MIN_LINES);
        let old = std::mem::replace(&mut self.lines, empty(lines));
        for line in old.iter().filter(|line| line.full) {
            let at = self.find(&entry(line).0);
            self.lines[at] = *line;
        }
        self.begin_round();
    }

    /// Prefetches the first line of a key.
    #[inline]
    pub fn prefetch(&self, key: &K) {
        if let Some(line) = self.lines.get(self.first(key)) {
            prefetch(line);
        }
    }

    /// Prefetches the second line of a key if its first line, which must be in the cache, has the entry of another key.
    #[inline]
    pub fn prefetch_next(&self, key: &K) {
        let first = self.first(key);
        if self.lines.get(first).is_some_and(|line| line.full && entry(line).0 != *key) {
            prefetch(&self.lines[(first + 1) & self.mask()]);
        }
    }

    /// Prefetches the line after that of a key, for [`Self::remove`]. The line of the key must be in the cache.
    #[inline]
    pub fn prefetch_removal(&self, key: &K) {
        if let Some(line) = self.lines.get((self.find(key) + 1) & self.mask()) {
            prefetch(line);
        }
    }

    /// Returns the value of a key.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        let line = self.lines.get(self.find(key)).filter(|line| line.full)?;
        Some(&entry(line).1)
    }

    /// Returns the value of a key, which is marked as used.
    #[inline]
    pub fn get_used(&mut self, key: &K) -> Option<V> {
        let at = self.find(key);
        let line = self.lines.get_mut(at).filter(|line| line.full)?;
        // The line is written only if necessary, because a changed line must be written back to memory.
        if !line.used {
            line.used = true;
        }
        Some(entry(line).1)
    }

    /// Sets the value of a key, which is marked as used.
    #[inline]
    pub fn insert(&mut self, key: K, value: V) {
        let mut at = self.find(&key);
        let new = self.lines.get(at).is_none_or(|line| !line.full);
        if new && self.len >= self.max_entries(self.lines.len()) {
            self.grow(self.expected.max(self.len + 1));
            at = self.find(&key);
        }
        self.len += usize::from(new);
        self.lines[at] = Line { full: true, used: true, entry: MaybeUninit::new((key, value)) };
    }

    /// Removes the entry of a key and returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.find(key);
        let value = entry(self.lines.get(at).filter(|line| line.full)?).1;
        self.remove_at(at);
        Some(value)
    }

    /// Removes the entry of a line. Later entries of the same probe sequence move up, so that it has no gap.
    fn remove_at(&mut self, mut gap: usize) {
        let mut at = gap;
        loop {
            at = (at + 1) & self.mask();
            let mut line = self.lines[at];
            if !line.full {
                break;
            }
            let distance = at.wrapping_sub(self.first(&entry(&line).0)) & self.mask();
            if distance >= at.wrapping_sub(gap) & self.mask() {
                // The hand reaches an entry that moves from the first lines to the last again in this round.
                line.used |= at < gap;
                self.lines[gap] = line;
                gap = at;
            }
        }
        self.lines[gap].full = false;
        self.len -= 1;
    }

    /// Moves the hand over at most `lines` lines, which must not be more than the table has, and clears their
    /// marks, until it is at an entry without a mark. Removes this entry and returns its key. The entry was not
    /// used since the current round began.
    pub fn remove_unused(&mut self, lines: usize) -> Option<K> {
        for _ in 0..lines {
            let line = self.lines.get_mut(self.hand)?;
            if line.full && !line.used {
                return self.remove_next();
            }
            line.used = false;
            self.advance();
        }
        None
    }

    /// Removes the first entry at or after the hand, used or not, and returns its key.
    pub fn remove_next(&mut self) -> Option<K> {
        if self.is_empty() {
            return None;
        }
        while !self.lines[self.hand].full {
            self.advance();
        }
        let key = entry(&self.lines[self.hand]).0;
        self.remove_at(self.hand);
        Some(key)
    }

    /// Returns how often the hand has begun at the first line.
    pub const fn rounds(&self) -> u64 {
        self.rounds
    }

    fn advance(&mut self) {
        self.hand += 1;
        if self.hand == self.lines.len() {
            self.begin_round();
        }
    }

    const fn begin_round(&mut self) {
        self.hand = 0;
        self.rounds += 1;
    }

    /// Removes all entries and keeps the memory.
    pub fn clear(&mut self) {
        if self.len > 0 {
            self.lines.iter_mut().for_each(|line| line.full = false);
            self.len = 0;
            self.begin_round();
        }
    }

    #[inline]
    fn mask(&self) -> usize {
        self.lines.len().wrapping_sub(1)
    }

    /// Returns the first line of the probe sequence of a key.
    #[inline]
    fn first(&self, key: &K) -> usize {
        self.hasher.hash_one(key) as usize & self.mask()
    }

    /// Returns the line of a key, or the free line for it; out of range if the table has no lines.
    #[inline]
    fn find(&self, key: &K) -> usize {
        let mut at = self.first(key);
        while let Some(line) = self.lines.get(at)
            && line.full
            && entry(line).0 != *key
        {
            at = (at + 1) & self.mask();
        }
        at
    }
}

/// Returns lines without entries.
fn empty<K: Copy, V: Copy>(lines: usize) -> Box<[Line<K, V>]> {
    // SAFETY: all zeros are a valid line: `full` is false then, and `entry` may be anything.
    unsafe { Box::new_zeroed_slice(lines).assume_init() }
}

/// Returns the entry of a full line.
fn entry<K: Copy, V: Copy>(line: &Line<K, V>) -> &(K, V) {
    debug_assert!(line.full, "a line without an entry is not read");
    // SAFETY: only `Table::insert` makes a line full, together with its entry, and all callers have checked
    // that it is full.
    unsafe { line.entry.assume_init_ref() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, map::FbBuildHasher};
    use proptest::prelude::*;
    use std::{collections::HashMap, hash::BuildHasherDefault};

    /// Maps all keys to a few probe sequences.
    #[derive(Default)]
    struct Crowded(u64);

    impl std::hash::Hasher for Crowded {
        fn finish(&self) -> u64 {
            self.0 % 3
        }

        fn write(&mut self, bytes: &[u8]) {
            self.0 = bytes.iter().map(|byte| u64::from(*byte)).sum();
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Put(u8, u64),
        Use(u8),
        Remove(u8),
        RemoveUnused(usize),
        RemoveNext,
        Expect(usize),
        Clear,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            40 => (any::<u8>(), any::<u64>()).prop_map(|(key, value)| Step::Put(key, value)),
            20 => any::<u8>().prop_map(Step::Use),
            20 => any::<u8>().prop_map(Step::Remove),
            20 => (0..=MIN_LINES).prop_map(Step::RemoveUnused),
            5 => Just(Step::RemoveNext),
            2 => (0..300_usize).prop_map(Step::Expect),
            1 => Just(Step::Clear),
        ];
        prop::collection::vec(step, 0..400)
    }

    /// The model: the value of each key, and the round in which it was used last.
    type Model = HashMap<Address, (u64, u64)>;

    fn check_map<S: BuildHasher + Default>(mut table: Table<Address, u64, S>, steps: Vec<Step>) {
        let mut model = Model::new();
        for step in steps {
            apply(&mut table, &mut model, step);
            assert_eq!(table.len(), model.len());
        }
        for key in (0..=u8::MAX).map(Address::repeat_byte) {
            table.prefetch(&key);
            table.prefetch_next(&key);
            table.prefetch_removal(&key);
            assert_eq!(table.get(&key), model.get(&key).map(|(value, _)| value));
        }
    }

    fn apply<S: BuildHasher + Default>(
        table: &mut Table<Address, u64, S>,
        model: &mut Model,
        step: Step,
    ) {
        match step {
            Step::Put(key, value) => {
                let key = Address::repeat_byte(key);
                table.insert(key, value);
                model.insert(key, (value, table.rounds()));
            }
            Step::Use(key) => {
                let key = Address::repeat_byte(key);
                let known = model.get_mut(&key);
                assert_eq!(table.get_used(&key), known.as_ref().map(|(value, _)| *value));
                known.into_iter().for_each(|(_, used)| *used = table.rounds());
            }
            Step::Remove(key) => {
                let key = Address::repeat_byte(key);
                assert_eq!(table.remove(&key), model.remove(&key).map(|(value, _)| value));
            }
            Step::RemoveUnused(lines) => {
                if let Some(key) = table.remove_unused(lines) {
                    let (_, used) = model.remove(&key).expect("it removes entries");
                    assert!(used < table.rounds(), "{key} was used in this round");
                }
            }
            Step::RemoveNext => match table.remove_next() {
                Some(key) => assert!(model.remove(&key).is_some()),
                None => assert!(model.is_empty()),
            },
            Step::Expect(entries) => table.reserve(entries),
            Step::Clear => {
                table.clear();
                model.clear();
            }
        }
    }

    /// The first round clears the marks of all entries; the second removes the entries that were not used in between.
    #[test]
    fn the_hand_removes_what_was_not_used_for_a_round() {
        let mut table = Table::<Address, u64, FbBuildHasher<20>>::default();
        let keys: Vec<_> = (0..12).map(Address::repeat_byte).collect();
        keys.iter().for_each(|key| table.insert(*key, 0));
        assert_eq!(table.remove_unused(MIN_LINES), None);
        assert_eq!(table.get_used(&keys[3]), Some(0));
        let mut removed: Vec<_> = (0..11).map_while(|_| table.remove_unused(MIN_LINES)).collect();
        removed.sort_unstable();
        let others: Vec<_> = keys.iter().filter(|key| **key != keys[3]).copied().collect();
        assert_eq!(removed, others);
        assert_eq!(table.get(&keys[3]), Some(&0));
    }

    /// A full table is not enlarged by new values of its keys.
    #[test]
    fn a_new_value_needs_no_memory() {
        let mut table = Table::<Address, u64, FbBuildHasher<20>>::default();
        (0..12).for_each(|n| table.insert(Address::repeat_byte(n), 0));
        assert_eq!(table.len(), table.max_entries(MIN_LINES));
        table.insert(Address::repeat_byte(0), 1);
        assert_eq!(table.lines.len(), MIN_LINES);
        table.insert(Address::repeat_byte(12), 1);
        assert_eq!(table.lines.len(), 2 * MIN_LINES);
    }

    proptest! {
        #[test]
        fn a_table_is_a_map(steps in steps()) {
            check_map::<FbBuildHasher<20>>(Table::default(), steps.clone());
            check_map::<FbBuildHasher<20>>(Table::sparse(), steps.clone());
            check_map::<BuildHasherDefault<Crowded>>(Table::default(), steps);
        }
    }
}
