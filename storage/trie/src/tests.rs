//! Compares single tries with those that alloy-trie computes from scratch. Keys share long prefixes, so that nodes
//! below 32 bytes, deep forks and every kind of collapse occur.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_trie::HashBuilder;
use alloy_trie::proof::verify_proof;
use proptest::prelude::*;

use super::dirty::{Arena, Change, DirtyTrie};
use super::hashing::hash_tries;
use super::state::node_changes;
use super::*;
use crate::{Account, AccountChange, StateChanges};

/// The records of one state, as bytes, and the paths of those that were read.
#[derive(Debug, Default)]
struct Store {
    records: BTreeMap<(Option<B256>, Vec<u8>), Vec<u8>>,
    read: RefCell<Vec<Nibbles>>,
}

impl Store {
    fn put(&mut self, owner: Option<B256>, path: &Nibbles, node: Option<&Arc<Node>>) {
        let key = (owner, path.to_vec());
        match node {
            None => drop(self.records.remove(&key)),
            Some(node) => {
                let mut record = Vec::new();
                encode_node(&mut record, node);
                self.records.insert(key, record);
            }
        }
    }

    fn apply(&mut self, updates: &TrieUpdates) {
        self.records.retain(|(owner, _), _| !owner.is_some_and(|owner| updates.is_wiped(owner)));
        for (owner, path, node) in updates.iter() {
            self.put(owner, path, node);
        }
    }

    /// Returns the number of records that can be reached from the root of a trie.
    fn reachable(&self, owner: Option<B256>, path: Nibbles) -> usize {
        let Some(node) = self.node(owner, &path).unwrap() else {
            assert!(path.is_empty(), "record missing at {path:?}");
            return 0;
        };
        let Node::Branch(branch) = &*node else { return 1 };
        let base = path.join(&branch.prefix);
        let nodes = (0..16).filter(|&nibble| matches!(branch.child(nibble), Some(Child::Node(_))));
        let below = nodes.map(|nibble| {
            let mut path = base;
            path.push(nibble);
            self.reachable(owner, path)
        });
        1 + below.sum::<usize>()
    }
}

impl NodeRead for Store {
    type Error = Infallible;

    fn node(&self, owner: Option<B256>, path: &Nibbles) -> Result<Option<Arc<Node>>, Infallible> {
        self.read.borrow_mut().push(*path);
        let record = self.records.get(&(owner, path.to_vec()));
        Ok(record.map(|record| Arc::new(decode_node(&Bytes::copy_from_slice(record)).unwrap())))
    }
}

/// Applies changes with arbitrary values to the account trie of `store`.
fn update(store: &mut Store, root: B256, changes: &[Change]) -> B256 {
    let mut trie = DirtyTrie::new(&*store, None);
    let mut arena = Arena::new();
    let slot = DirtyTrie::<Store>::root(root);
    let slot = trie.apply(&mut arena, slot, Nibbles::new(), changes).unwrap();
    let hashed = hash_tries(&mut arena, vec![slot]).pop().unwrap();
    let root = hashed.root;
    let nodes = node_changes(trie, hashed);
    for (path, node) in &nodes {
        store.put(None, path, node.as_ref());
    }
    root
}

fn scratch(entries: &BTreeMap<Nibbles, Bytes>) -> B256 {
    let mut builder = HashBuilder::default();
    for (key, value) in entries {
        builder.add_leaf(*key, value);
    }
    builder.root()
}

/// Creates a key in which all nibbles are zero except the given ones.
fn key(nibbles: &[(usize, u8)]) -> Nibbles {
    let mut key = [0; 64];
    for &(at, nibble) in nibbles {
        key[at] = nibble;
    }
    Nibbles::from_nibbles(key)
}

fn any_key() -> impl Strategy<Value = Nibbles> {
    let positions = prop::sample::select(vec![0usize, 1, 2, 20, 57, 61, 62, 63]);
    prop::collection::vec((positions, 0..4u8), 0..5).prop_map(|nibbles| key(&nibbles))
}

