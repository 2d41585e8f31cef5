//! The state root after a block, from the nodes before it and what the block changed.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rlp::Decodable;
use alloy_trie::TrieAccount;

use super::dirty::{Arena, Change, DirtyTrie, Slot};
use super::hashing::{Hashed, hash_tries};
use super::root::trie_account;
use super::updates::{NodeChanges, StorageUpdates};
use super::{EMPTY_ROOT_HASH, Nibbles, NodeRead, TrieError, TrieUpdates};
use crate::state::{AccountChange, StateChanges};

/// Hashed keys of a block's changes: addresses, then the slots of each account.
struct Keys {
    addresses: Vec<B256>,
    slots: Vec<Vec<B256>>,
}

impl Keys {
    /// Hashes all in one batch.
    fn hash(changes: &StateChanges) -> Self {
        let slots: Vec<[u8; 32]> = changes
            .accounts
            .iter()
            .flat_map(kept_slots)
            .map(|(slot, _)| slot.to_be_bytes())
            .collect();
        let addresses = changes.accounts.iter().map(|change| change.address.as_slice());
        let messages: Vec<&[u8]> = addresses.chain(slots.iter().map(|slot| &slot[..])).collect();
        let mut hashes = vec![[0; 32]; messages.len()];
        verify::keccak256_batch(&messages, &mut hashes);
        let mut hashes = hashes.into_iter().map(B256::new);
        let addresses = hashes.by_ref().take(changes.accounts.len()).collect();
        let slots = changes
            .accounts
            .iter()
            .map(|change| hashes.by_ref().take(kept_slots(change).len()).collect())
            .collect();
        Self { addresses, slots }
    }
}

/// Slots that count: those of an account that is gone do not.
fn kept_slots(change: &AccountChange) -> &[(U256, U256)] {
    if change.account.is_some() { &change.slots } else { &[] }
}

/// The state root after `changes` on the state with root `parent_root`, and the records that
/// differ. An account that is gone takes its storage with it.
///
/// # Errors
/// When nodes cannot be read, are missing, or are those of another state than `parent_root`.
pub fn update_state_root<N: NodeRead>(
    nodes: &N,
    changes: &StateChanges,
    parent_root: B256,
) -> Result<(B256, TrieUpdates), TrieError<N::Error>> {
    let keys = Keys::hash(changes);
    let mut updates = TrieUpdates::default();
    let mut accounts = DirtyTrie::new(nodes, None);
    check_root(&mut accounts, parent_root)?;
    let old_roots = old_storage_roots(&mut accounts, &keys, parent_root)?;
    let new_roots = update_storages(nodes, changes, &keys, &old_roots, &mut updates)?;

    let mut leaves: Vec<Change> = Vec::with_capacity(changes.accounts.len());
    for ((change, key), root) in changes.accounts.iter().zip(&keys.addresses).zip(new_roots) {
        let value = change
            .account
            .map(|account| Bytes::from(alloy_rlp::encode(trie_account(&account, root))));
        leaves.push((Nibbles::unpack(key), value));
    }
    leaves.sort_unstable_by_key(|(key, _)| *key);
    let mut arena = Arena::new();
    let slot = DirtyTrie::<N>::root(parent_root);
    let slot = accounts.apply(&mut arena, slot, Nibbles::new(), &leaves)?;
    let hashed = hash_tries(&mut arena, vec![slot]).pop().expect("one trie in, one out");
    let root = hashed.root;
    updates.accounts = node_changes(accounts, hashed);
    Ok((root, updates))
}

/// The storage root of an account: that of the empty trie when it has none.
///
/// # Errors
/// When nodes cannot be read or are damaged.
pub fn storage_root<N: NodeRead>(
    nodes: &N,
    state_root: B256,
    address: Address,
) -> Result<B256, TrieError<N::Error>> {
    if state_root == EMPTY_ROOT_HASH {
        return Ok(EMPTY_ROOT_HASH);
    }
    let key = B256::new(verify::keccak256(address.as_slice()));
    let account = account_leaf(&mut DirtyTrie::new(nodes, None), &Nibbles::unpack(key))?;
    Ok(account.map_or(EMPTY_ROOT_HASH, |account| account.storage_root))
}

