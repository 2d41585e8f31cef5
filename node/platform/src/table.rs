//! A map of plain keys to plain values in an array of cache lines, made for asking for many keys at
//! once: where a key would be depends on the key alone, so its line can be asked for long before it is
//! looked at. A map with a table of tags beside its entries needs one miss after another.
//!
//! Open addressing, one line after the other. The hasher must be seeded at random, for keys come from
//! outside.
#![allow(unsafe_code)]

use std::{
    fmt,
    hash::{BuildHasher, Hash},
    mem::MaybeUninit,
};
use storage::prefetch;

/// Least lines of a table that has any.
const LINES_MIN: usize = 16;
/// Most quarters of the lines that are full, where most keys looked for are there.
const QUARTERS: usize = 3;
/// The same where as many are not: until that is known, a way goes on to a free line.
const QUARTERS_SPARSE: usize = 2;

/// An entry, or none. All zeros is none.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line<K: Copy, V: Copy> {
    full: bool,
    entry: MaybeUninit<(K, V)>,
}

/// See the module.
#[derive(Clone)]
pub struct Table<K: Copy, V: Copy, S> {
    /// None, or a power of two of them.
    lines: Box<[Line<K, V>]>,
    len: usize,
    /// Entries there will be at least, if any.
    expected: usize,
    /// Most quarters of the lines that are full.
    quarters: usize,
    hasher: S,
}

