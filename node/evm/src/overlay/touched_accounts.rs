//! Stores the accounts that a block touches. Data that each transaction accesses is stored apart from data that is
//! accessed once per block, so that more accounts fit into the processor's caches.
//!
//! The senders and recipients of the block's transactions are preloaded together and sorted by address, which
//! is the order needed at the end of the block. The other accounts are few. They follow in the order of their
//! first access.

use std::ops::Range;

use alloy_primitives::{Address, U256, map::AddressMap};
use storage::{Account, SortedIndex, address_order, prefetch};

use super::touched_slots::{Slot, TouchedSlots};

/// Number of accounts that are found without a search: sender, recipient, and one more, for example the recipient of
/// the fees.
const TX_ACCOUNTS: usize = 3;

/// The accounts of a block; see the module documentation.
#[derive(Debug, Default)]
pub(crate) struct TouchedAccounts {
    /// Positions of the accounts that were not preloaded.
    others: AddressMap<u32>,
    /// Positions of the preloaded accounts, ascending by address.
    preloaded: Range<usize>,
    /// Index of the preloaded addresses.
    index: SortedIndex,
    /// Accounts of the current transaction with their positions. They are searched first, because a
    /// transaction accesses its few accounts repeatedly. The last entry is the latest result of a search.
    tx_accounts: [Option<(Address, u32)>; TX_ACCOUNTS],
    entries: Vec<Entry>,
    /// Address and account before the block, by position.
    before: Vec<(Address, Option<Account>)>,
}

/// The current state of an account within the block.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) current: Option<Account>,
    /// Whether the account existed before the block.
    pub(super) existed: bool,
    /// Whether the block cleared the parent's storage of the account.
    pub(super) wiped: bool,
    /// Slots read or written; most accounts have none.
    slots: Option<Box<TouchedSlots>>,
}

impl Entry {
    /// Deletes the account and its storage.
    pub(super) fn destroy(&mut self) {
        self.current = None;
        self.wiped = self.existed;
        self.slots = None;
    }

    /// Returns a slot that was read or written.
    pub(super) fn slot(&self, key: &U256) -> Option<Slot> {
        self.slots.as_ref()?.get(key).copied()
    }

    /// Returns all slots that were read or written.
    pub(super) fn slots(&self) -> impl Iterator<Item = (&U256, &Slot)> {
        self.slots.iter().flat_map(|slots| slots.iter())
    }

    /// Returns the slots for modification. Creates an empty set if there are none.
    pub(super) fn slots_mut(&mut self) -> &mut TouchedSlots {
        self.slots.get_or_insert_default()
    }

    /// Returns the slots for modification, if any was read or written.
    #[inline]
    pub(crate) fn touched_slots_mut(&mut self) -> Option<&mut TouchedSlots> {
        self.slots.as_deref_mut()
    }

    /// Discards all slots.
    pub(super) fn clear_slots(&mut self) {
        self.slots = None;
    }

    /// Returns whether the parent's storage is hidden, because the account is new or its storage was cleared.
    pub(super) const fn hides_parent(&self) -> bool {
        self.wiped || !self.existed
    }

    /// Returns the slots that differ from the parent's (from zero if the block cleared the storage) in ascending order.
    pub(super) fn changed_slots(&self) -> Vec<(U256, U256)> {
        let Some(slots) = self.slots.as_ref().filter(|_| self.current.is_some()) else {
            return Vec::new();
        };
        slots.changed(|slot| {
            if self.wiped { !slot.current.is_zero() } else { slot.current != slot.original }
        })
    }
}

