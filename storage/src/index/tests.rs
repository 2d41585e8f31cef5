//! Compares the flat state, its history and the lookups with a simple model, for different flush sizes.

use alloy_primitives::{Bytes, U256, keccak256};
use proptest::prelude::*;

use super::*;
use crate::history::{ACCOUNTS, Model, SLOTS, address, apply, changes_of, step};
use crate::{Account, AccountChange};
use trie::{EMPTY_ROOT_HASH, LiveTrie, MIN_TRIE_CACHE_BYTES};

/// Large enough for all histories of these tests.
const MAP_BYTES: u64 = 64 << 20;

fn block_hash(number: usize) -> B256 {
    keccak256(format!("block {number}"))
}

fn tx_hashes(number: usize) -> Vec<B256> {
    (0..number % 3).map(|index| keccak256(format!("tx {number} {index}"))).collect()
}

fn flush_block<'a>(
    number: usize,
    changes: &'a StateChanges,
    tx_hashes: &'a [Vec<B256>],
) -> FlushBlock<'a> {
    let (hash, tx_hashes) = (block_hash(number), tx_hashes[number].as_slice());
    FlushBlock { number: number as u64, hash, tx_hashes, posting_keys: &[], changes }
}

fn check_state(reader: &IndexReader, models: &[Model]) {
    let last = models.last().unwrap();
    for account in 0..ACCOUNTS {
        let address = address(account);
        let expected = last.get(&address);
        assert_eq!(reader.account(address).unwrap(), expected.map(|entry| entry.0));
        for (number, model) in models.iter().enumerate() {
            let expected = model.get(&address).map(|entry| entry.0);
            assert_eq!(reader.account_at(address, number as u64).unwrap(), expected);
        }
        let has_storage = expected.is_some_and(|entry| !entry.1.is_empty());
        assert_eq!(reader.has_storage(address).unwrap(), has_storage);
        let slots = expected.into_iter().flat_map(|entry| entry.1.keys().copied());
        for (first, max) in [(0, 1000), (SLOTS / 2, 3), (SLOTS, 1), (0, 0)] {
            let first = U256::from(first);
            let expected: Vec<_> = slots.clone().filter(|slot| *slot >= first).take(max).collect();
            assert_eq!(reader.slots_from(address, first, max).unwrap(), expected);
        }
        for slot in (0..SLOTS).map(U256::from) {
            let word = |model: &Model| {
                let entry = model.get(&address);
                entry.and_then(|entry| entry.1.get(&slot)).copied().unwrap_or_default()
            };
            assert_eq!(reader.storage(address, slot).unwrap(), word(last));
            for (number, model) in models.iter().enumerate() {
                let found = reader.storage_at(address, slot, number as u64).unwrap();
                assert_eq!(found, word(model), "slot {slot} at block {number}");
            }
        }
    }
}

fn check_lookups(reader: &IndexReader, blocks: usize) {
    for number in 0..blocks {
        assert_eq!(reader.block_number(block_hash(number)).unwrap(), Some(number as u64));
        for (index, hash) in tx_hashes(number).into_iter().enumerate() {
            let expected = Some((number as u64, index as u32));
            assert_eq!(reader.tx_location(hash).unwrap(), expected);
        }
    }
    assert_eq!(reader.block_number(B256::ZERO).unwrap(), None);
    assert_eq!(reader.tx_location(B256::ZERO).unwrap(), None);
    let last = blocks.checked_sub(1).map(|last| (last as u64, block_hash(last)));
    assert_eq!(reader.flushed_block().unwrap(), last);
}

fn dump(index: &IndexDb) -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let mut entries = Vec::new();
    let take = |name, key: &[u8], value: &[u8]| entries.push((name, key.to_vec(), value.to_vec()));
    index.reader().unwrap().each_entry(take).unwrap();
    entries
}

fn open(folder: &tempfile::TempDir) -> IndexDb {
    IndexDb::open(folder.path(), IndexOptions { map_bytes: MAP_BYTES }).unwrap()
}

