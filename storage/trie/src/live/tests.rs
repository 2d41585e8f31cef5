//! Compares the trie in memory with the pure update and with roots computed from scratch, across checkpoints,
//! reloads and evictions. Its stored records must equal those of the pure update byte for byte.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use alloy_primitives::Bytes;
use alloy_trie::HashBuilder;
use proptest::prelude::*;

use super::*;
use crate::dirty::{Arena as DirtyArena, Change as DirtyChange, DirtyTrie};
use crate::hashing::hash_tries;
use crate::history::{Model, apply, changes_of, step};
use crate::state::node_changes;
use crate::{
    Nibbles, Node, NodeRead, TrieUpdates, decode_node, encode_node, encode_path_key,
    state_root_from_scratch, update_state_root,
};

/// Records as bytes, by table and key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Store(BTreeMap<(bool, Vec<u8>), Vec<u8>>);

impl Store {
    pub(super) fn write(&mut self, checkpoint: &TrieCheckpoint) {
        self.wipe(&checkpoint.wiped);
        for (storage, records) in [(false, &checkpoint.accounts), (true, &checkpoint.storages)] {
            let mut last: Option<&[u8]> = None;
            for (key, record) in records.rows().iter() {
                assert!(last < Some(key), "ascending, each once");
                last = Some(key);
                match record {
                    Some(record) => drop(self.0.insert((storage, key.into()), record.into())),
                    None => drop(self.0.remove(&(storage, key.into()))),
                }
            }
        }
    }

    fn wipe(&mut self, owners: &[B256]) {
        let is_wiped = |key: &[u8]| owners.iter().any(|owner| key.starts_with(owner.as_slice()));
        self.0.retain(|(storage, key), _| !(*storage && is_wiped(key)));
    }

    pub(super) fn update(&mut self, updates: &TrieUpdates) {
        let wiped: Vec<B256> = updates.storages.keys().copied().collect();
        let wiped: Vec<B256> = wiped.into_iter().filter(|owner| updates.is_wiped(*owner)).collect();
        self.wipe(&wiped);
        for (owner, path, node) in updates.iter() {
            self.put(owner, path, node);
        }
    }

    fn put(&mut self, owner: Option<B256>, path: &Nibbles, node: Option<&Arc<Node>>) {
        let mut key = owner.map_or_else(Vec::new, |owner| owner.to_vec());
        encode_path_key(&mut key, path);
        match node {
            None => drop(self.0.remove(&(owner.is_some(), key))),
            Some(node) => {
                let mut record = Vec::new();
                encode_node(&mut record, node);
                self.0.insert((owner.is_some(), key), record);
            }
        }
    }
}

impl RecordRead for Store {
    type Error = Infallible;

    fn record(&self, storage: bool, key: &[u8]) -> Result<Option<&[u8]>, Infallible> {
        Ok(self.0.get(&(storage, key.to_vec())).map(Vec::as_slice))
    }
}

impl NodeRead for Store {
    type Error = Infallible;

    fn node(&self, owner: Option<B256>, path: &Nibbles) -> Result<Option<Arc<Node>>, Infallible> {
        let mut key = owner.map_or_else(Vec::new, |owner| owner.to_vec());
        encode_path_key(&mut key, path);
        let record = self.0.get(&(owner.is_some(), key));
        Ok(record.map(|record| Arc::new(decode_node(&Bytes::copy_from_slice(record)).unwrap())))
    }
}

/// An event between blocks.
#[derive(Clone, Copy, Debug)]
enum Event {
    Nothing,
    /// A checkpoint is created. The next `Write` or `Reopen` stores it.
    Checkpoint,
    /// All created checkpoints are written.
    Write,
    /// All nodes that may be evicted are evicted.
    Evict,
    /// A checkpoint is written, and the tries are reopened.
    Reopen,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Nothing),
        1 => Just(Event::Checkpoint),
        1 => Just(Event::Write),
        2 => Just(Event::Evict),
        1 => Just(Event::Reopen),
    ]
}

/// A trie with its store.
struct Harness {
    live: LiveTrie,
    store: Store,
    taken: Vec<TrieCheckpoint>,
    number: u64,
}

impl Harness {
    fn new() -> Self {
        let live = LiveTrie::new(EMPTY_ROOT_HASH, 0);
        Self { live, store: Store::default(), taken: Vec::new(), number: 0 }
    }

    fn checkpoint(&mut self) {
        self.number += 1;
        let checkpoint = self.live.checkpoint(self.number);
        assert_eq!(self.live.dirty(), 0);
        self.taken.push(checkpoint);
    }

    fn write(&mut self) {
        for checkpoint in self.taken.drain(..) {
            self.store.write(&checkpoint);
        }
        self.live.written(self.number);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Nothing => {}
            Event::Checkpoint => self.checkpoint(),
            Event::Write => self.write(),
            Event::Evict => {
                self.live.limit = 0;
                self.live.evict();
                // Nodes of the last update are kept, so eviction is repeated as if another update had followed.
                self.live.now += 1;
                self.live.evict();
                self.live.limit = usize::MAX;
            }
            Event::Reopen => {
                self.checkpoint();
                self.write();
                self.live = LiveTrie::new(self.live.state_root(), 0);
            }
        }
    }
}

