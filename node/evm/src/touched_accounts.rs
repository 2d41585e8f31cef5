//! The accounts that a block has met. What a transaction looks at is kept apart from what is looked at
//! once a block, so that the near caches hold more accounts.
//!
//! Those that the block's transactions name are met all at once and put in order of address, in which
//! they are wanted at the block's end. The others are few, and in the order in which they were met.

use std::ops::Range;

use alloy_primitives::{Address, U256, map::AddressMap};
use storage::{Account, SortedIndex, address_order, prefetch};

use super::touched_slots::{Slot, Slots};

/// Accounts found without a search: the ends of a transaction, and one more it asks for, such as who is
/// paid for it.
const NEAR: usize = 3;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Met {
    /// Places of those that nobody expected.
    others: AddressMap<u32>,
    /// Places of those expected, ascending by address.
    expected: Range<usize>,
    /// Where these are.
    ranks: SortedIndex,
    /// Accounts with their places that are looked for here first, for a transaction asks for its few
    /// again and again. The last is the one that was searched for last.
    near: [Option<(Address, u32)>; NEAR],
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

    /// The same, if any was read or written.
    #[inline]
    pub(super) fn slots_met(&mut self) -> Option<&mut Slots> {
        self.slots.as_deref_mut()
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
        let Some(slots) = self.slots.as_ref().filter(|_| self.current.is_some()) else {
            return Vec::new();
        };
        slots.changed(|slot| {
            if self.wiped { !slot.current.is_zero() } else { slot.current != slot.original }
        })
    }
}

impl Met {
    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, address: &Address) -> Option<&Entry> {
        self.find(address).map(|place| &self.entries[place as usize])
    }

    pub(super) fn get_mut(&mut self, address: &Address) -> Option<&mut Entry> {
        self.find(address).map(|place| &mut self.entries[place as usize])
    }

    fn find(&self, address: &Address) -> Option<u32> {
        self.find_near(address).or_else(|| self.search(address))
    }

    #[inline]
    fn find_near(&self, address: &Address) -> Option<u32> {
        self.near.iter().flatten().find(|(there, _)| there == address).map(|(_, place)| *place)
    }

    fn search(&self, address: &Address) -> Option<u32> {
        if let Some(place) = self.others.get(address) {
            return Some(*place);
        }
        let mut places =
            self.ranks.of_word(address_order(address).0).map(|rank| self.expected.start + rank);
        places.find(|place| self.before[*place].0 == *address).map(place_number)
    }

    /// The accounts at these places, which have these addresses, will be asked for now.
    #[inline]
    pub(super) fn bring_near(&mut self, accounts: [(Address, u32); NEAR - 1]) {
        self.near[..NEAR - 1].copy_from_slice(&accounts.map(Some));
    }

    /// The account at a place, as the block sees it now.
    pub(super) fn at(&mut self, place: u32) -> &mut Entry {
        &mut self.entries[place as usize]
    }

    /// Has the account at a place brought into the caches.
    #[inline]
    pub(super) fn prefetch(&self, place: u32) {
        prefetch(&self.entries[place as usize]);
    }

    /// The entry of an account, which `read` gives as it was before the block when it is met first.
    ///
    /// # Errors
    /// Those of `read`; the account is not met then.
    #[inline]
    pub(super) fn entry<E>(
        &mut self,
        address: Address,
        read: impl FnOnce() -> Result<Option<Account>, E>,
    ) -> Result<&mut Entry, E> {
        let place = match self.find_near(&address) {
            Some(place) => place,
            None => {
                let place = match self.search(&address) {
                    Some(place) => place,
                    None => self.meet(address, read()?),
                };
                self.near[NEAR - 1] = Some((address, place));
                place
            }
        };
        Ok(&mut self.entries[place as usize])
    }

    /// An account that nobody expected.
    fn meet(&mut self, address: Address, account: Option<Account>) -> u32 {
        let place = place_number(self.entries.len());
        self.others.insert(address, place);
        self.push(address, account);
        place
    }

    fn push(&mut self, address: Address, before: Option<Account>) {
        self.before.push((address, before));
        let existed = before.is_some();
        self.entries.push(Entry { current: before, existed, wiped: false, slots: None });
    }

    /// Meets those of these accounts that were not met; `read` gives several, in the order of their
    /// addresses. Tells the places of all.
    ///
    /// # Errors
    /// Those of `read`; no account is met then.
    pub(super) fn expect<E>(
        &mut self,
        addresses: &[Address],
        read: impl FnOnce(&[Address]) -> Result<Vec<Option<Account>>, E>,
    ) -> Result<Vec<u32>, E> {
        let mut places = vec![0; addresses.len()];
        let mut order: Vec<(u64, u32)> =
            addresses.iter().zip(0..).map(|(address, at)| (address_order(address).0, at)).collect();
        let address = |at: u32| &addresses[at as usize];
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| address(a.1).cmp(address(b.1))));
        let start = self.entries.len();
        let mut new: Vec<Address> = Vec::with_capacity(addresses.len());
        for (_, at) in order {
            let address = *address(at);
            places[at as usize] = if new.last() == Some(&address) {
                place_number(start + new.len() - 1)
            } else if let Some(place) = self.find(&address) {
                place
            } else {
                new.push(address);
                place_number(start + new.len() - 1)
            };
        }
        let accounts = read(&new)?;
        self.entries.reserve(new.len());
        self.before.reserve(new.len());
        if self.expected.is_empty() {
            self.expected = start..start + new.len();
            self.ranks = SortedIndex::new(new.iter().map(|address| address_order(address).0));
            new.iter().zip(accounts).for_each(|(address, account)| self.push(*address, account));
        } else {
            for (address, account) in new.iter().zip(accounts) {
                self.meet(*address, account);
            }
        }
        Ok(places)
    }

    /// All accounts by address, ascending: before the block, and now.
    pub(super) fn ascending(&self) -> impl Iterator<Item = (Address, Option<Account>, &Entry)> {
        let mut others: Vec<(Address, u32)> =
            self.others.iter().map(|(address, place)| (*address, *place)).collect();
        others.sort_unstable_by_key(|(address, _)| address_order(address));
        let mut others = others.into_iter().peekable();
        let mut expected = self.expected.clone().peekable();
        std::iter::from_fn(move || {
            let next = expected.peek().map(|place| address_order(&self.before[*place].0));
            let is_other = |(address, _): &(Address, u32)| {
                next.is_none_or(|next| address_order(address) < next)
            };
            let place = match others.next_if(is_other) {
                Some((_, place)) => place as usize,
                None => expected.next()?,
            };
            let (address, before) = self.before[place];
            Some((address, before, &self.entries[place]))
        })
    }
}

fn place_number(place: usize) -> u32 {
    u32::try_from(place).expect("a block meets below 2^32 accounts")
}
