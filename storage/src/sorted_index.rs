//! Finds keys in a long ascending list, usually with one or two memory accesses.

use std::ops::Range;

/// An index of an ascending list of keys, by the leading bits of their first words. It assumes that most keys are
/// uniformly distributed, like hashes. It occupies about 10 to 12 bytes per key.
#[derive(Debug, Default)]
pub struct SortedIndex {
    words: Vec<u64>,
    /// Number of leading bits that select a bucket.
    bits: u32,
    /// For each value of these bits, the number of words with smaller leading bits; then the total number of words.
    starts: Vec<u32>,
}

impl SortedIndex {
    /// Indexes the first words of an ascending list, such as those of [`crate::address_order`].
    pub fn new(words: impl Iterator<Item = u64>) -> Self {
        let words: Vec<u64> = words.collect();
        let bits = words.len().checked_ilog2().unwrap_or(0);
        let mut starts = vec![0; (1 << bits) + 1];
        for word in &words {
            starts[first_bits(*word, bits) + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        Self { words, bits, starts }
    }

    /// Returns the positions of the keys with this first word in the list: almost always one position or none.
    #[inline]
    pub fn of_word(&self, word: u64) -> Range<usize> {
        let at = first_bits(word, self.bits);
        let start = self.starts.get(at).map_or(0, |start| *start as usize);
        let end = self.starts.get(at + 1).map_or(0, |end| *end as usize);
        let words = &self.words[start..end];
        let first = words.partition_point(|other| *other < word);
        let same = words[first..].partition_point(|other| *other == word);
        start + first..start + first + same
    }
}

/// Returns the first `bits` bits of a word; `bits` must be below 64.
const fn first_bits(word: u64, bits: u32) -> usize {
    (word >> 1 >> (63 - bits)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_order;
    use alloy_primitives::Address;
    use proptest::prelude::*;

    fn address() -> impl Strategy<Value = Address> {
        let spread = any::<[u8; 20]>().prop_map(Address::from);
        // Precompiles, and addresses constructed to have the same first word.
        let small = any::<u8>().prop_map(Address::with_last_byte);
        let alike = any::<u8>().prop_map(|last| {
            let mut address = Address::repeat_byte(0x77);
            address[19] = last;
            address
        });
        prop_oneof![6 => spread, 1 => small, 1 => alike, 1 => Just(Address::repeat_byte(0xff))]
    }

    proptest! {
        #[test]
        fn every_address_is_found_at_its_position(
            mut list in prop::collection::vec(address(), 0..400),
            others in prop::collection::vec(address(), 0..50),
        ) {
            list.sort_unstable();
            list.dedup();
            let index = SortedIndex::new(list.iter().map(|address| address_order(address).0));
            for (rank, address) in list.iter().enumerate() {
                prop_assert!(index.of_word(address_order(address).0).contains(&rank));
            }
            for other in list.iter().chain(&others) {
                let word = address_order(other).0;
                let same = list.iter().filter(|address| address_order(address).0 == word);
                prop_assert_eq!(index.of_word(word).len(), same.count());
            }
        }
    }

    #[test]
    fn empty_list_has_no_keys() {
        assert!(SortedIndex::default().of_word(0).is_empty());
        assert!(SortedIndex::new([].into_iter()).of_word(0).is_empty());
    }
}