/// Generates keys that are zero except for a few nibbles, so that nodes below 32 bytes, deep forks and every kind
/// of collapse occur.
fn any_key() -> impl Strategy<Value = Key> {
    let positions = prop::sample::select(vec![0usize, 1, 2, 20, 57, 61, 62, 63]);
    prop::collection::vec((positions, 0..4u8), 0..5).prop_map(|nibbles| {
        let mut key = [0; 32];
        for (at, nibble) in nibbles {
            let shift = if at % 2 == 0 { 4 } else { 0 };
            key[at / 2] = (key[at / 2] & (0xf0 >> shift)) | (nibble << shift);
        }
        key
    })
}

fn any_value() -> impl Strategy<Value = Option<Vec<u8>>> {
    let bytes = |length| prop::collection::vec(1..=255u8, length);
    prop_oneof![
        2 => Just(None),
        2 => bytes(1..3usize).prop_map(Some),
        1 => bytes(20..60usize).prop_map(Some),
    ]
}

/// Arbitrary values.
struct Raw<'a>(Vec<&'a Option<Vec<u8>>>);

impl NewValues for Raw<'_> {
    fn is_removed(&self, rank: usize) -> bool {
        self.0[rank].is_none()
    }

    fn value(&mut self, rank: usize, _: Option<Value<'_>>) -> ValueBuffer {
        ValueBuffer::raw(self.0[rank].as_ref().unwrap())
    }
}

/// Applies changes to the account trie.
fn update_live(live: &mut LiveTrie, store: &Store, changes: &BTreeMap<Key, Option<Vec<u8>>>) {
    live.now += 1;
    let keys: Vec<Key> = changes.keys().copied().collect();
    let slot = live.accounts.slot;
    let mut values = Raw(changes.values().collect());
    let (slot, any) = live.change_entries(store, None, slot, &keys, &mut values).unwrap();
    live.accounts.slot = slot;
    if any {
        live.accounts.epoch = live.epoch;
        live.state_root = live.hash.run(&mut live.arena, &[slot], live.epoch)[0];
    }
}

/// Applies the same changes with the pure update.
fn update_pure(store: &mut Store, root: B256, changes: &BTreeMap<Key, Option<Vec<u8>>>) -> B256 {
    let changes: Vec<DirtyChange> = changes
        .iter()
        .map(|(key, value)| (Nibbles::unpack(key), value.clone().map(Bytes::from)))
        .collect();
    let mut trie = DirtyTrie::new(&*store, None);
    let mut arena = DirtyArena::new();
    let slot = DirtyTrie::<Store>::root(root);
    let slot = trie.apply(&mut arena, slot, Nibbles::new(), &changes).unwrap();
    let hashed = hash_tries(&mut arena, vec![slot]).pop().unwrap();
    let root = hashed.root;
    for (path, node) in &node_changes(trie, hashed) {
        store.put(None, path, node.as_ref());
    }
    root
}

fn scratch(entries: &BTreeMap<Key, Vec<u8>>) -> B256 {
    let mut builder = HashBuilder::default();
    for (key, value) in entries {
        builder.add_leaf(Nibbles::unpack(key), value);
    }
    builder.root()
}

pub(super) fn cases(count: u32) -> ProptestConfig {
    let factor = std::env::var_os("EVMD_LONG_TESTS").map_or(1, |_| 20);
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(count * factor) }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn roots_and_records_of_one_trie_with_hostile_keys_agree(
        blocks in prop::collection::vec(
            (prop::collection::btree_map(any_key(), any_value(), 0..10), event()), 1..30),
    ) {
        let mut harness = Harness::new();
        let mut pure = Store::default();
        let mut root = EMPTY_ROOT_HASH;
        let mut entries = BTreeMap::new();
        for (changes, event) in &blocks {
            for (key, value) in changes {
                match value {
                    None => entries.remove(key),
                    Some(value) => entries.insert(*key, value.clone()),
                };
            }
            update_live(&mut harness.live, &harness.store, changes);
            root = update_pure(&mut pure, root, changes);
            prop_assert_eq!(harness.live.state_root(), scratch(&entries));
            prop_assert_eq!(root, scratch(&entries));
            harness.handle(*event);
        }
        harness.handle(Event::Reopen);
        prop_assert_eq!(&harness.store, &pure);
    }
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn roots_and_records_of_states_with_storage_agree(
        blocks in prop::collection::vec(
            (prop::collection::vec(step(), 0..12), event()), 1..40),
    ) {
        let mut harness = Harness::new();
        let mut pure = Store::default();
        let mut root = EMPTY_ROOT_HASH;
        let mut model = Model::new();
        for (steps, event) in &blocks {
            let changes = changes_of(steps);
            apply(&mut model, &changes);
            let expected = state_root_from_scratch(model.iter().map(|(address, (account, slots))| {
                (*address, *account, slots.iter().map(|(&slot, &value)| (slot, value)))
            }));
            prop_assert_eq!(harness.live.update(&harness.store, &changes).unwrap(), expected);
            let (next, updates) = update_state_root(&pure, &changes, root).unwrap();
            pure.update(&updates);
            root = next;
            prop_assert_eq!(root, expected);
            harness.handle(*event);
        }
        harness.handle(Event::Reopen);
        prop_assert_eq!(&harness.store, &pure);
    }
}

