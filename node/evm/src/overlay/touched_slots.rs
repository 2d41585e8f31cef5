//! Stores the storage slots of one account that a block has read or written.
//!
//! Slots that were predicted for the block's transactions are preloaded together and sorted, which is the
//! order needed at the end of the block. `touched_accounts` does the same with accounts.

use std::collections::HashMap;

use alloy_primitives::{U256, map::DefaultHashBuilder};
use storage::{SortedIndex, prefetch};

use crate::caches::MAX_TX_SLOTS;

/// The position of a slot that was not preloaded.
pub(super) const NOT_PRELOADED: u32 = u32::MAX;

/// A storage slot: its value before the block, and now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(super) original: U256,
    pub(super) current: U256,
}

/// The slots of an account; see the module documentation.
#[derive(Debug)]
pub(crate) struct TouchedSlots {
    /// Slots that were not preloaded.
    others: HashMap<U256, Slot, DefaultHashBuilder>,
    /// Preloaded slots, ascending.
    preloaded: Vec<(U256, Slot)>,
    /// Index of the preloaded keys.
    index: SortedIndex,
    /// Positions of the current transaction's predicted slots, which are searched first.
    tx_slots: [u32; MAX_TX_SLOTS],
}

impl Default for TouchedSlots {
    fn default() -> Self {
        Self {
            others: HashMap::default(),
            preloaded: Vec::new(),
            index: SortedIndex::default(),
            tx_slots: [NOT_PRELOADED; MAX_TX_SLOTS],
        }
    }
}

impl TouchedSlots {
    /// Returns a slot that was preloaded, read or written.
    #[inline]
    pub(super) fn get(&self, key: &U256) -> Option<&Slot> {
        match self.find(key) {
            Some(position) => Some(&self.preloaded[position].1),
            None => self.others.get(key),
        }
    }

    /// Sets the value of a slot. `original` is its value before the block, which is used only on the first access.
    pub(super) fn set(&mut self, key: U256, current: U256, original: U256) {
        if let Some(position) = self.find(&key) {
            self.preloaded[position].1.current = current;
            return;
        }
        let slot = self.others.entry(key).or_insert(Slot { original, current });
        slot.current = current;
    }

    /// Returns the position of a preloaded slot.
    #[inline]
    fn find(&self, key: &U256) -> Option<usize> {
        let has_key =
            |position: &usize| self.preloaded.get(*position).is_some_and(|(found, _)| found == key);
        let predicted = self.tx_slots.iter().map(|position| *position as usize).find(has_key);
        predicted.or_else(|| self.index.of_word(first_word(key)).find(has_key))
    }

    /// Sets the positions of the next transaction's predicted slots. At most [`MAX_TX_SLOTS`] are used.
    #[inline]
    pub(super) fn prepare_tx(&mut self, positions: &[u32]) {
        self.tx_slots = [NOT_PRELOADED; MAX_TX_SLOTS];
        self.tx_slots
            .iter_mut()
            .zip(positions)
            .for_each(|(tx_slot, position)| *tx_slot = *position);
    }

    /// Returns the key at a position, if there is one.
    #[inline]
    pub(crate) fn key_at(&self, position: u32) -> Option<U256> {
        self.preloaded.get(position as usize).map(|(key, _)| *key)
    }

    /// Prefetches the slot at a position.
    #[inline]
    pub(crate) fn prefetch(&self, position: u32) {
        if let Some(slot) = self.preloaded.get(position as usize) {
            prefetch(slot);
        }
    }

    /// Returns all slots, preloaded ones first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&U256, &Slot)> {
        self.preloaded.iter().map(|(key, slot)| (key, slot)).chain(&self.others)
    }

    /// Returns the slots for which `is_changed` returns true, with their values, in ascending order.
    pub(super) fn changed(&self, is_changed: impl Fn(&Slot) -> bool) -> Vec<(U256, U256)> {
        let wanted = |(key, slot): (&U256, &Slot)| is_changed(slot).then_some((*key, slot.current));
        let mut changed: Vec<_> = self.iter().filter_map(wanted).collect();
        // The preloaded slots are sorted already. A stable sort merges the others with them.
        changed.sort_by_key(|(key, _)| *key);
        changed
    }

    /// Reads the slots that were not accessed before, and returns the position of each key. `read` receives the keys
    /// of these slots in ascending order. The position is [`NOT_PRELOADED`] if the slot was accessed before, and for
    /// all keys if slots were preloaded before.
    ///
    /// # Errors
    /// Any error from `read`; no slot is added in that case.
    pub(super) fn preload<E>(
        &mut self,
        keys: &[U256],
        read: impl FnOnce(&[U256]) -> Result<Vec<U256>, E>,
    ) -> Result<Vec<u32>, E> {
        let mut positions = vec![NOT_PRELOADED; keys.len()];
        if !self.preloaded.is_empty() {
            return Ok(positions);
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
            positions[at as usize] = u32::try_from(new.len() - 1).unwrap_or(NOT_PRELOADED);
        }
        let values = read(&new)?;
        self.index = SortedIndex::new(new.iter().map(first_word));
        let unchanged = |value: U256| Slot { original: value, current: value };
        self.preloaded = new.into_iter().zip(values.into_iter().map(unchanged)).collect();
        Ok(positions)
    }
}

/// Returns the most significant 64 bits, which decide most comparisons.
const fn first_word(key: &U256) -> u64 {
    key.as_limbs()[3]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{collections::BTreeMap, convert::Infallible};

    /// Generates one of a few keys, several of which have the same first word.
    fn key() -> impl Strategy<Value = U256> {
        (0..4_u64, 0..8_u64).prop_map(|(high, low)| U256::from_limbs([low, 0, 0, high << 60]))
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(U256, u64),
        Preload(Vec<U256>),
        Prepare(Vec<u32>),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            8 => (key(), 0..4_u64).prop_map(|(key, value)| Step::Set(key, value)),
            1 => prop::collection::vec(key(), 0..20).prop_map(Step::Preload),
            1 => prop::collection::vec(0..40_u32, 0..6).prop_map(Step::Prepare),
        ];
        prop::collection::vec(step, 0..60)
    }

    /// Returns the value of a slot before the block.
    fn before(key: &U256) -> U256 {
        key % U256::from(3)
    }

    proptest! {
        #[test]
        fn slots_behave_like_a_map(steps in steps()) {
            let (mut slots, mut model) = (TouchedSlots::default(), BTreeMap::<U256, U256>::new());
            for step in steps {
                match step {
                    Step::Set(key, value) => {
                        slots.set(key, U256::from(value), before(&key));
                        model.insert(key, U256::from(value));
                    }
                    Step::Preload(keys) => {
                        let read = |new: &[U256]| Ok::<_, Infallible>(new.iter().map(before).collect());
                        let positions = slots.preload(&keys, read).unwrap();
                        for (key, position) in keys.iter().zip(positions) {
                            if position != NOT_PRELOADED {
                                model.entry(*key).or_insert_with(|| before(key));
                                prop_assert_eq!(slots.preloaded[position as usize].0, *key);
                                slots.prefetch(position);
                            }
                        }
                    }
                    Step::Prepare(positions) => slots.prepare_tx(&positions),
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
