//! The trie of the newest state in memory, which computes the state root of each block.
//!
//! All tries are in one [arena](arena::Arena), and are loaded record by record as blocks touch them. A block's
//! keys are hashed and sorted. Then, for each [group of neighbouring keys](group), the nodes on their paths are
//! loaded, the entries are changed, and marked nodes are hashed level by level. Updates do not write records: a
//! [`TrieCheckpoint`] contains the changes since the previous one, and nodes whose records are in the index may
//! be [evicted](evict) if the cache exceeds its limit.
//!
//! This module must not allocate per node, and must not hash messages one by one if they can be hashed in a
//! batch.

mod apply;
mod arena;
mod checkpoint;
mod evict;
mod group;
mod hash;
mod locate;
mod nodes;
mod path;
mod record;
mod rlp;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod undo_tests;
mod value;
mod withdraw;

use std::collections::VecDeque;
use std::sync::Arc;

use alloy_primitives::map::{B256Map, HashMap};
use alloy_primitives::{B256, U256};

use super::{EMPTY_ROOT_HASH, TrieError};
use crate::prefetch;
use crate::{AccountChange, StateChanges};
use apply::{Change, load_if_any, shared_prefix};
use arena::{Arena, Slot};
use evict::Hand;
use group::NewValues;
use hash::Hash;
use locate::Locate;
use path::{Key, Path};
use value::{Value, ValueBuffer};
use withdraw::HandedOver;

pub use checkpoint::{Records, TrieCheckpoint};
pub use nodes::LiveNodes;
pub(super) use rlp::put_branch;

/// Default limit of the cache in bytes: about 14 million accounts.
pub const TRIE_CACHE_BYTES_DEFAULT: u64 = 2 << 30;
/// Minimum useful limit in bytes: the paths to the accounts of one large block.
pub const MIN_TRIE_CACHE_BYTES: u64 = 16 << 20;
/// Size of an entry in the map of storage tries, in bytes.
const TREE_BYTES: usize = 96;

/// Number of accounts or slots between the prefetch of a change and its application.
const CHANGES_AHEAD: usize = 8;

/// Stored records of one state.
pub trait RecordRead {
    /// The error of a failed read.
    type Error;
    /// Returns the record with this key from the table of storage tries, or of the account trie if `storage` is false.
    ///
    /// # Errors
    /// If the store cannot be read; a record that does not exist is `None`.
    fn record(&self, storage: bool, key: &[u8]) -> Result<Option<&[u8]>, Self::Error>;
}

/// The root of a trie, and its state.
#[derive(Clone, Copy, Debug)]
struct Tree {
    slot: Slot,
    /// Number of the last update that used it.
    used: u32,
    /// The checkpoint that must write it, or wrote it; 0 if it has not changed since it was loaded.
    epoch: u32,
    /// Whether its earlier records must be removed.
    wiped: bool,
}

/// The tries of the newest state.
#[derive(Debug)]
pub struct LiveTrie {
    arena: Arena,
    accounts: Tree,
    state_root: B256,
    storages: B256Map<Tree>,
    /// Number of updates so far.
    now: u32,
    /// Number of the next checkpoint.
    epoch: u32,
    /// The last checkpoint that is in the index.
    durable: u32,
    /// Checkpoints that may not be in the index yet, oldest first.
    handed_over: VecDeque<HandedOver>,
    /// Paths whose records were removed since the last checkpoint.
    removed: Vec<(Option<B256>, Path)>,
    /// Number of branches changed since the last checkpoint.
    dirty: usize,
    limit: usize,
    hand: Hand,
    locate: Locate,
    hash: Hash,
    /// The records of the last checkpoint. Their memory is reused after they have been written.
    account_records: Arc<Records>,
    storage_records: Arc<Records>,
}

impl LiveTrie {
    /// Creates the tries of the state with this root. Nothing is loaded yet. While more than `limit` bytes (at least
    /// [`MIN_TRIE_CACHE_BYTES`]) are in memory, each update evicts nodes that it did not use and the index contains.
    pub fn new(state_root: B256, limit: u64) -> Self {
        let slot = if state_root == EMPTY_ROOT_HASH { Slot::Empty } else { Slot::Cold };
        Self {
            arena: Arena::new(),
            accounts: Tree { slot, used: 0, epoch: 0, wiped: false },
            state_root,
            storages: B256Map::default(),
            now: 0,
            epoch: 1,
            durable: 0,
            handed_over: VecDeque::new(),
            removed: Vec::new(),
            dirty: 0,
            limit: usize::try_from(limit.max(MIN_TRIE_CACHE_BYTES)).unwrap_or(usize::MAX),
            hand: Hand::new(),
            locate: Locate::default(),
            hash: Hash::new(),
            account_records: Arc::default(),
            storage_records: Arc::default(),
        }
    }

