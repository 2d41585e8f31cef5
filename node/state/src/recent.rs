//! Caches of recently used accounts and slots of the newest state, with a limited size. They save a stage that
//! follows the head from searching the layers, each with its own hash map, and LMDB for entries that it used before.
//!
//! A cache is one map. As long as everything fits its limit, nothing is discarded. After that, an entry that
//! was not used for some time is discarded for each new one (the clock algorithm, see [`Table`]). The cache
//! stores the number of the last block whose changes it may have discarded. If the index is flushed up to that
//! block, a key that is not in the cache has not changed since the flush, and can be read from the index alone.
//!
//! A cache is owned by one stage, which must apply the changes of every block to it, in order.

use alloy_primitives::{
    Address, B256, Bytes, KECCAK256_EMPTY, U256,
    map::{AddressMap, DefaultHashBuilder, FbBuildHasher},
};
use std::{
    cell::RefCell,
    fmt,
    hash::{BuildHasher, Hash, Hasher},
};
use storage::{Account, ReadError, StateRead, address_order};

use super::{Layer, LayerId, StateReader};
use platform::table::Table;

/// Number of keys between the prefetch of a key's first position and its lookup. The next position is prefetched
/// after half of them.
const AHEAD: usize = 24;
/// Maximum number of accounts stored outside the table, about 8 MB. Most of them are contracts that blocks call
/// frequently.
const MAX_OUTSIZE: usize = 1 << 16;

/// Maximum number of lines of a full table that are searched for an unused entry, for each new entry.
const LINES_SEARCHED: usize = 16;

/// Quotient of the maximum numbers of cached accounts and slots.
const SLOTS_SHARE: usize = 4;

/// A cache from `K` to `V`.
struct Recent<K: Copy, V: Copy, S> {
    table: Table<K, V, S>,
    /// Maximum number of entries.
    limit: usize,
    /// The block in which the current round of the table's hand began.
    round_began: u64,
    /// The last block whose changes may have been discarded.
    lost: u64,
}

impl<K: Copy, V: Copy, S> fmt::Debug for Recent<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recent").field("len", &self.table.len()).finish_non_exhaustive()
    }
}

impl<K: Copy + Eq + Hash, V: Copy, S: BuildHasher + Default> Recent<K, V, S> {
    fn new(limit: usize) -> Self {
        Self { table: Table::default(), limit, round_began: 0, lost: 0 }
    }

    /// Returns the last block whose changes of keys that are not stored may have been discarded.
    const fn lost(&self) -> u64 {
        if self.limit == 0 { u64::MAX } else { self.lost }
    }

    /// Returns the value of `key`, if it is stored.
    fn get(&mut self, key: &K) -> Option<V> {
        self.table.get_used(key)
    }

    /// Prefetches the entries of these keys.
    fn prefetch<'a>(&self, keys: impl Iterator<Item = &'a K> + Clone)
    where
        K: 'a,
    {
        keys.clone().for_each(|key| self.table.prefetch(key));
        keys.for_each(|key| self.table.prefetch_next(key));
    }

    /// Prefetches for a caller that iterates over keys and has reached `at`. `key` returns the key at a position.
    #[inline]
    fn prefetch_ahead(&self, at: usize, key: impl Fn(usize) -> Option<K>) {
        key(at + AHEAD).iter().for_each(|key| self.table.prefetch(key));
        key(at + AHEAD / 2).iter().for_each(|key| self.table.prefetch_next(key));
    }

    /// Stores a value that was read before `block`, or changed by it.
    fn put(&mut self, key: K, value: V, block: u64) {
        if self.limit == 0 {
            return;
        }
        if self.table.len() >= self.limit && self.table.get(&key).is_none() {
            self.discard_one(block);
        }
        self.table.insert(key, value);
    }

    /// Discards an entry, before `block` or while its changes are applied.
    fn discard_one(&mut self, block: u64) {
        let round = self.table.rounds();
        let unused = self.table.remove_unused(LINES_SEARCHED);
        if self.table.rounds() > round {
            self.round_began = block;
        }
        if unused.is_some() {
            // The discarded entry was not changed since the round began.
            self.lost = self.lost.max(self.round_began);
        } else {
            self.table.remove_next();
            self.lost = block;
        }
    }

    /// Clears the cache while the changes of `block` are applied or after it.
    fn clear(&mut self, block: u64) {
        self.table.clear();
        (self.round_began, self.lost) = (block, block);
    }
}