/// Flushes the same blocks into two environments: one by one, and `flush_blocks` at a time.
fn flush_twice(changes: &[StateChanges], flush_blocks: usize) -> [(tempfile::TempDir, IndexDb); 2] {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [single, batched] = folders.map(|folder| {
        let index = open(&folder);
        (folder, index)
    });
    let hashes: Vec<_> = (0..changes.len()).map(tx_hashes).collect();
    let mut trie = LiveTrie::new(EMPTY_ROOT_HASH, MIN_TRIE_CACHE_BYTES);
    for (number, changes) in changes.iter().enumerate() {
        trie.update(&single.1.reader().unwrap(), changes).unwrap();
        single.1.flush(&[flush_block(number, changes, &hashes)]).unwrap();
    }
    let all: Vec<FlushBlock<'_>> =
        (0..changes.len()).map(|number| flush_block(number, &changes[number], &hashes)).collect();
    for batch in all.chunks(flush_blocks) {
        batched.1.flush(batch).unwrap();
    }
    let checkpoint = trie.checkpoint(changes.len() as u64 - 1);
    for (_, index) in [&single, &batched] {
        index.write_trie(&checkpoint).unwrap();
    }
    [single, batched]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn every_block_can_be_queried_with_any_flush_size(
        blocks in prop::collection::vec(prop::collection::vec(step(), 0..12), 1..16),
        flush_blocks in 2..8usize,
    ) {
        let changes: Vec<StateChanges> = blocks.iter().map(|steps| changes_of(steps)).collect();
        let models = changes.iter().scan(Model::new(), |model, changes| {
            apply(model, changes);
            Some(model.clone())
        });
        let models: Vec<Model> = models.collect();
        let [(_single_folder, single), (_folder, index)] = flush_twice(&changes, flush_blocks);
        prop_assert_eq!(dump(&single), dump(&index));
        let reader = index.reader().unwrap();
        check_state(&reader, &models);
        check_lookups(&reader, blocks.len());
        drop(reader);
        index.wipe().unwrap();
        prop_assert_eq!(dump(&index), Vec::new());
        prop_assert_eq!(index.reader().unwrap().flushed().unwrap(), None);
    }
}

/// The wipe finds a slot in the table although an earlier block of the same flush has cleared it.
#[test]
fn slot_cleared_before_a_wipe_has_one_entry_for_zero() {
    let change = |wiped, slots: &[(u64, u64)]| StateChanges {
        accounts: vec![AccountChange {
            address: address(1),
            account: Some(Account::default()),
            wiped,
            slots: slots.iter().map(|&(s, v)| (U256::from(s), U256::from(v))).collect(),
        }],
        codes: Vec::new(),
    };
    let changes = [
        change(false, &[(1, 5), (2, 6)]),
        change(false, &[]),
        change(false, &[(1, 0)]),
        change(true, &[(3, 7)]),
    ];
    let [(_single_folder, single), (_folder, batched)] = flush_twice(&changes, 2);
    assert_eq!(dump(&single), dump(&batched));
    let history = dump(&batched).into_iter().filter(|entry| entry.0 == "storage_history");
    assert_eq!(history.count(), 5);
}

#[test]
fn blocks_that_are_not_consecutive_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(&folder);
    let changes = StateChanges::default();
    let hashes = vec![Vec::new(); 8];
    let block = |number| flush_block(number, &changes, &hashes);
    index.flush(&[]).unwrap();
    index.flush(&[block(3), block(4)]).unwrap();
    for slice in [vec![block(4)], vec![block(6)], vec![block(5), block(7)]] {
        assert!(matches!(index.flush(&slice), Err(WriteError::NotNext { expected: 5 | 6, .. })));
        let flushed = index.reader().unwrap().flushed_block().unwrap();
        assert_eq!(flushed, Some((4, block_hash(4))));
    }
    index.flush(&[block(5)]).unwrap();
}