fn any_value() -> impl Strategy<Value = Option<Bytes>> {
    let bytes = |length| prop::collection::vec(1..=255u8, length).prop_map(Bytes::from);
    prop_oneof![
        2 => Just(None),
        2 => bytes(1..3usize).prop_map(Some),
        1 => bytes(20..60usize).prop_map(Some),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn updates_agree_with_scratch_and_leave_no_record_behind(
        blocks in prop::collection::vec(prop::collection::btree_map(any_key(), any_value(), 0..10), 1..20),
    ) {
        let mut store = Store::default();
        let mut entries = BTreeMap::new();
        let mut root = EMPTY_ROOT_HASH;
        for block in blocks {
            for (key, value) in &block {
                match value {
                    None => entries.remove(key),
                    Some(value) => entries.insert(*key, value.clone()),
                };
            }
            let changes: Vec<Change> = block.into_iter().collect();
            root = update(&mut store, root, &changes);
            prop_assert_eq!(root, scratch(&entries));
            prop_assert_eq!(store.reachable(None, Nibbles::new()), store.records.len());
        }
    }
}

/// Creates two leaves under nibble 2 and one under nibble 1, all with long values.
fn three_leaves(store: &mut Store) -> (B256, BTreeMap<Nibbles, Bytes>) {
    let value = Bytes::from_static(&[9; 40]);
    let keys = [key(&[(0, 1)]), key(&[(0, 2), (5, 1)]), key(&[(0, 2), (5, 2)])];
    let entries: BTreeMap<_, _> = keys.into_iter().map(|key| (key, value.clone())).collect();
    let changes: Vec<Change> =
        entries.iter().map(|(key, value)| (*key, Some(value.clone()))).collect();
    let root = update(store, EMPTY_ROOT_HASH, &changes);
    store.read.borrow_mut().clear();
    (root, entries)
}

#[test]
fn collapse_reads_the_remaining_sibling() {
    let mut store = Store::default();
    let (root, mut entries) = three_leaves(&mut store);
    let sibling = Nibbles::from_nibbles([2]);
    assert!(store.records.contains_key(&(None, sibling.to_vec())));
    let removed = key(&[(0, 1)]);
    entries.remove(&removed);
    let root = update(&mut store, root, &[(removed, None)]);
    assert_eq!(root, scratch(&entries));
    assert!(store.read.borrow().contains(&sibling));
    // The former branch, whose extension was below the root, is now the root record.
    assert_eq!(store.records.len(), 1);
    let node = store.node(None, &Nibbles::new()).unwrap().unwrap();
    let Node::Branch(branch) = &*node else { panic!("{node:?}") };
    assert_eq!(branch.prefix, Nibbles::from_nibbles([2, 0, 0, 0, 0]));
}

#[test]
fn a_branch_that_collapses_to_a_leaf_moves_into_its_parent() {
    let mut store = Store::default();
    let (root, mut entries) = three_leaves(&mut store);
    let removed = key(&[(0, 2), (5, 1)]);
    entries.remove(&removed);
    let root = update(&mut store, root, &[(removed, None)]);
    assert_eq!(root, scratch(&entries));
    assert_eq!(store.records.len(), 1);
    let removed = key(&[(0, 1)]);
    entries.remove(&removed);
    let root = update(&mut store, root, &[(removed, None)]);
    assert_eq!(root, scratch(&entries));
    let node = store.node(None, &Nibbles::new()).unwrap().unwrap();
    assert!(matches!(&*node, Node::Leaf(_)));
    let (last, _) = entries.pop_first().unwrap();
    assert_eq!(update(&mut store, root, &[(last, None)]), EMPTY_ROOT_HASH);
    assert!(store.records.is_empty());
}

#[test]
fn update_without_changes_writes_nothing() {
    let mut store = Store::default();
    let (root, entries) = three_leaves(&mut store);
    let (same, value) = entries.first_key_value().unwrap();
    let missing = key(&[(0, 2), (1, 3)]);
    let mut trie = DirtyTrie::new(&store, None);
    let mut arena = Arena::new();
    let changes = [(*same, Some(value.clone())), (missing, None)];
    let slot = DirtyTrie::<Store>::root(root);
    let slot = trie.apply(&mut arena, slot, Nibbles::new(), &changes).unwrap();
    let hashed = hash_tries(&mut arena, vec![slot]).pop().unwrap();
    assert_eq!(hashed.root, root);
    assert!(node_changes(trie, hashed).is_empty());
}

fn account_change(index: u8, slots: &[(u64, u64)]) -> AccountChange {
    AccountChange {
        address: Address::repeat_byte(index),
        account: Some(Account { balance: U256::from(index), ..Account::default() }),
        wiped: false,
        slots: slots.iter().map(|&(slot, value)| (U256::from(slot), U256::from(value))).collect(),
    }
}

/// Creates a state of `accounts` accounts. Only the first one has storage.
fn state(accounts: u8) -> (Store, B256) {
    let slots: Vec<_> = (0..50).map(|slot| (slot, slot + 1)).collect();
    let changes =
        (1..=accounts).map(|index| account_change(index, if index == 1 { &slots } else { &[] }));
    let changes = StateChanges { accounts: changes.collect(), codes: Vec::new() };
    let mut store = Store::default();
    let (root, updates) = update_state_root(&store, &changes, EMPTY_ROOT_HASH).unwrap();
    store.apply(&updates);
    (store, root)
}

#[test]
fn empty_state_has_the_empty_root() {
    let store = Store::default();
    let none = StateChanges::default();
    let (root, updates) = update_state_root(&store, &none, EMPTY_ROOT_HASH).unwrap();
    assert_eq!(root, EMPTY_ROOT_HASH);
    assert!(updates.is_empty());
    assert_eq!(state_root_from_scratch(std::iter::empty::<(_, _, [_; 0])>()), EMPTY_ROOT_HASH);
    let address = Address::ZERO;
    assert_eq!(storage_root(&store, EMPTY_ROOT_HASH, address).unwrap(), EMPTY_ROOT_HASH);
    let proof = account_proof(&store, EMPTY_ROOT_HASH, address, &[U256::ZERO]).unwrap();
    assert_eq!((proof.account, proof.nodes.len()), (None, 0));
}

#[test]
fn an_account_keeps_its_storage_root_when_only_its_fields_change() {
    let (mut store, root) = state(20);
    let address = Address::repeat_byte(1);
    let before = storage_root(&store, root, address).unwrap();
    let slots = (0..50u64).map(|slot| (U256::from(slot), U256::from(slot + 1)));
    assert_eq!(before, storage_root_from_scratch(slots));
    let mut change = account_change(1, &[]);
    change.account = Some(Account { nonce: 7, ..Account::default() });
    let changes = StateChanges { accounts: vec![change], codes: Vec::new() };
    let (root, updates) = update_state_root(&store, &changes, root).unwrap();
    assert!(updates.storages.is_empty());
    store.apply(&updates);
    assert_eq!(storage_root(&store, root, address).unwrap(), before);
}

#[test]
fn removing_an_account_removes_its_storage_records() {
    let (mut store, root) = state(3);
    let mut change = account_change(1, &[(1, 1)]);
    change.account = None;
    let changes = StateChanges { accounts: vec![change], codes: Vec::new() };
    let owner = B256::new(verify::keccak256(Address::repeat_byte(1).as_slice()));
    let (_, updates) = update_state_root(&store, &changes, root).unwrap();
    assert!(updates.is_wiped(owner));
    assert_eq!(updates.get(Some(owner), &Nibbles::from_nibbles([3])), Some(None));
    assert_eq!(updates.get(Some(B256::ZERO), &Nibbles::new()), None);
    store.apply(&updates);
    assert!(store.records.keys().all(|(owner, _)| owner.is_none()));
}

#[test]
fn proofs_of_existing_and_missing_entries_verify() {
    for accounts in [1, 2, 40] {
        let (store, root) = state(accounts);
        let slots = [U256::from(3), U256::from(1000)];
        for index in [1, 2, 200] {
            let address = Address::repeat_byte(index);
            let proof = account_proof(&store, root, address, &slots).unwrap();
            assert_eq!(proof.account.is_some(), index <= accounts);
            let key = Nibbles::unpack(verify::keccak256(address.as_slice()));
            let value = proof.account.map(alloy_rlp::encode);
            verify_proof(root, key, value, &proof.nodes).unwrap();
            let storage_root = proof.account.map_or(EMPTY_ROOT_HASH, |found| found.storage_root);
            for storage in &proof.storage {
                let key = Nibbles::unpack(verify::keccak256(&storage.slot.to_be_bytes::<32>()));
                let value = (!storage.value.is_zero()).then(|| alloy_rlp::encode(storage.value));
                verify_proof(storage_root, key, value, &storage.nodes).unwrap();
            }
            let expected = if index == 1 { 4 } else { 0 };
            assert_eq!(proof.storage[0].value, U256::from(expected));
            assert_eq!(proof.storage[1].value, U256::ZERO);
        }
    }
}

#[test]
fn missing_nodes_and_nodes_of_another_state_are_distinguished() {
    let (mut store, root) = state(40);
    let changes = StateChanges { accounts: vec![account_change(5, &[])], codes: Vec::new() };
    let other = B256::repeat_byte(1);
    match update_state_root(&store, &changes, other).unwrap_err() {
        TrieError::RootMismatch { expected, found } => assert_eq!((expected, found), (other, root)),
        error => panic!("{error}"),
    }
    let leaf = Node::Leaf(Leaf::embedded(Nibbles::new(), Bytes::from_static(&[1])).unwrap());
    let below = store.records.keys().find(|(owner, path)| owner.is_none() && !path.is_empty());
    let path = Nibbles::from_nibbles(&below.unwrap().1);
    let all = (1..=40).map(|index| account_change(index, &[(1, 7)])).collect();
    let changes = StateChanges { accounts: all, codes: Vec::new() };
    store.put(None, &path, Some(&Arc::new(leaf)));
    let error = update_state_root(&store, &changes, root).unwrap_err();
    assert!(matches!(error, TrieError::Damaged { .. }), "{error}");
    store.put(None, &path, None);
    let error = update_state_root(&store, &changes, root).unwrap_err();
    assert!(matches!(error, TrieError::MissingNode { owner: None, path: p } if p == path));
}

/// Keys share long prefixes with each other. The values have every length around the limit of 32 bytes of RLP,
/// at which a leaf, or a branch of two leaves, is no longer embedded in its parent.
#[test]
fn proof_of_every_key_verifies_in_tries_with_nodes_of_about_32_bytes() {
    let present = [
        key(&[(20, 1)]),
        key(&[(20, 1), (57, 2)]),
        key(&[(20, 1), (57, 2), (63, 3)]),
        key(&[(20, 1), (61, 2)]),
        key(&[(20, 1), (61, 2), (62, 1)]),
        key(&[(20, 2), (62, 3)]),
        key(&[(20, 2), (62, 3), (63, 1)]),
    ];
    // These keys diverge within an extension, at a branch and within a leaf.
    let absent = [
        key(&[(0, 1)]),
        key(&[(19, 1)]),
        key(&[(20, 3)]),
        key(&[(20, 1), (40, 1)]),
        key(&[(20, 1), (56, 3)]),
        key(&[(20, 1), (57, 2), (60, 1)]),
        key(&[(20, 1), (62, 1)]),
        key(&[(20, 2)]),
        key(&[(20, 2), (61, 1), (62, 3)]),
        key(&[(20, 2), (62, 3), (63, 2)]),
    ];
    let mut lengths = std::collections::BTreeSet::new();
    for length in 1..=64usize {
        let value = Bytes::from(vec![9; length]);
        let entries: BTreeMap<_, _> = present.into_iter().map(|key| (key, value.clone())).collect();
        let changes: Vec<Change> =
            entries.iter().map(|(key, value)| (*key, Some(value.clone()))).collect();
        let mut store = Store::default();
        let root = update(&mut store, EMPTY_ROOT_HASH, &changes);
        for (key, is_present) in
            present.iter().map(|key| (key, true)).chain(absent.iter().map(|key| (key, false)))
        {
            let (value, nodes) = super::proof::prove(&store, None, key).unwrap();
            assert_eq!(value.is_some(), is_present, "{key:?}");
            lengths.extend(nodes.iter().map(|node| node.len()));
            let value = value.map(|value| value.to_vec());
            let verified = verify_proof(root, *key, value, &nodes);
            assert_eq!(verified, Ok(()), "{key:?}, values of {length} bytes");
        }
    }
    assert!(lengths.contains(&32) && lengths.contains(&33), "{lengths:?}");
}