/// A cached account. Accounts with code, or with more than 2^128 wei, are rare: the table only marks them as
/// stored elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Absent,
    Plain { nonce: u64, balance: [u64; 2] },
    Elsewhere,
}

impl Known {
    fn of(account: Option<&Account>) -> Self {
        let Some(account) = account else { return Self::Absent };
        match account.balance.as_limbs() {
            [low, high, 0, 0] if account.code_hash == KECCAK256_EMPTY => {
                Self::Plain { nonce: account.nonce, balance: [*low, *high] }
            }
            _ => Self::Elsewhere,
        }
    }

    /// Returns the account, unless it is stored elsewhere.
    fn account(self) -> Option<Option<Account>> {
        match self {
            Self::Absent => Some(None),
            Self::Plain { nonce, balance: [low, high] } => {
                let balance = U256::from_limbs([low, high, 0, 0]);
                Some(Some(Account { nonce, balance, code_hash: KECCAK256_EMPTY }))
            }
            Self::Elsewhere => None,
        }
    }
}

/// The caches; see the module documentation. The default caches store nothing, so everything is read from the state.
#[derive(Debug)]
pub struct RecentState {
    accounts: Recent<Address, Known, FbBuildHasher<20>>,
    /// Accounts that the table marks as stored elsewhere, as of the newest state.
    outsize: AddressMap<Account>,
    slots: RecentSlots,
    /// The state after the last applied block; `None` before the first.
    state: Option<LayerId>,
}

type RecentSlots = Recent<SlotKey, U256, DefaultHashBuilder>;

/// A slot of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlotKey(Address, U256);

impl Hash for SlotKey {
    /// Hashes the key by words, which takes half as long as by bytes.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (first, rest) = address_order(&self.0);
        let mut words = [0; 16];
        words[..12].copy_from_slice(&rest);
        state.write_u64(first);
        state.write_u128(u128::from_le_bytes(words));
        self.1.as_limbs().iter().for_each(|limb| state.write_u64(*limb));
    }
}

impl RecentState {
    /// Creates empty caches for at most `accounts` accounts, and a quarter as many slots, because fewer of these are
    /// used repeatedly. Full caches take 85 to 171 bytes per account and 171 to 341 per slot, and the minimum if
    /// `accounts` is three quarters of a power of two.
    pub fn new(accounts: usize) -> Self {
        let (accounts, slots) = (Recent::new(accounts), Recent::new(accounts / SLOTS_SHARE));
        Self { accounts, outsize: AddressMap::default(), slots, state: None }
    }

    /// Clears the caches before a move to the state after block `number`, whose layers were not applied. Keeps the
    /// memory.
    pub fn forget(&mut self, number: u64) {
        self.accounts.clear(number);
        self.outsize.clear();
        self.slots.clear(number);
        self.state = None;
    }

    /// Makes the first inserted account reserve memory for this many, within the limit of the cache, because one later
    /// growth of the table would take tenths of a second.
    pub const fn reserve(&mut self, accounts: usize) {
        let limit = self.accounts.limit;
        self.accounts.table.reserve(if accounts < limit { accounts } else { limit });
    }

    /// Stores an account that was read before `block`, or changed by it.
    fn put_account(&mut self, address: Address, account: Option<&Account>, block: u64) {
        let known = Known::of(account);
        if known == Known::Elsewhere {
            self.put_outsize(address, account);
        }
        self.accounts.put(address, known, block);
    }

    fn put_outsize(&mut self, address: Address, account: Option<&Account>) {
        if self.outsize.len() >= MAX_OUTSIZE {
            self.outsize.clear();
        }
        self.outsize.extend(account.map(|account| (address, *account)));
    }

    /// Applies the changes of the next block to accounts, for owners that do not read slots.
    ///
    /// # Panics
    /// If the layer does not extend the state after the last one.
    pub fn apply_accounts(&mut self, layer: &Layer) {
        let follows = self.state.is_none_or(|state| state == layer.parent());
        assert!(follows, "layer {} extends another state than the cache has", layer.number());
        self.state = Some(layer.id());
        let (number, changes) = (layer.number(), layer.changes());
        for (at, change) in changes.accounts.iter().enumerate() {
            let address = |at: usize| changes.accounts.get(at).map(|change| change.address);
            self.accounts.prefetch_ahead(at, address);
            self.put_account(change.address, change.account.as_ref(), number);
        }
    }