    /// Returns the root of the newest state.
    pub const fn state_root(&self) -> B256 {
        self.state_root
    }

    /// Returns the amount of memory in use in bytes, excluding the buffers for a block.
    pub fn bytes(&self) -> usize {
        self.arena.bytes()
            + self.storages.capacity() * TREE_BYTES
            + self.removed.len() * size_of::<(Option<B256>, Path)>()
    }

    /// Returns the number of records changed since the last checkpoint.
    pub fn dirty(&self) -> usize {
        self.dirty + self.removed.len()
    }

    /// Applies the changes of the next block and returns the state root after it. Removing an
    /// account removes its storage. After an error the tries must not be used any more.
    ///
    /// # Errors
    /// If records cannot be read, are missing or damaged.
    pub fn update<S: RecordRead>(
        &mut self,
        source: &S,
        changes: &StateChanges,
    ) -> Result<B256, TrieError<S::Error>> {
        self.now += 1;
        let keys = Keys::hash(changes);
        let roots = self.update_storages(source, changes, &keys)?;
        self.update_accounts(source, changes, &keys, &roots)?;
        self.evict();
        Ok(self.state_root)
    }

    fn update_accounts<S: RecordRead>(
        &mut self,
        source: &S,
        changes: &StateChanges,
        keys: &Keys,
        roots: &HashMap<usize, B256>,
    ) -> Result<(), TrieError<S::Error>> {
        let mut accounts = NewAccounts { changes, order: &keys.order, roots };
        let slot = self.accounts.slot;
        let (slot, any) = self.change_entries(source, None, slot, &keys.sorted, &mut accounts)?;
        self.accounts.slot = slot;
        self.accounts.used = self.now;
        if any {
            self.accounts.epoch = self.epoch;
            self.state_root = self.hash.run(&mut self.arena, &[slot], self.epoch)[0];
            self.dirty += self.hash.take_newly_dirty();
        }
        Ok(())
    }

    /// Updates the storage tries. Returns the new roots of those that changed, by rank of the account.
    fn update_storages<S: RecordRead>(
        &mut self,
        source: &S,
        changes: &StateChanges,
        keys: &Keys,
    ) -> Result<HashMap<usize, B256>, TrieError<S::Error>> {
        if keys.slots.is_empty() && !changes.accounts.iter().any(is_cleared) {
            return Ok(HashMap::default());
        }
        self.locate_owners(source, changes, keys)?;
        let mut changed: Vec<usize> = Vec::new();
        let mut slots: Vec<Slot> = Vec::new();
        let mut slot_keys = keys.slots.as_slice();
        for (at, change) in changes.accounts.iter().enumerate() {
            let kept = kept_slots(change);
            let (account_keys, rest) = slot_keys.split_at(kept.len());
            slot_keys = rest;
            if kept.is_empty() && !is_cleared(change) {
                continue;
            }
            let owner = &keys.addresses[at];
            if let Some(slot) = self.update_storage(source, change, owner, kept, account_keys)? {
                changed.push(at);
                slots.push(slot);
            }
        }
        let hashed = self.hash.run(&mut self.arena, &slots, self.epoch);
        let roots = changed.into_iter().zip(hashed.iter().copied()).collect();
        self.dirty += self.hash.take_newly_dirty();
        Ok(roots)
    }

    /// Loads the leaves of accounts whose storage changes.
    fn locate_owners<S: RecordRead>(
        &mut self,
        source: &S,
        changes: &StateChanges,
        keys: &Keys,
    ) -> Result<(), TrieError<S::Error>> {
        let touched = |at: u32| {
            let change = &changes.accounts[at as usize];
            is_cleared(change) || !change.slots.is_empty()
        };
        let owners = keys.sorted.iter().zip(&keys.order).filter(|(_, at)| touched(**at));
        let owners: Vec<Key> = owners.map(|(key, _)| *key).collect();
        let slot = self.accounts.slot;
        self.accounts.slot =
            self.locate.run(&mut self.arena, source, None, slot, &owners, self.now)?;
        Ok(())
    }

    /// Changes one storage trie. Returns its root slot if it has changed.
    fn update_storage<S: RecordRead>(
        &mut self,
        source: &S,
        account: &AccountChange,
        owner: &Key,
        words: &[(U256, U256)],
        keys: &[Key],
    ) -> Result<Option<Slot>, TrieError<S::Error>> {
        let hashed = B256::new(*owner);
        let mut tree = match self.storages.get(&hashed) {
            Some(tree) => *tree,
            None => self.load_storage(source, owner)?,
        };
        let mut any = false;
        if is_cleared(account) && tree.slot != Slot::Empty {
            evict::free(&mut self.arena, tree.slot);
            tree.slot = Slot::Empty;
            tree.wiped = true;
            any = true;
        }
        let order = ascending(keys);
        let sorted: Vec<Key> = order.iter().map(|at| keys[*at as usize]).collect();
        let mut words = NewWords { words, order: &order };
        let (slot, changed) =
            self.change_entries(source, Some(hashed), tree.slot, &sorted, &mut words)?;
        tree.slot = slot;
        any |= changed;
        tree.used = self.now;
        if any {
            tree.epoch = self.epoch;
        }
        self.storages.insert(hashed, tree);
        Ok(any.then_some(tree.slot))
    }

