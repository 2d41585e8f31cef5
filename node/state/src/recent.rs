//! Caches of recently used accounts and slots of the newest state, with a limited size. A stage that follows
//! the head then searches neither the layers, one hash map after another, nor LMDB for what it has used
//! before.
//!
//! A cache has two maps: the young one with recently used entries, and the old one. When the young map is
//! full, the old one is discarded and replaced by it. The cache stores up to which block it may have
//! discarded changes. If the index is flushed up to that block, a key that is not in the cache has not
//! changed since the flush, and can be read from the index alone.
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
    mem,
};
use storage::{Account, ReadError, StateChanges, StateRead, address_order};

use super::StateReader;
use platform::table::Table;

/// Keys between the prefetch of a key's first position and its lookup. The next position is prefetched half
/// way.
const AHEAD: usize = 24;
/// Maximum number of accounts stored outside the table, some 8 MB of them: contracts that blocks call
/// frequently.
const MAX_OUTSIZE: usize = 1 << 16;

/// Accounts per slot.
const SLOTS_SHARE: usize = 4;

/// A cache from `K` to `V`.
struct Recent<K: Copy, V: Copy, S> {
    young: Table<K, V, S>,
    old: Table<K, V, S>,
    /// Maximum number of entries of each map.
    most: usize,
    /// Last block whose changes `old` may contain.
    sealed: u64,
    /// Last block whose changes may have been discarded.
    lost: u64,
}

impl<K: Copy, V: Copy, S> fmt::Debug for Recent<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (young, old) = (self.young.len(), self.old.len());
        f.debug_struct("Recent").field("young", &young).field("old", &old).finish_non_exhaustive()
    }
}

impl<K: Copy + Eq + Hash, V: Copy, S: BuildHasher + Default> Recent<K, V, S> {
    fn new(entries: usize) -> Self {
        let most = (entries / 2).max(1);
        Self { young: Table::default(), old: Table::default(), most, sealed: 0, lost: 0 }
    }

