//! The state root after a block, computed from the nodes of the parent state and the changes of the block.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};

use super::dirty::{Arena, Change, DirtyTrie, Slot};
use super::hashing::{Hashed, hash_tries};
use super::root::trie_account;
use super::updates::{NodeChanges, StorageUpdates};
use super::walk::{decode_account, load, value};
use super::{EMPTY_ROOT_HASH, Nibbles, NodeRead, TrieError, TrieUpdates};
use crate::{AccountChange, StateChanges};

/// Hashed keys of a block's changes: the addresses, followed by the slots of each account.
struct Keys {
    addresses: Vec<B256>,
    slots: Vec<Vec<B256>>,
}

impl Keys {
    /// Hashes all keys in one batch.
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

/// Returns the slots to write: none for a removed account.
fn kept_slots(change: &AccountChange) -> &[(U256, U256)] {
    if change.account.is_some() { &change.slots } else { &[] }
}

/// Applies `changes` to the state with root `parent_root`. Returns the new state root and the changed records.
/// Removing an account removes its storage.
///
/// # Errors
/// If nodes cannot be read, are missing, or belong to a state with a different root.
pub fn update_state_root<N: NodeRead>(
    nodes: &N,
    changes: &StateChanges,
    parent_root: B256,
) -> Result<(B256, TrieUpdates), TrieError<N::Error>> {
    let keys = Keys::hash(changes);
    let mut updates = TrieUpdates::default();
    check_root(nodes, parent_root)?;
    let mut accounts = DirtyTrie::new(nodes, None);
    let mut arena = Arena::new();
    let slot = DirtyTrie::<N>::root(parent_root);
    let (slot, old_roots) = old_storage_roots(&mut accounts, &mut arena, slot, &keys)?;
    let new_roots = update_storages(nodes, changes, &keys, &old_roots, &mut updates)?;

    let accounts_and_roots = changes.accounts.iter().zip(new_roots);
    let leaves = keys.addresses.iter().zip(accounts_and_roots).map(|(key, (change, root))| {
        let value = change
            .account
            .map(|account| Bytes::from(alloy_rlp::encode(trie_account(&account, root))));
        (Nibbles::unpack(key), value)
    });
    let mut leaves: Vec<Change> = leaves.collect();
    leaves.sort_unstable_by_key(|(key, _)| *key);
    let slot = accounts.apply(&mut arena, slot, Nibbles::new(), &leaves)?;
    let hashed = hash_tries(&mut arena, vec![slot]).pop().expect("one result per trie");
    let root = hashed.root;
    updates.accounts = node_changes(accounts, hashed);
    Ok((root, updates))
}

/// Returns the storage root of an account; the root of the empty trie if it has no storage.
///
/// # Errors
/// If nodes cannot be read or are damaged.
pub fn storage_root<N: NodeRead>(
    nodes: &N,
    state_root: B256,
    address: Address,
) -> Result<B256, TrieError<N::Error>> {
    if state_root == EMPTY_ROOT_HASH {
        return Ok(EMPTY_ROOT_HASH);
    }
    let key = Nibbles::unpack(verify::keccak256(address.as_slice()));
    let Some(value) = value(nodes, None, &key, |_, _| {})? else { return Ok(EMPTY_ROOT_HASH) };
    Ok(decode_account(&key, &value)?.storage_root)
}

fn check_root<N: NodeRead>(nodes: &N, expected: B256) -> Result<(), TrieError<N::Error>> {
    if expected == EMPTY_ROOT_HASH {
        return Ok(());
    }
    let found = load(nodes, None, &Nibbles::new())?.root_hash();
    if found == expected { Ok(()) } else { Err(TrieError::RootMismatch { expected, found }) }
}

/// Loads the nodes on the paths to all changed accounts. Returns the storage roots of these accounts before
/// the block, in the order of the changes.
fn old_storage_roots<N: NodeRead>(
    accounts: &mut DirtyTrie<'_, N>,
    arena: &mut Arena,
    slot: Slot,
    keys: &Keys,
) -> Result<(Slot, Vec<B256>), TrieError<N::Error>> {
    let mut order: Vec<(Nibbles, usize)> =
        keys.addresses.iter().enumerate().map(|(at, key)| (Nibbles::unpack(key), at)).collect();
    order.sort_unstable();
    let sorted: Vec<Nibbles> = order.iter().map(|(key, _)| *key).collect();
    let mut roots = vec![EMPTY_ROOT_HASH; order.len()];
    let mut damaged = None;
    let slot = accounts.touch(arena, slot, Nibbles::new(), &sorted, &mut |key, value| {
        let at = sorted.binary_search(key).expect("only requested keys are returned");
        match decode_account(key, value) {
            Ok(account) => roots[order[at].1] = account.storage_root,
            Err(error) => damaged = Some(error),
        }
    })?;
    damaged.map_or(Ok((slot, roots)), Err)
}

/// Updates the storage tries. Returns the storage root after the block for each changed account.
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

/// Returns the records that were written, and those that were loaded but not written again.
pub(super) fn node_changes<N>(trie: DirtyTrie<'_, N>, hashed: Hashed) -> NodeChanges {
    let mut nodes: NodeChanges = trie.loaded.into_iter().map(|path| (path, None)).collect();
    if hashed.root_untouched {
        nodes.remove(&Nibbles::new());
    }
    nodes.extend(hashed.written.into_iter().map(|(path, node)| (path, Some(Arc::new(node)))));
    nodes
}
