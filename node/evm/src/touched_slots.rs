//! The storage slots of one account that a block has read or written.
//!
//! Those that its transactions are expected to ask for are met all at once and put in order, in which
//! they are wanted at the block's end, as accounts are in [`super::touched_accounts`].

use std::collections::HashMap;

use alloy_primitives::{U256, map::DefaultHashBuilder};
use storage::{SortedIndex, prefetch};

/// Slots found without a search, for a transaction: most ask for two or three of a contract.
pub(super) const NEAR: usize = 4;
/// The place of a slot that is not among those expected.
pub(super) const NOWHERE: u32 = u32::MAX;

/// A storage slot before the block and now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) original: U256,
    pub(super) current: U256,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Slots {
    /// Those that nobody expected.
    others: HashMap<U256, Slot, DefaultHashBuilder>,
    /// Those expected, ascending.
    expected: Vec<(U256, Slot)>,
    /// Where these are.
    ranks: SortedIndex,
    /// Places that are looked at first.
    near: [u32; NEAR],
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            others: HashMap::default(),
            expected: Vec::new(),
            ranks: SortedIndex::default(),
            near: [NOWHERE; NEAR],
        }
    }
}

impl Slots {
    /// A slot that was met.
    #[inline]
    pub(super) fn get(&self, key: &U256) -> Option<&Slot> {
        match self.find(key) {
            Some(place) => Some(&self.expected[place].1),
            None => self.others.get(key),
        }
    }

    /// Sets the value of a slot, which is `original` before the block if it was not met.
    pub(super) fn set(&mut self, key: U256, current: U256, original: U256) {
        if let Some(place) = self.find(&key) {
            self.expected[place].1.current = current;
            return;
        }
        let slot = self.others.entry(key).or_insert(Slot { original, current });
        slot.current = current;
    }

    /// Where it is among those expected.
    #[inline]
    fn find(&self, key: &U256) -> Option<usize> {
        let is_there =
            |place: &usize| self.expected.get(*place).is_some_and(|(there, _)| there == key);
        let near = self.near.iter().map(|place| *place as usize).find(is_there);
        near.or_else(|| self.ranks.of_word(first_word(key)).find(is_there))
    }

    /// The slots at these places will be asked for now.
    #[inline]
    pub(super) fn bring_near(&mut self, places: &[u32]) {
        self.near = [NOWHERE; NEAR];
        self.near.iter_mut().zip(places).for_each(|(near, place)| *near = *place);
    }

    /// The slot at a place, if there is one.
    #[inline]
    pub(super) fn key_at(&self, place: u32) -> Option<U256> {
        self.expected.get(place as usize).map(|(key, _)| *key)
    }

    /// Has the slot at a place brought into the caches.
    #[inline]
    pub(super) fn prefetch(&self, place: u32) {
        if let Some(slot) = self.expected.get(place as usize) {
            prefetch(slot);
        }
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&U256, &Slot)> {
        self.expected.iter().map(|(key, slot)| (key, slot)).chain(&self.others)
    }

    /// Those for which `is_changed` holds, with their values, ascending.
    pub(super) fn changed(&self, is_changed: impl Fn(&Slot) -> bool) -> Vec<(U256, U256)> {
        let wanted = |(key, slot): (&U256, &Slot)| is_changed(slot).then_some((*key, slot.current));
        let mut changed: Vec<_> = self.iter().filter_map(wanted).collect();
        // In order already but for the others, which a stable sort merges in.
        changed.sort_by_key(|(key, _)| *key);
        changed
    }

    /// Meets those of these slots that were not met; `read` gives several, ascending. Tells the places
    /// of all that are among those expected. Slots can be expected once.
    ///
    /// # Errors
    /// Those of `read`; no slot is met then.
    pub(super) fn expect<E>(
        &mut self,
        keys: &[U256],
        read: impl FnOnce(&[U256]) -> Result<Vec<U256>, E>,
    ) -> Result<Vec<u32>, E> {
        let mut places = vec![NOWHERE; keys.len()];
        if !self.expected.is_empty() {
            return Ok(places);
        }
        let key = |at: u32| &keys[at as usize];
        let mut order: Vec<(u64, u32)> =
            keys.iter().zip(0..).map(|(key, at)| (first_word(key), at)).collect();
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(key(b.1))));
        let mut new: Vec<U256> = Vec::with_capacity(keys.len());
        for (_, at) in order {
            let key = *key(at);
            if new.last() != Some(&key) {
                if self.others.contains_key(&key) {
                    continue;
                }
                new.push(key);
            }
            places[at as usize] = u32::try_from(new.len() - 1).unwrap_or(NOWHERE);
        }
        let values = read(&new)?;
        self.ranks = SortedIndex::new(new.iter().map(first_word));
        let met = |value: U256| Slot { original: value, current: value };
        self.expected = new.into_iter().zip(values.into_iter().map(met)).collect();
        Ok(places)
    }
}

/// The word of 64 bits that decides most comparisons.
const fn first_word(key: &U256) -> u64 {
    key.as_limbs()[3]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{collections::BTreeMap, convert::Infallible};

    /// Few keys, some with the same first word.
    fn key() -> impl Strategy<Value = U256> {
        (0..4_u64, 0..8_u64).prop_map(|(high, low)| U256::from_limbs([low, 0, 0, high << 60]))
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(U256, u64),
        Expect(Vec<U256>),
        Near(Vec<u32>),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            8 => (key(), 0..4_u64).prop_map(|(key, value)| Step::Set(key, value)),
            1 => prop::collection::vec(key(), 0..20).prop_map(Step::Expect),
            1 => prop::collection::vec(0..40_u32, 0..6).prop_map(Step::Near),
        ];
        prop::collection::vec(step, 0..60)
    }

    /// What slots are before the block.
    fn before(key: &U256) -> U256 {
        key % U256::from(3)
    }

    proptest! {
        #[test]
        fn slots_are_a_map(steps in steps()) {
            let (mut slots, mut model) = (Slots::default(), BTreeMap::<U256, U256>::new());
            for step in steps {
                match step {
                    Step::Set(key, value) => {
                        slots.set(key, U256::from(value), before(&key));
                        model.insert(key, U256::from(value));
                    }
                    Step::Expect(keys) => {
                        let read = |new: &[U256]| Ok::<_, Infallible>(new.iter().map(before).collect());
                        let places = slots.expect(&keys, read).unwrap();
                        for (key, place) in keys.iter().zip(places) {
                            if place != NOWHERE {
                                model.entry(*key).or_insert_with(|| before(key));
                                prop_assert_eq!(slots.expected[place as usize].0, *key);
                                slots.prefetch(place);
                            }
                        }
                    }
                    Step::Near(places) => slots.bring_near(&places),
                }
                for (key, value) in &model {
                    prop_assert_eq!(slots.get(key).map(|slot| slot.current), Some(*value));
                    prop_assert_eq!(slots.get(key).map(|slot| slot.original), Some(before(key)));
                }
                prop_assert_eq!(slots.iter().count(), model.len());
                let changed = model.iter().filter(|(key, value)| before(key) != **value);
                let changed: Vec<_> = changed.map(|(key, value)| (*key, *value)).collect();
                prop_assert_eq!(slots.changed(|slot| slot.current != slot.original), changed);
            }
        }
    }
}
