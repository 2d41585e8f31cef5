//! The accounts that a block has met, in the order it met them. What a transaction looks at is kept
//! apart from what is looked at once a block, so that the near caches hold more accounts.

use std::collections::HashMap;

use alloy_primitives::{
    Address, U256,
    map::{AddressMap, DefaultHashBuilder},
};
use storage::{Account, address_order, prefetch};

/// Accounts between asking for one's memory and reading it.
const ACCOUNTS_AHEAD: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Met {
    places: AddressMap<u32>,
    entries: Vec<Entry>,
    /// Address and account before the block, by place.
    before: Vec<(Address, Option<Account>)>,
}

/// An account as the block sees it now.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) current: Option<Account>,
    /// There was one before the block.
    pub(super) existed: bool,
    /// The parent's storage no longer shows through.
    pub(super) wiped: bool,
    /// Slots read or written; most accounts have none.
    slots: Option<Box<Slots>>,
}

type Slots = HashMap<U256, Slot, DefaultHashBuilder>;

/// A storage slot before the block and now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) original: U256,
    pub(super) current: U256,
}

impl Entry {
    /// The account is gone, and its storage with it.
    pub(super) fn destroy(&mut self) {
        self.current = None;
        self.wiped = self.existed;
        self.slots = None;
    }

    /// A slot that was read or written.
    pub(super) fn slot(&self, key: &U256) -> Option<Slot> {
        self.slots.as_ref()?.get(key).copied()
    }

    /// All slots read or written.
    pub(super) fn slots(&self) -> impl Iterator<Item = (&U256, &Slot)> {
        self.slots.iter().flat_map(|slots| slots.iter())
    }

    /// The same, for changing.
    pub(super) fn slots_mut(&mut self) -> &mut Slots {
        self.slots.get_or_insert_default()
    }

    /// Drops what is known of slots.
    pub(super) fn clear_slots(&mut self) {
        self.slots = None;
    }

    /// Whether nothing of the parent's storage can be seen.
    pub(super) const fn hides_parent(&self) -> bool {
        self.wiped || !self.existed
    }

    /// Slots that differ from the parent's, ascending.
    pub(super) fn changed_slots(&self) -> Vec<(U256, U256)> {
        if self.current.is_none() || self.slots.is_none() {
            return Vec::new();
        }
        let changed = |slot: &Slot| {
            if self.wiped { !slot.current.is_zero() } else { slot.current != slot.original }
        };
        let slots = self.slots().filter(|(_, slot)| changed(slot));
        let mut slots: Vec<_> = slots.map(|(key, slot)| (*key, slot.current)).collect();
        slots.sort_unstable_by_key(|(key, _)| *key);
        slots
    }
}

impl Met {
    /// Makes room for so many more accounts.
    pub(super) fn reserve(&mut self, accounts: usize) {
        self.places.reserve(accounts);
        self.entries.reserve(accounts);
        self.before.reserve(accounts);
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, address: &Address) -> Option<&Entry> {
        self.places.get(address).map(|place| &self.entries[*place as usize])
    }

    pub(super) fn get_mut(&mut self, address: &Address) -> Option<&mut Entry> {
        self.places.get(address).map(|place| &mut self.entries[*place as usize])
    }

    /// The entry of an account, which `read` gives as it was before the block when it is met first.
    ///
    /// # Errors
    /// Those of `read`; the account is not met then.
    pub(super) fn entry<E>(
        &mut self,
        address: Address,
        read: impl FnOnce() -> Result<Option<Account>, E>,
    ) -> Result<&mut Entry, E> {
        let place = match self.places.entry(address) {
            alloy_primitives::map::Entry::Occupied(place) => *place.get(),
            alloy_primitives::map::Entry::Vacant(vacant) => {
                let before = read()?;
                let existed = before.is_some();
                self.before.push((address, before));
                self.entries.push(Entry { current: before, existed, wiped: false, slots: None });
                let last = self.entries.len() - 1;
                *vacant.insert(u32::try_from(last).expect("a block meets below 2^32 accounts"))
            }
        };
        Ok(&mut self.entries[place as usize])
    }

    /// All accounts by address, ascending: before the block, and now.
    pub(super) fn ascending(&self) -> impl Iterator<Item = (Address, Option<Account>, &Entry)> {
        let mut order: Vec<(Address, u32)> =
            self.before.iter().zip(0..).map(|((address, _), place)| (*address, place)).collect();
        order.sort_unstable_by_key(|(address, _)| address_order(address));
        (0..order.len()).map(move |at| {
            if let Some((_, ahead)) = order.get(at + ACCOUNTS_AHEAD) {
                prefetch(&self.before[*ahead as usize]);
                prefetch(&self.entries[*ahead as usize]);
            }
            let (address, place) = order[at];
            (address, self.before[place as usize].1, &self.entries[place as usize])
        })
    }
}