    /// Loads the storage trie of an account. Its root is in the leaf of the account.
    fn load_storage<S: RecordRead>(
        &mut self,
        source: &S,
        owner: &Key,
    ) -> Result<Tree, TrieError<S::Error>> {
        let hashed = B256::new(*owner);
        let mut tree = Tree { slot: Slot::Empty, used: self.now, epoch: 0, wiped: false };
        let leaf = self.find(owner);
        let root = leaf.map(|leaf| self.arena.value(leaf).storage_root());
        if root.is_some_and(|root| root != Some(EMPTY_ROOT_HASH)) {
            let arena = &mut self.arena;
            tree.slot = load_if_any(arena, source, Some(hashed), &Path::ROOT, self.now)?;
            if tree.slot == Slot::Empty {
                let path = Path::ROOT.to_nibbles();
                return Err(TrieError::MissingNode { owner: Some(hashed), path });
            }
        }
        Ok(tree)
    }

    /// Returns the leaf of an account, if the account exists and the path to its leaf is in memory.
    fn find(&self, key: &Key) -> Option<u32> {
        let (mut slot, mut depth) = (self.accounts.slot, 0);
        loop {
            match slot {
                Slot::Empty | Slot::Cold => return None,
                Slot::Leaf(leaf) => return (self.arena.key(leaf) == key).then_some(leaf),
                Slot::Branch(index) => {
                    let length = self.arena.prefix_len(self.arena.branch(index));
                    if shared_prefix(&self.arena, index, depth, key) < length {
                        return None;
                    }
                    depth += length;
                    slot = self.arena.child(index, path::nibble(key, depth));
                    depth += 1;
                }
            }
        }
    }

    /// Returns the changes since the last checkpoint. `number` is the newest block.
    pub fn checkpoint(&mut self, number: u64) -> TrieCheckpoint {
        let epoch = self.epoch;
        let mut wiped = Vec::new();
        let dirty = self.dirty();
        let mut accounts = Records::reuse(&mut self.account_records, dirty);
        let mut storages = Records::reuse(&mut self.storage_records, dirty);
        if self.accounts.epoch == epoch {
            accounts.collect(&mut self.arena, None, self.accounts.slot);
        }
        for (owner, tree) in &mut self.storages {
            if tree.epoch == epoch {
                storages.collect(&mut self.arena, Some(*owner), tree.slot);
            }
            if std::mem::take(&mut tree.wiped) {
                wiped.push(*owner);
            }
        }
        for (owner, path) in self.removed.drain(..) {
            let records = if owner.is_some() { &mut storages } else { &mut accounts };
            records.remove(owner, &path);
        }
        wiped.sort_unstable();
        accounts.finish();
        storages.finish();
        self.account_records = Arc::new(accounts);
        self.storage_records = Arc::new(storages);
        let withdrawn = Arc::default();
        self.handed_over.push_back(HandedOver {
            block: number,
            epoch,
            wiped: wiped.clone(),
            accounts: Arc::clone(&self.account_records),
            storages: Arc::clone(&self.storage_records),
            withdrawn: Arc::clone(&withdrawn),
        });
        self.epoch += 1;
        self.dirty = 0;
        TrieCheckpoint {
            withdrawn,
            number,
            state_root: self.state_root,
            wiped,
            accounts: Arc::clone(&self.account_records),
            storages: Arc::clone(&self.storage_records),
        }
    }

    /// Skips a checkpoint, because another trie with the same blocks writes it. The changes so far count as part of
    /// that checkpoint.
    pub fn skip_checkpoint(&mut self, number: u64) {
        for tree in self.storages.values_mut() {
            tree.wiped = false;
        }
        self.removed.clear();
        self.handed_over.push_back(HandedOver {
            block: number,
            epoch: self.epoch,
            wiped: Vec::new(),
            accounts: Arc::default(),
            storages: Arc::default(),
            withdrawn: Arc::default(),
        });
        self.epoch += 1;
        self.dirty = 0;
    }

    /// Notes that the index contains all checkpoints up to block `number`.
    pub fn written(&mut self, number: u64) {
        while let Some(checkpoint) = self.handed_over.pop_front_if(|next| next.block <= number) {
            self.durable = checkpoint.epoch;
        }
    }