    /// The value of `key` before block `next`, if it is stored.
    fn get(&mut self, key: &K, next: u64) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(*value);
        }
        let value = *self.old.get(key)?;
        self.put(*key, value, next);
        Some(value)
    }

    /// Prefetches the entries of these keys.
    fn prefetch<'a>(&self, keys: impl Iterator<Item = &'a K> + Clone)
    where
        K: 'a,
    {
        keys.clone().for_each(|key| self.young.prefetch(key));
        keys.for_each(|key| self.young.prefetch_next(key));
    }

    /// Prefetches for a caller that iterates over keys and is at `at`; `key` returns the key at a position.
    #[inline]
    fn prefetch_ahead(&self, at: usize, key: impl Fn(usize) -> Option<K>) {
        key(at + AHEAD).iter().for_each(|key| self.young.prefetch(key));
        key(at + AHEAD / 2).iter().for_each(|key| self.young.prefetch_next(key));
    }

    /// Stores a value that was read before `block`, or changed by it.
    fn put(&mut self, key: K, value: V, block: u64) {
        self.young.insert(key, value);
        if self.young.len() >= self.most {
            self.lost = self.sealed;
            self.sealed = block;
            mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
            // As many entries as before are expected. Growing to this size in steps takes twice the memory.
            self.young.expect(self.most);
        }
    }

    /// Clears the cache, at `block`.
    fn clear(&mut self, block: u64) {
        self.young.clear();
        self.old.clear();
        (self.sealed, self.lost) = (block, block);
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

    /// The account, unless it is stored elsewhere.
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

/// The caches; see the module documentation. The default ones store nothing.
#[derive(Debug)]
pub struct RecentState {
    accounts: Recent<Address, Known, FbBuildHasher<20>>,
    /// Accounts that the table marks as stored elsewhere, as of the newest state.
    outsize: AddressMap<Account>,
    slots: RecentSlots,
}

type RecentSlots = Recent<SlotKey, U256, DefaultHashBuilder>;

/// A slot of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlotKey(Address, U256);

impl Hash for SlotKey {
    /// Hashed by words, which takes half as long as by bytes.
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
    /// Empty caches for at most `accounts` accounts, and a quarter as many slots, of which fewer are used
    /// repeatedly. They take 85 to 171 bytes per account and 171 to 341 per slot once these are stored; the
    /// minimum if half of `accounts` is three quarters of a power of two.
    pub fn new(accounts: usize) -> Self {
        let (accounts, slots) = (Recent::new(accounts), Recent::new(accounts / SLOTS_SHARE));
        Self { accounts, outsize: AddressMap::default(), slots }
    }

    /// Reserves memory for this many accounts with the first one, within the limit of the cache: growing
    /// later would take tenths of a second at once.
    pub const fn expect(&mut self, accounts: usize) {
        let most = self.accounts.most;
        self.accounts.young.expect(if accounts < most { accounts } else { most });
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

    /// Applies the changes of block `number`, the one after the last, to accounts. For owners that do not
    /// read slots.
    pub fn apply_accounts(&mut self, number: u64, changes: &StateChanges) {
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

    /// Applies the changes of block `number`, the one after the last.
    pub fn apply(&mut self, number: u64, changes: &StateChanges) {
        self.apply_accounts(number, changes);
        if changes.accounts.iter().any(|change| change.wiped || change.account.is_none()) {
            // Slots are not listed by account, and this is rare since Cancun.
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
    /// A reader of `state`.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn new(recent: &'a mut RecentState, state: &'a StateReader) -> Result<Self, ReadError> {
        let flushed = state.index().flushed()?;
        Ok(Self { recent: RefCell::new(recent), state, next: state.next(), flushed })
    }

    /// Whether a value that is not in the cache, which may have discarded changes up to block `lost`, is
    /// current in the index. Flush may be ahead of a stage that has not received the newest block.
    fn index_answers(&self, lost: u64) -> bool {
        !self.state.is_historic() && self.flushed.is_some_and(|flushed| lost <= flushed)
    }

    /// An account that the table marks as stored elsewhere.
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

    /// An account that is not in the cache, which may have discarded changes up to block `lost`.
    fn unknown_account(&self, address: Address, lost: u64) -> Result<Option<Account>, ReadError> {
        if self.index_answers(lost) {
            // No change of it was discarded, so it has not changed since the flush.
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
        let value = if self.index_answers(table.lost) {
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
        match recent.accounts.get(&address, self.next) {
            Some(known) => match known.account() {
                Some(account) => Ok(account),
                None => self.outsize_account(recent, address),
            },
            None => {
                let account = self.unknown_account(address, recent.accounts.lost)?;
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
            match recent.accounts.get(address, self.next).map(Known::account) {
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
                    let account = self.unknown_account(address, recent.accounts.lost)?;
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
        if let Some(value) = table.get(&SlotKey(address, slot), self.next) {
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
            match table.get(&SlotKey(address, *slot), self.next) {
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
    use crate::{Layer, StateView};
    use std::sync::Arc;
    use storage::{AccountChange, FlushBlock, IndexDb, IndexOptions};

    /// Accounts of the test: far more than a small cache holds.
    const ACCOUNTS: u64 = 300;

    fn address(n: u64) -> Address {
        Address::left_padding_from(&(n + 1).to_be_bytes())
    }

    /// The changes of block `number`: about a tenth of the accounts change, some are removed, some have code,
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

    /// The cache returns what the layers return, for any size of the cache and any progress of flush.
    #[test]
    fn a_table_says_what_the_state_says() {
        for entries in [4, 32, 4096] {
            let folder = tempfile::tempdir().unwrap();
            let options = IndexOptions { map_bytes: 64 << 20 };
            let index = IndexDb::open(folder.path(), options).unwrap();
            let mut view = StateView::before(0, index.clone());
            let mut recent = RecentState::new(entries);
            let mut flushed = 0;
            for number in 0..60 {
                let reader = view.reader().unwrap();
                let table = RecentReader::new(&mut recent, &reader).unwrap();
                let some: Vec<_> = (0..20).map(|n| address(n * number % ACCOUNTS)).collect();
                assert_eq!(table.accounts(&some).unwrap(), reader.accounts(&some).unwrap());
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
                let layer = Arc::new(Layer::new(number, changes(number), Vec::new()));
                recent.apply(number, layer.changes());
                view = view.with_layer(layer, flushed);
                // Genesis is flushed first; the view notices a flush a block later.
                if number % 8 == 7 || number == 0 {
                    flush(&index, &view);
                    flushed = number;
                }
            }
        }
    }

    fn flush(index: &IndexDb, view: &StateView) {
        let done = index.reader().unwrap().flushed().unwrap();
        let layers = view.layers().iter().filter(|layer| done.is_none_or(|d| layer.number() > d));
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