/// Creates a state with `count` plain accounts.
fn accounts(count: u32) -> StateChanges {
    let accounts = (0..count).map(|index| AccountChange {
        address: alloy_primitives::Address::from_word(alloy_primitives::keccak256(
            index.to_be_bytes(),
        )),
        account: Some(crate::Account {
            balance: U256::from(index) + U256::from(1),
            ..Default::default()
        }),
        wiped: false,
        slots: Vec::new(),
    });
    let mut accounts: Vec<_> = accounts.collect();
    accounts.sort_unstable_by_key(|change| change.address);
    StateChanges { accounts, codes: Vec::new() }
}

#[test]
fn evicted_nodes_are_loaded_again() {
    let mut harness = Harness::new();
    let all = accounts(20_000);
    harness.live.update(&harness.store, &all).unwrap();
    let full = harness.live.bytes();
    harness.handle(Event::Evict);
    assert_eq!(harness.live.bytes(), full, "nothing is written yet");
    harness.checkpoint();
    harness.handle(Event::Evict);
    assert_eq!(harness.live.bytes(), full, "the checkpoint is not written yet");
    harness.write();
    harness.handle(Event::Evict);
    assert!(harness.live.bytes() < full / 50, "{} of {full}", harness.live.bytes());
    assert_eq!(harness.live.dirty(), 0);
    let accounts = all.accounts.iter().step_by(100).cloned().collect();
    let mut some = StateChanges { accounts, codes: Vec::new() };
    for change in &mut some.accounts {
        change.account.as_mut().unwrap().nonce = 9;
    }
    let mut pure = harness.store.clone();
    let root = harness.live.state_root();
    let (expected, updates) = update_state_root(&pure, &some, root).unwrap();
    pure.update(&updates);
    assert_eq!(harness.live.update(&harness.store, &some).unwrap(), expected);
    harness.handle(Event::Reopen);
    assert_eq!(harness.store, pure);
}

#[test]
fn cache_stays_within_its_limit() {
    let mut harness = Harness::new();
    harness.live.update(&harness.store, &accounts(50_000)).unwrap();
    harness.handle(Event::Reopen);
    let all = accounts(50_000);
    harness.live.limit = 1 << 20;
    for (at, block) in all.accounts.chunks(500).enumerate() {
        let mut changes = StateChanges { accounts: block.to_vec(), codes: Vec::new() };
        for change in &mut changes.accounts {
            change.account.as_mut().unwrap().nonce = at as u64 + 1;
        }
        harness.live.update(&harness.store, &changes).unwrap();
        harness.checkpoint();
        harness.write();
        // The branches that a block used are kept until the next block.
        assert!(harness.live.bytes() < (3 << 20), "{}", harness.live.bytes());
    }
    let slots = std::iter::empty::<(U256, U256)>;
    let state = all.accounts.chunks(500).enumerate().flat_map(|(at, block)| {
        block.iter().map(move |change| {
            let account = crate::Account { nonce: at as u64 + 1, ..change.account.unwrap() };
            (change.address, account, slots())
        })
    });
    assert_eq!(harness.live.state_root(), state_root_from_scratch(state));
}

#[test]
fn removing_missing_entries_changes_nothing() {
    let mut harness = Harness::new();
    let mut all = accounts(100);
    let mut others = all.clone();
    others.accounts.retain(|change| change.address[19] % 3 == 0);
    all.accounts.retain(|change| change.address[19] % 3 != 0);
    others.accounts.iter_mut().for_each(|change| change.account = None);
    let root = harness.live.update(&harness.store, &all).unwrap();
    harness.handle(Event::Reopen);
    assert_eq!(harness.live.update(&harness.store, &others).unwrap(), root);
    assert_eq!(harness.live.dirty(), 0);
    assert!(harness.live.checkpoint(9).is_empty());
}

#[test]
fn missing_or_damaged_record_is_an_error() {
    let mut harness = Harness::new();
    let all = accounts(5_000);
    let root = harness.live.update(&harness.store, &all).unwrap();
    harness.handle(Event::Reopen);
    let (key, record) = harness.store.0.iter().nth(50).unwrap();
    let (key, record) = (key.clone(), record.clone());
    let mut changed = all.clone();
    for change in &mut changed.accounts {
        change.account.as_mut().unwrap().nonce = 1;
    }
    harness.store.0.remove(&key);
    let error = LiveTrie::new(root, 0).update(&harness.store, &changed).unwrap_err();
    assert!(matches!(error, TrieError::MissingNode { .. }), "{error}");
    for end in 0..record.len() {
        harness.store.0.insert(key.clone(), record[..end].to_vec());
        let error = LiveTrie::new(root, 0).update(&harness.store, &changed).unwrap_err();
        assert!(matches!(error, TrieError::Damaged { .. }), "{error}");
    }
}