impl<K: Copy, V: Copy, S> Table<K, V, S> {
    /// Entries.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no entries.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<K: Copy, V: Copy, S: Default> Default for Table<K, V, S> {
    /// An empty table, which has taken no memory.
    fn default() -> Self {
        Self {
            lines: Box::default(),
            len: 0,
            expected: 0,
            quarters: QUARTERS,
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
    /// An empty table for keys of which many are looked for in vain. Takes up to twice the memory.
    pub fn sparse() -> Self {
        Self { quarters: QUARTERS_SPARSE, ..Self::default() }
    }

    /// Most entries of so many lines. Above that, ways to a key become long.
    const fn room(&self, lines: usize) -> usize {
        lines / 4 * self.quarters
    }

    /// Has room made for so many entries as soon as there is one.
    pub const fn expect(&mut self, entries: usize) {
        self.expected = entries;
    }

    /// Makes room for so many entries in all.
    fn grow(&mut self, entries: usize) {
        let lines = (entries.div_ceil(self.quarters) * 4).next_power_of_two().max(LINES_MIN);
        let old = std::mem::replace(&mut self.lines, empty(lines));
        self.len = 0;
        for line in old.iter().filter(|line| line.full) {
            let (key, value) = entry(line);
            self.put(*key, *value);
        }
    }

    /// Has the place of a key brought into the caches.
    #[inline]
    pub fn prefetch(&self, key: &K) {
        if let Some(line) = self.lines.get(self.first(key)) {
            prefetch(line);
        }
    }

    /// Has the place of a key brought into the caches where it is not the first, which was asked for a
    /// while ago.
    #[inline]
    pub fn prefetch_next(&self, key: &K) {
        let first = self.first(key);
        if self.lines.get(first).is_some_and(|line| line.full && entry(line).0 != *key) {
            prefetch(&self.lines[(first + 1) & self.mask()]);
        }
    }

    /// Has what [`Self::remove`] looks at brought into the caches, for a key whose place is there already.
    #[inline]
    pub fn prefetch_removal(&self, key: &K) {
        if let Some(line) = self.lines.get((self.find(key) + 1) & self.mask()) {
            prefetch(line);
        }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        let line = self.lines.get(self.find(key)).filter(|line| line.full)?;
        Some(&entry(line).1)
    }

    /// Sets the value of a key.
    pub fn insert(&mut self, key: K, value: V) {
        if self.len >= self.room(self.lines.len()) {
            self.grow(self.expected.max(self.len + 1));
        }
        self.put(key, value);
    }

    /// The same where there is room.
    #[inline]
    fn put(&mut self, key: K, value: V) {
        let at = self.find(&key);
        let line = &mut self.lines[at];
        self.len += usize::from(!line.full);
        *line = Line { full: true, entry: MaybeUninit::new((key, value)) };
    }

    /// Removes the entry of a key, and gives its value. What stands behind it moves up as far as its
    /// way began there, so that no way has a gap.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let mut gap = self.find(key);
        let value = entry(self.lines.get(gap).filter(|line| line.full)?).1;
        let mut at = gap;
        loop {
            at = (at + 1) & self.mask();
            let line = self.lines[at];
            if !line.full {
                break;
            }
            let way = at.wrapping_sub(self.first(&entry(&line).0)) & self.mask();
            if way >= at.wrapping_sub(gap) & self.mask() {
                self.lines[gap] = line;
                gap = at;
            }
        }
        self.lines[gap].full = false;
        self.len -= 1;
        Some(value)
    }

    /// Removes all entries, and keeps their room.
    pub fn clear(&mut self) {
        if self.len > 0 {
            self.lines.iter_mut().for_each(|line| line.full = false);
            self.len = 0;
        }
    }

    #[inline]
    fn mask(&self) -> usize {
        self.lines.len().wrapping_sub(1)
    }

    /// Where the way to a key begins.
    #[inline]
    fn first(&self, key: &K) -> usize {
        self.hasher.hash_one(key) as usize & self.mask()
    }

    /// The line of a key, or the free one where it would be; beyond the end of a table without lines.
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

/// Lines without entries.
fn empty<K: Copy, V: Copy>(lines: usize) -> Box<[Line<K, V>]> {
    // SAFETY: all zeros is a line: `full` is false then, and `entry` may be anything.
    unsafe { Box::new_zeroed_slice(lines).assume_init() }
}

/// The entry of a line that is full.
fn entry<K: Copy, V: Copy>(line: &Line<K, V>) -> &(K, V) {
    debug_assert!(line.full, "a line without an entry is not read");
    // SAFETY: only `Table::put` makes a line full, together with its entry. All callers have seen it
    // to be full.
    unsafe { line.entry.assume_init_ref() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, map::FbBuildHasher};
    use proptest::prelude::*;
    use std::{collections::HashMap, hash::BuildHasherDefault};

    /// Puts all keys on a few ways.
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
        Remove(u8),
        Expect(usize),
        Clear,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            40 => (any::<u8>(), any::<u64>()).prop_map(|(key, value)| Step::Put(key, value)),
            20 => any::<u8>().prop_map(Step::Remove),
            2 => (0..300_usize).prop_map(Step::Expect),
            1 => Just(Step::Clear),
        ];
        prop::collection::vec(step, 0..400)
    }

    fn equals_a_map<S: BuildHasher + Default>(mut table: Table<Address, u64, S>, steps: Vec<Step>) {
        let mut model = HashMap::new();
        for step in steps {
            match step {
                Step::Put(key, value) => {
                    table.insert(Address::repeat_byte(key), value);
                    model.insert(Address::repeat_byte(key), value);
                }
                Step::Remove(key) => {
                    let key = Address::repeat_byte(key);
                    assert_eq!(table.remove(&key), model.remove(&key));
                }
                Step::Expect(entries) => table.expect(entries),
                Step::Clear => {
                    table.clear();
                    model.clear();
                }
            }
            assert_eq!(table.len(), model.len());
        }
        for key in (0..=u8::MAX).map(Address::repeat_byte) {
            table.prefetch(&key);
            table.prefetch_next(&key);
            table.prefetch_removal(&key);
            assert_eq!(table.get(&key), model.get(&key));
        }
    }

    proptest! {
        #[test]
        fn a_table_is_a_map(steps in steps()) {
            equals_a_map::<FbBuildHasher<20>>(Table::default(), steps.clone());
            equals_a_map::<FbBuildHasher<20>>(Table::sparse(), steps.clone());
            equals_a_map::<BuildHasherDefault<Crowded>>(Table::default(), steps);
        }
    }
}