/// The account under a hashed address, in a trie that is not empty.
pub(super) fn account_leaf<N: NodeRead>(
    accounts: &mut DirtyTrie<'_, N>,
    key: &Nibbles,
) -> Result<Option<TrieAccount>, TrieError<N::Error>> {
    let Some(value) = accounts.value(key)? else { return Ok(None) };
    TrieAccount::decode(&mut value.as_ref())
        .map(Some)
        .map_err(|_| accounts.damaged("account does not decode", *key))
}

fn check_root<N: NodeRead>(
    accounts: &mut DirtyTrie<'_, N>,
    expected: B256,
) -> Result<(), TrieError<N::Error>> {
    if expected == EMPTY_ROOT_HASH {
        return Ok(());
    }
    let found = accounts.load(&Nibbles::new())?.root_hash();
    if found == expected { Ok(()) } else { Err(TrieError::RootMismatch { expected, found }) }
}

fn old_storage_roots<N: NodeRead>(
    accounts: &mut DirtyTrie<'_, N>,
    keys: &Keys,
    parent_root: B256,
) -> Result<Vec<B256>, TrieError<N::Error>> {
    if parent_root == EMPTY_ROOT_HASH {
        return Ok(vec![EMPTY_ROOT_HASH; keys.addresses.len()]);
    }
    let roots = keys.addresses.iter().map(|key| {
        let account = account_leaf(accounts, &Nibbles::unpack(key))?;
        Ok(account.map_or(EMPTY_ROOT_HASH, |account| account.storage_root))
    });
    roots.collect()
}

/// Storage roots after the block, for each changed account.
fn update_storages<N: NodeRead>(
    nodes: &N,
    changes: &StateChanges,
    keys: &Keys,
    old_roots: &[B256],
    updates: &mut TrieUpdates,
) -> Result<Vec<B256>, TrieError<N::Error>> {
    let mut new_roots = old_roots.to_vec();
    let mut arena = Arena::new();
    let mut tries: Vec<(usize, bool, DirtyTrie<'_, N>)> = Vec::new();
    let mut slots: Vec<Slot> = Vec::new();
    for (at, change) in changes.accounts.iter().enumerate() {
        let cleared = change.wiped || change.account.is_none();
        if !cleared && change.slots.is_empty() {
            continue;
        }
        let root = if cleared { EMPTY_ROOT_HASH } else { old_roots[at] };
        let mut trie = DirtyTrie::new(nodes, Some(keys.addresses[at]));
        let words = slot_changes(change, &keys.slots[at]);
        let slot = trie.apply(&mut arena, DirtyTrie::<N>::root(root), Nibbles::new(), &words)?;
        tries.push((at, cleared && old_roots[at] != EMPTY_ROOT_HASH, trie));
        slots.push(slot);
    }
    for ((at, wiped, trie), hashed) in tries.into_iter().zip(hash_tries(&mut arena, slots)) {
        new_roots[at] = hashed.root;
        let nodes = node_changes(trie, hashed);
        if wiped || !nodes.is_empty() {
            updates.storages.insert(keys.addresses[at], StorageUpdates { wiped, nodes });
        }
    }
    Ok(new_roots)
}

fn slot_changes(change: &AccountChange, keys: &[B256]) -> Vec<Change> {
    let words = kept_slots(change).iter().zip(keys).map(|(&(_, value), key)| {
        let value = (!value.is_zero()).then(|| Bytes::from(alloy_rlp::encode(value)));
        (Nibbles::unpack(key), value)
    });
    let mut words: Vec<Change> = words.collect();
    words.sort_unstable_by_key(|(key, _)| *key);
    words
}

/// Records written, and those taken in but not written again.
pub(super) fn node_changes<N>(trie: DirtyTrie<'_, N>, hashed: Hashed) -> NodeChanges {
    let mut nodes: NodeChanges = trie.taken.into_iter().map(|path| (path, None)).collect();
    if hashed.root_untouched {
        nodes.remove(&Nibbles::new());
    }
    nodes.extend(hashed.written.into_iter().map(|(path, node)| (path, Some(Arc::new(node)))));
    nodes
}