    /// Prefetches the entries of these accounts.
    pub fn prefetch<'a>(&self, addresses: impl Iterator<Item = &'a Address> + Clone) {
        self.accounts.prefetch(addresses);
    }

    /// Applies the changes of the next block.
    ///
    /// # Panics
    /// If the layer does not extend the state after the last one.
    pub fn apply(&mut self, layer: &Layer) {
        self.apply_accounts(layer);
        let (number, changes) = (layer.number(), layer.changes());
        if changes.accounts.iter().any(|change| change.wiped || change.account.is_none()) {
            // The slots of an account cannot be listed, so all are discarded. This is rare since Cancun.
            self.slots.clear(number);
        }
        for change in &changes.accounts {
            let key = |at: usize| Some(SlotKey(change.address, change.slots.get(at)?.0));
            for (at, (slot, value)) in change.slots.iter().enumerate() {
                self.slots.prefetch_ahead(at, key);
                self.slots.put(SlotKey(change.address, *slot), *value, number);
            }
        }
    }
}

impl Default for RecentState {
    fn default() -> Self {
        Self::new(0)
    }
}

/// Reads the newest state through a [`RecentState`] to which every block has been applied.
#[derive(Debug)]
pub struct RecentReader<'a> {
    recent: RefCell<&'a mut RecentState>,
    state: &'a StateReader,
    next: u64,
    /// The last flushed block, if there is one.
    flushed: Option<u64>,
}

impl<'a> RecentReader<'a> {
    /// Creates a reader of `state`.
    ///
    /// # Errors
    /// If the index cannot be read.
    ///
    /// # Panics
    /// If the cache has another state.
    pub fn new(recent: &'a mut RecentState, state: &'a StateReader) -> Result<Self, ReadError> {
        let cached = recent.state;
        assert!(cached.is_none() || cached == state.id(), "the cache has another state");
        let flushed = state.index().flushed()?;
        Ok(Self { recent: RefCell::new(recent), state, next: state.next(), flushed })
    }

    /// Returns whether the index has the current value of a key that is not in the cache, which may have discarded
    /// changes up to block `lost`. Flush may be ahead of a stage that has not received the newest block.
    fn index_is_current(&self, lost: u64) -> bool {
        !self.state.is_historic() && self.flushed.is_some_and(|flushed| lost <= flushed)
    }

    /// Returns an account that the table marks as stored elsewhere.
    fn outsize_account(
        &self,
        recent: &mut RecentState,
        address: Address,
    ) -> Result<Option<Account>, ReadError> {
        if let Some(account) = recent.outsize.get(&address) {
            return Ok(Some(*account));
        }
        let account = self.state.account(address)?;
        recent.put_outsize(address, account.as_ref());
        Ok(account)
    }

    /// Returns an account that is not in the cache, which may have discarded changes up to block `lost`.
    fn unknown_account(&self, address: Address, lost: u64) -> Result<Option<Account>, ReadError> {
        if self.index_is_current(lost) {
            // No change of the account after the flush was discarded, so it has not changed since.
            self.state.index().account(address)
        } else {
            self.state.account(address)
        }
    }

    /// Reads a slot that is not in the cache, and stores it there.
    fn unknown_slot(
        &self,
        table: &mut RecentSlots,
        address: Address,
        slot: U256,
    ) -> Result<U256, ReadError> {
        let value = if self.index_is_current(table.lost()) {
            self.state.index().storage(address, slot)?
        } else {
            self.state.storage(address, slot)?
        };
        table.put(SlotKey(address, slot), value, self.next);
        Ok(value)
    }
}