#[test]
fn full_map_is_an_error_and_keeps_existing_data() {
    let folder = tempfile::tempdir().unwrap();
    let index = IndexDb::open(folder.path(), IndexOptions { map_bytes: 1 << 20 }).unwrap();
    let mut number = 0usize;
    let error = loop {
        let code = Bytes::from(vec![number as u8; 5000]);
        let codes = vec![(keccak256(number.to_be_bytes()), code)];
        let changes = StateChanges { accounts: Vec::new(), codes };
        let hashes = vec![Vec::new(); number + 1];
        match index.flush(&[flush_block(number, &changes, &hashes)]) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("`storage.index-map-bytes`"), "{error}");
    let reader = index.reader().unwrap();
    assert_eq!(reader.flushed().unwrap(), Some(number as u64 - 1));
    for number in 0..number {
        let code = reader.code(keccak256(number.to_be_bytes())).unwrap();
        assert_eq!(code, Some(Bytes::from(vec![number as u8; 5000])));
    }
}

#[test]
fn missing_code_is_an_error_for_execution() {
    use crate::StateRead;
    let folder = tempfile::tempdir().unwrap();
    let reader = open(&folder).reader().unwrap();
    let empty = alloy_primitives::KECCAK256_EMPTY;
    assert_eq!(StateRead::code(&reader, empty).unwrap(), Bytes::new());
    let error = StateRead::code(&reader, B256::ZERO).unwrap_err();
    assert!(matches!(error, ReadError::MissingCode { code_hash: B256::ZERO, .. }), "{error}");
}

#[test]
fn error_of_a_damaged_value_names_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(&folder);
    let (address, slot, hash) = (address(1), U256::from(2), B256::repeat_byte(3));
    let path = trie::Nibbles::new();
    let tables = &index.tables;
    let slot_key = keys::slot_key(address, slot);
    let mut txn = index.env.write().unwrap();
    // The value is not valid in any of these tables.
    for (table, key) in [
        (tables.meta.table, FLUSHED_KEY),
        (tables.accounts, address.as_slice()),
        (tables.storage, &slot_key),
        // The directories of the runs.
        (tables.account_history.pages.table, &[0; 4]),
        (tables.storage_history.pages.table, &[0; 4]),
        (tables.transactions.pages.table, &[0; 4]),
        (tables.account_trie, &keys::trie_key(None, &path)),
        (tables.storage_trie, &keys::trie_key(Some(hash), &path)),
        (tables.block_numbers.table, hash.as_slice()),
        (tables.code.table, hash.as_slice()),
    ] {
        table.put(&mut txn, key, &[0, 0xff, 0xff]).unwrap();
    }
    index.env.commit(txn).unwrap();
    let reader = index.reader().unwrap();
    let errors = [
        ("meta", reader.flushed().unwrap_err()),
        ("accounts", reader.account(address).unwrap_err()),
        ("storage", reader.storage(address, slot).unwrap_err()),
        ("account_history", reader.account_at(address, 9).unwrap_err()),
        ("storage_history", reader.storage_at(address, slot, 9).unwrap_err()),
        ("account_trie", reader.trie_node(None, &path).unwrap_err()),
        ("storage_trie", reader.trie_node(Some(hash), &path).unwrap_err()),
        ("block_numbers", reader.block_number(hash).unwrap_err()),
        ("transactions", reader.tx_location(hash).unwrap_err()),
        ("code", reader.code(hash).unwrap_err()),
    ];
    for (expected, error) in errors {
        assert!(
            matches!(&error, ReadError::Corrupt { table, .. } if *table == expected),
            "{error}"
        );
        assert!(error.to_string().contains("evmd reindex"), "{error}");
    }
    // A flush fails if it cannot read existing rows.
    let changes = StateChanges::default();
    let error = index.flush(&[flush_block(5, &changes, &vec![Vec::new(); 6])]);
    assert!(matches!(error, Err(WriteError::Read(ReadError::Corrupt { table: "meta", .. }))));
}