    /// Returns the block of the newest checkpoint that is not in the index yet.
    pub fn pending_checkpoint(&self) -> Option<u64> {
        self.handed_over.back().map(|checkpoint| checkpoint.block)
    }

    /// Returns whether every checkpoint is in the index.
    pub fn is_written(&self) -> bool {
        self.handed_over.is_empty()
    }
}

/// The accounts after a block.
struct NewAccounts<'a> {
    changes: &'a StateChanges,
    order: &'a [u32],
    /// Changed storage roots, by rank of the account in the changes.
    roots: &'a HashMap<usize, B256>,
}

impl NewValues for NewAccounts<'_> {
    fn prefetch_after(&self, rank: usize) {
        if let Some(ahead) = self.order.get(rank + CHANGES_AHEAD) {
            prefetch(&self.changes.accounts[*ahead as usize]);
        }
    }

    fn is_removed(&self, rank: usize) -> bool {
        self.changes.accounts[self.order[rank] as usize].account.is_none()
    }

    fn value(&mut self, rank: usize, old: Option<Value<'_>>) -> ValueBuffer {
        let at = self.order[rank] as usize;
        let account = self.changes.accounts[at].account.as_ref();
        // A storage trie without writes keeps its root.
        let kept = || old.map_or(Some(EMPTY_ROOT_HASH), |old| old.storage_root());
        let root = self.roots.get(&at).copied().or_else(kept);
        let account = account.expect("a removed account has no value");
        ValueBuffer::account(account, root.unwrap_or(EMPTY_ROOT_HASH))
    }
}

/// The words of a storage trie after a block.
struct NewWords<'a> {
    words: &'a [(U256, U256)],
    order: &'a [u32],
}

impl NewWords<'_> {
    fn word(&self, rank: usize) -> U256 {
        self.words[self.order[rank] as usize].1
    }
}

impl NewValues for NewWords<'_> {
    fn prefetch_after(&self, rank: usize) {
        if let Some(ahead) = self.order.get(rank + CHANGES_AHEAD) {
            prefetch(&self.words[*ahead as usize]);
        }
    }

    fn is_removed(&self, rank: usize) -> bool {
        self.word(rank).is_zero()
    }

    fn value(&mut self, rank: usize, _: Option<Value<'_>>) -> ValueBuffer {
        ValueBuffer::word(self.word(rank))
    }
}

/// Returns whether earlier storage of the account is removed.
const fn is_cleared(change: &AccountChange) -> bool {
    change.wiped || change.account.is_none()
}

/// Returns the slots to write: none for a removed account.
fn kept_slots(change: &AccountChange) -> &[(U256, U256)] {
    if change.account.is_some() { &change.slots } else { &[] }
}

/// Hashed keys of a block's changes.
struct Keys {
    addresses: Vec<Key>,
    /// Hashed keys of the slots to write, account by account.
    slots: Vec<Key>,
    /// Addresses in ascending order.
    sorted: Vec<Key>,
    /// The rank in the changes of each of these addresses.
    order: Vec<u32>,
}

impl Keys {
    /// Hashes all keys in two batches: addresses and slots.
    fn hash(changes: &StateChanges) -> Self {
        let accounts = &changes.accounts;
        let words: Vec<[u8; 32]> =
            accounts.iter().flat_map(kept_slots).map(|(slot, _)| slot.to_be_bytes()).collect();
        let messages: Vec<&[u8]> =
            accounts.iter().map(|change| change.address.as_slice()).collect();
        let mut addresses = vec![[0; 32]; messages.len()];
        verify::keccak256_batch(&messages, &mut addresses);
        let messages: Vec<&[u8]> = words.iter().map(<[u8; 32]>::as_slice).collect();
        let mut slots = vec![[0; 32]; messages.len()];
        verify::keccak256_batch(&messages, &mut slots);
        let order = ascending(&addresses);
        let sorted = order.iter().map(|at| addresses[*at as usize]).collect();
        Self { addresses, slots, sorted, order }
    }
}

/// Returns the ranks of the keys, in ascending order of the keys.
fn ascending(keys: &[Key]) -> Vec<u32> {
    let key = |at: u32| &keys[at as usize];
    let mut order: Vec<(u64, u32)> =
        (0..keys.len() as u32).map(|at| (first(key(at)), at)).collect();
    // Hashes almost always differ in their first word.
    order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(key(b.1))));
    order.into_iter().map(|(_, at)| at).collect()
}

/// Returns the first word of a key.
fn first(key: &Key) -> u64 {
    let (word, _) = key.split_first_chunk().expect("32 bytes begin with 8");
    u64::from_be_bytes(*word)
}