impl StateRead for RecentReader<'_> {
    type Error = ReadError;

    fn account(&self, address: Address) -> Result<Option<Account>, ReadError> {
        let recent = &mut **self.recent.borrow_mut();
        match recent.accounts.get(&address) {
            Some(known) => match known.account() {
                Some(account) => Ok(account),
                None => self.outsize_account(recent, address),
            },
            None => {
                let account = self.unknown_account(address, recent.accounts.lost())?;
                recent.put_account(address, account.as_ref(), self.next);
                Ok(account)
            }
        }
    }

    /// Accounts that are not in the cache are read in key order, because neighbours share pages of the index.
    fn accounts(&self, addresses: &[Address]) -> Result<Vec<Option<Account>>, ReadError> {
        let recent = &mut **self.recent.borrow_mut();
        let mut found = vec![None; addresses.len()];
        let mut missing: Vec<(Address, usize)> = Vec::new();
        let mut elsewhere: Vec<usize> = Vec::new();
        for (at, address) in addresses.iter().enumerate() {
            recent.accounts.prefetch_ahead(at, |at| addresses.get(at).copied());
            match recent.accounts.get(address).map(Known::account) {
                Some(Some(account)) => found[at] = account,
                Some(None) => elsewhere.push(at),
                None => missing.push((*address, at)),
            }
        }
        missing.sort_unstable();
        let mut last: Option<(Address, Option<Account>)> = None;
        for (address, at) in missing {
            found[at] = match last {
                Some((same, account)) if same == address => account,
                _ => {
                    let account = self.unknown_account(address, recent.accounts.lost())?;
                    recent.put_account(address, account.as_ref(), self.next);
                    account
                }
            };
            last = Some((address, found[at]));
        }
        for at in elsewhere {
            found[at] = self.outsize_account(recent, addresses[at])?;
        }
        Ok(found)
    }

    fn storage(&self, address: Address, slot: U256) -> Result<U256, ReadError> {
        let table = &mut self.recent.borrow_mut().slots;
        if let Some(value) = table.get(&SlotKey(address, slot)) {
            return Ok(value);
        }
        self.unknown_slot(table, address, slot)
    }

    /// Slots that are not in the cache are read in the order of the argument, which should be ascending.
    fn slots(&self, address: Address, slots: &[U256]) -> Result<Vec<U256>, ReadError> {
        let table = &mut self.recent.borrow_mut().slots;
        let mut found = vec![U256::ZERO; slots.len()];
        let mut missing = Vec::new();
        for (at, slot) in slots.iter().enumerate() {
            table.prefetch_ahead(at, |at| Some(SlotKey(address, *slots.get(at)?)));
            match table.get(&SlotKey(address, *slot)) {
                Some(value) => found[at] = value,
                None => missing.push(at),
            }
        }
        for at in missing {
            found[at] = self.unknown_slot(table, address, slots[at])?;
        }
        Ok(found)
    }

    fn code(&self, code_hash: B256) -> Result<Bytes, ReadError> {
        StateRead::code(self.state, code_hash)
    }

    fn has_storage(&self, address: Address) -> Result<bool, ReadError> {
        self.state.has_storage(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StateView;
    use alloy_primitives::keccak256;
    use std::sync::Arc;
    use storage::{AccountChange, FlushBlock, IndexDb, IndexOptions, StateChanges};

    /// Number of accounts in the test, many more than a small cache holds.
    const ACCOUNTS: u64 = 300;

    fn address(n: u64) -> Address {
        Address::left_padding_from(&(n + 1).to_be_bytes())
    }

    /// Returns the changes of block `number`: about a tenth of the accounts change, some are removed, some have code,
    /// some storage.
    fn changes(number: u64) -> StateChanges {
        let accounts =
            (0..ACCOUNTS).filter(|n| (n * 7 + number * 13).is_multiple_of(11)).map(|n| {
                let kind = (n + number) % 9;
                let code_hash = if kind == 1 { B256::repeat_byte(7) } else { KECCAK256_EMPTY };
                let balance = if kind == 2 { U256::MAX } else { U256::from(number * 1000 + n) };
                let account = Account { nonce: number, balance, code_hash };
                let slots = (0..3).map(|slot| (U256::from(slot), U256::from(number + slot)));
                AccountChange {
                    address: address(n),
                    account: (kind != 0).then_some(account),
                    wiped: kind == 0,
                    slots: if kind > 4 { slots.collect() } else { Vec::new() },
                }
            });
        StateChanges { accounts: accounts.collect(), codes: Vec::new() }
    }

    /// The test uses several sizes of the cache, and different progress of flush.
    #[test]
    fn cache_returns_the_values_of_the_state() {
        for entries in [0, 4, 32, 4096] {
            let folder = tempfile::tempdir().unwrap();
            let options = IndexOptions { map_bytes: 64 << 20 };
            let index = IndexDb::open(folder.path(), options).unwrap();
            let mut view = StateView::before(0, index.clone());
            let mut recent = RecentState::new(entries);
            let mut flushed = 0;
            for number in 0..60 {
                let reader = view.reader().unwrap();
                let table = RecentReader::new(&mut recent, &reader).unwrap();
                let addresses: Vec<_> = (0..20).map(|n| address(n * number % ACCOUNTS)).collect();
                let expected = reader.accounts(&addresses).unwrap();
                assert_eq!(table.accounts(&addresses).unwrap(), expected);
                for n in (0..ACCOUNTS).filter(|n| (n + number) % 5 != 0) {
                    let (address, slot) = (address(n), U256::from(n % 4));
                    assert_eq!(table.account(address).unwrap(), reader.account(address).unwrap());
                    let word = reader.storage(address, slot).unwrap();
                    assert_eq!(table.storage(address, slot).unwrap(), word, "{n} at {number}");
                    let slots = [0, 1, 2, 3, number].map(U256::from);
                    let words = reader.slots(address, &slots).unwrap();
                    assert_eq!(table.slots(address, &slots).unwrap(), words, "{n} at {number}");
                }
                drop(reader);
                let layer = Arc::new(view.next_layer(changes(number), Vec::new()));
                recent.apply(&layer);
                view = view.with_layer(layer, flushed);
                // Genesis is flushed first. The view drops flushed layers one block later.
                if number % 8 == 7 || number == 0 {
                    flush(&index, &view);
                    flushed = number;
                }
            }
        }
    }

    /// Nothing is discarded at the limit, and one entry for the first one above it.
    #[test]
    fn cache_keeps_everything_up_to_its_limit() {
        let limit = ACCOUNTS as usize;
        let mut recent = Recent::<Address, u64, FbBuildHasher<20>>::new(limit);
        for block in 1..4 {
            (0..ACCOUNTS).for_each(|n| recent.put(address(n), block, block));
            assert_eq!((recent.table.len(), recent.lost), (limit, 0));
        }
        (0..ACCOUNTS).for_each(|n| assert_eq!(recent.get(&address(n)), Some(3)));
        recent.put(address(ACCOUNTS), 4, 4);
        assert_eq!((recent.table.len(), recent.lost), (limit, 4));
        assert_eq!(recent.get(&address(ACCOUNTS)), Some(4));
    }

    /// Frequently used accounts stay, while many others are used once. Nearly all discarded entries were not changed
    /// since the hand's round began, so few blocks change `lost`. Addresses are hashes, as those of accounts are. If
    /// they were consecutive, the positions of new entries relative to the hand would depend on the hasher's seed.
    #[test]
    fn frequently_used_accounts_stay() {
        let mut recent = Recent::<Address, u64, FbBuildHasher<20>>::new(1000);
        let address = |n: u64| Address::from_word(keccak256(n.to_be_bytes()));
        let frequent = 0..100;
        frequent.clone().for_each(|n| recent.put(address(n), 0, 1));
        let (mut missed, mut changes) = (0, 0);
        for n in 100..50_000 {
            let lost = recent.lost;
            recent.put(address(n), 0, n);
            if recent.get(&address(n % 100)).is_none() {
                missed += 1;
                recent.put(address(n % 100), 0, n);
            }
            changes += usize::from(recent.lost != lost);
        }
        assert!(missed < 500, "{missed} of 49,900 lookups of frequently used accounts failed");
        assert!(frequent.filter(|n| recent.get(&address(*n)).is_some()).count() >= 95);
        assert!(recent.lost > 40_000, "{}", recent.lost);
        assert!((100..2_500).contains(&changes), "lost changed {changes} times in 49,900 blocks");
    }

    fn flush(index: &IndexDb, view: &StateView) {
        let last = index.reader().unwrap().flushed().unwrap();
        let layers = view.layers().iter().filter(|layer| last.is_none_or(|n| layer.number() > n));
        let blocks: Vec<_> = layers
            .map(|layer| FlushBlock {
                number: layer.number(),
                hash: B256::with_last_byte(layer.number() as u8),
                tx_hashes: &[],
                posting_keys: &[],
                changes: layer.changes(),
            })
            .collect();
        index.flush(&blocks).unwrap();
    }
}