impl TouchedAccounts {
    /// Returns the number of touched accounts.
    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, address: &Address) -> Option<&Entry> {
        self.find(address).map(|position| &self.entries[position as usize])
    }

    pub(super) fn get_mut(&mut self, address: &Address) -> Option<&mut Entry> {
        self.find(address).map(|position| &mut self.entries[position as usize])
    }

    fn find(&self, address: &Address) -> Option<u32> {
        self.find_in_tx(address).or_else(|| self.search(address))
    }

    #[inline]
    fn find_in_tx(&self, address: &Address) -> Option<u32> {
        self.tx_accounts
            .iter()
            .flatten()
            .find(|(found, _)| found == address)
            .map(|(_, position)| *position)
    }

    fn search(&self, address: &Address) -> Option<u32> {
        if let Some(position) = self.others.get(address) {
            return Some(*position);
        }
        let mut positions =
            self.index.of_word(address_order(address).0).map(|rank| self.preloaded.start + rank);
        positions.find(|position| self.before[*position].0 == *address).map(position_number)
    }

    /// Sets the accounts that the next transaction finds without a search, with their positions.
    #[inline]
    pub(crate) fn prepare_tx(&mut self, accounts: [(Address, u32); TX_ACCOUNTS - 1]) {
        self.tx_accounts[..TX_ACCOUNTS - 1].copy_from_slice(&accounts.map(Some));
    }

    /// Returns the account at a position.
    pub(crate) fn at(&mut self, position: u32) -> &mut Entry {
        &mut self.entries[position as usize]
    }

    /// Prefetches the account at a position.
    #[inline]
    pub(crate) fn prefetch(&self, position: u32) {
        prefetch(&self.entries[position as usize]);
    }

    /// Returns the entry of an account. On first access, `read` returns the account as of the parent block.
    ///
    /// Any error from `read`; the account is not added in that case.
    #[inline]
    pub(super) fn entry<E>(
        &mut self,
        address: Address,
        read: impl FnOnce() -> Result<Option<Account>, E>,
    ) -> Result<&mut Entry, E> {
        let position = match self.find_in_tx(&address) {
            Some(position) => position,
            None => {
                let position = match self.search(&address) {
                    Some(position) => position,
                    None => self.add(address, read()?),
                };
                self.tx_accounts[TX_ACCOUNTS - 1] = Some((address, position));
                position
            }
        };
        Ok(&mut self.entries[position as usize])
    }

    /// Adds an account that was not preloaded.
    fn add(&mut self, address: Address, account: Option<Account>) -> u32 {
        let position = position_number(self.entries.len());
        self.others.insert(address, position);
        self.push(address, account);
        position
    }

    fn push(&mut self, address: Address, before: Option<Account>) {
        self.before.push((address, before));
        let existed = before.is_some();
        self.entries.push(Entry { current: before, existed, wiped: false, slots: None });
    }

    /// Adds the accounts that are missing, and returns the positions of all. `read` receives the missing addresses in
    /// ascending order.
    ///
    /// # Errors
    /// Any error from `read`; no account is added in that case.
    pub(super) fn preload<E>(
        &mut self,
        addresses: &[Address],
        read: impl FnOnce(&[Address]) -> Result<Vec<Option<Account>>, E>,
    ) -> Result<Vec<u32>, E> {
        let mut positions = vec![0; addresses.len()];
        let mut order: Vec<(u64, u32)> =
            addresses.iter().zip(0..).map(|(address, at)| (address_order(address).0, at)).collect();
        let address = |at: u32| &addresses[at as usize];
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| address(a.1).cmp(address(b.1))));
        let start = self.entries.len();
        let mut new: Vec<Address> = Vec::with_capacity(addresses.len());
        for (_, at) in order {
            let address = *address(at);
            positions[at as usize] = if new.last() == Some(&address) {
                position_number(start + new.len() - 1)
            } else if let Some(position) = self.find(&address) {
                position
            } else {
                new.push(address);
                position_number(start + new.len() - 1)
            };
        }
        let accounts = read(&new)?;
        self.entries.reserve(new.len());
        self.before.reserve(new.len());
        if self.preloaded.is_empty() {
            self.preloaded = start..start + new.len();
            self.index = SortedIndex::new(new.iter().map(|address| address_order(address).0));
            new.iter().zip(accounts).for_each(|(address, account)| self.push(*address, account));
        } else {
            for (address, account) in new.iter().zip(accounts) {
                self.add(*address, account);
            }
        }
        Ok(positions)
    }

    /// Returns all accounts in ascending order of address: address, account before the block, and current state.
    pub(super) fn ascending(&self) -> impl Iterator<Item = (Address, Option<Account>, &Entry)> {
        let mut others: Vec<(Address, u32)> =
            self.others.iter().map(|(address, position)| (*address, *position)).collect();
        others.sort_unstable_by_key(|(address, _)| address_order(address));
        let mut others = others.into_iter().peekable();
        let mut preloaded = self.preloaded.clone().peekable();
        std::iter::from_fn(move || {
            let next = preloaded.peek().map(|position| address_order(&self.before[*position].0));
            let is_other = |(address, _): &(Address, u32)| {
                next.is_none_or(|next| address_order(address) < next)
            };
            let position = match others.next_if(is_other) {
                Some((_, position)) => position as usize,
                None => preloaded.next()?,
            };
            let (address, before) = self.before[position];
            Some((address, before, &self.entries[position]))
        })
    }
}

fn position_number(position: usize) -> u32 {
    u32::try_from(position).expect("a block has fewer than 2^32 accounts")
}
