//! Finds the blocks in which an address may have sent or received a transaction.
//!
//! Most of these blocks follow from the history of accounts: a transaction changes the nonce of its sender, and the
//! balance of a recipient of value. [`called`] returns the remaining addresses, for the postings of the index. It
//! and [`Appearances`] must be changed together.

use super::{Layer, View};
use alloy_primitives::Address;
use std::{ops::RangeInclusive, sync::Arc};
use storage::{IndexReader, PostingKey, ReadError, SortedIndex, StateChanges, address_order};

/// Returns the participants of a block's transactions whose accounts the block did not change, ascending. Senders
/// are never among them, because their nonces increase.
pub fn called(participants: impl Iterator<Item = Address>, changes: &StateChanges) -> Vec<Address> {
    let changed = &changes.accounts;
    let word = |address: &Address| address_order(address).0;
    let index = SortedIndex::new(changed.iter().map(|change| word(&change.address)));
    let is_changed = |address: &Address| {
        index.of_word(word(address)).any(|position| changed[position].address == *address)
    };
    let mut unchanged: Vec<_> = participants.filter(|address| !is_changed(address)).collect();
    unchanged.sort_unstable();
    unchanged.dedup();
    unchanged
}

/// The blocks of a view in which one address may appear. They include all blocks with a transaction from the address
/// or to it, and all that created or removed its account. This holds a read transaction.
#[derive(Debug)]
pub struct Appearances<'v> {
    view: &'v View,
    index: IndexReader,
    address: Address,
    called: PostingKey,
}

/// All methods fail only if the index cannot be read.
impl<'v> Appearances<'v> {
    /// Starts a search for the appearances of `address`.
    pub fn of(view: &'v View, address: Address) -> Result<Self, ReadError> {
        let index = view.state.index().reader()?;
        Ok(Self { view, index, address, called: PostingKey::called(address) })
    }

    /// Returns the newest block up to `number`.
    pub fn up_to(&self, number: u64) -> Result<Option<u64>, ReadError> {
        let number = number.min(self.view.number());
        let layer = self.layers(0..=number).next_back();
        let changed = self.index.changed_up_to(self.address, number)?;
        let called = self.index.posted_up_to(self.called, number)?;
        Ok(layer.max(changed).max(called))
    }

    /// Returns the oldest block from `number` on.
    pub fn from(&self, number: u64) -> Result<Option<u64>, ReadError> {
        let layer = self.layers(number..=u64::MAX).next();
        let changed = self.index.changed_from(self.address, number)?;
        let called = self.index.posted_from(self.called, number)?;
        let found = [layer, changed, called].into_iter().flatten().min();
        Ok(found.filter(|found| *found <= self.view.number()))
    }

    /// Returns the blocks in memory with these numbers in which the address appears, ascending.
    fn layers(&self, numbers: RangeInclusive<u64>) -> impl DoubleEndedIterator<Item = u64> {
        let appears = move |layer: &&Arc<Layer>| {
            let keys = layer.posting_keys().unwrap_or_default();
            numbers.contains(&layer.number())
                && (keys.binary_search(&self.called).is_ok()
                    || layer.account(self.address).is_some())
        };
        self.view.state.layers().iter().filter(appears).map(|layer| layer.number())
    }
}

/// The blocks of a view that may contain a log of one address. This holds a read transaction.
#[derive(Debug)]
pub struct Emissions<'v> {
    view: &'v View,
    index: IndexReader,
    key: PostingKey,
}

impl<'v> Emissions<'v> {
    /// Starts a search for the logs of `address`.
    ///
    /// # Errors
    /// If the index cannot be read; likewise for [`Self::up_to`].
    pub fn of(view: &'v View, address: Address) -> Result<Self, ReadError> {
        let index = view.state.index().reader()?;
        Ok(Self { view, index, key: PostingKey::address(address) })
    }

    /// Returns the newest block up to `number`.
    pub fn up_to(&self, number: u64) -> Result<Option<u64>, ReadError> {
        let number = number.min(self.view.number());
        let emits = |layer: &&Arc<Layer>| {
            let keys = layer.posting_keys().unwrap_or_default();
            layer.number() <= number && keys.binary_search(&self.key).is_ok()
        };
        let layer = self.view.state.layers().iter().rev().find(emits).map(|layer| layer.number());
        Ok(layer.max(self.index.posted_up_to(self.key, number)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::AccountChange;

    #[test]
    fn called_returns_participants_with_unchanged_accounts() {
        let change = |byte| AccountChange {
            address: Address::repeat_byte(byte),
            account: None,
            wiped: false,
            slots: Vec::new(),
        };
        let changes = StateChanges { accounts: [2, 4, 6].map(change).into(), codes: Vec::new() };
        let participants = [7, 2, 1, 4, 5, 1, 6].map(Address::repeat_byte);
        let expected = [1, 5, 7].map(Address::repeat_byte);
        assert_eq!(called(participants.into_iter(), &changes), expected);
        assert!(called(std::iter::empty(), &changes).is_empty());
        let nothing = StateChanges::default();
        assert_eq!(called([Address::ZERO].into_iter(), &nothing), [Address::ZERO]);
    }
}
