//! Flat state, its history and the lookups, against a plain model, whatever the size of a flush.

// Functions beside the tests are part of them.
#![allow(clippy::unwrap_used)]

mod history;

use alloy_primitives::{B256, U256, keccak256};
use history::{ACCOUNTS, Model, SLOTS, address, apply, changes_of, step};
use proptest::prelude::*;
use storage::{FlushBlock, IndexDb, IndexOptions, IndexReader, StateChanges, TrieUpdates};

/// Enough for any history here.
const MAP_BYTES: u64 = 64 << 20;

fn block_hash(number: usize) -> B256 {
    keccak256(format!("block {number}"))
}

fn tx_hashes(number: usize) -> Vec<B256> {
    (0..number % 3).map(|index| keccak256(format!("tx {number} {index}"))).collect()
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_block_can_be_asked_for(
        blocks in prop::collection::vec(prop::collection::vec(step(), 0..12), 1..16),
        flush_blocks in 1..8usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let options = IndexOptions { map_bytes: MAP_BYTES };
        let index = IndexDb::open(folder.path(), options).unwrap();
        let mut models = Vec::new();
        let mut model = Model::new();
        let changes: Vec<StateChanges> = blocks.iter().map(|steps| changes_of(steps)).collect();
        for changes in &changes {
            apply(&mut model, changes);
            models.push(model.clone());
        }
        let hashes: Vec<_> = (0..blocks.len()).map(tx_hashes).collect();
        let trie = TrieUpdates::default();
        let all: Vec<FlushBlock<'_>> = changes
            .iter()
            .enumerate()
            .map(|(number, changes)| FlushBlock {
                number: number as u64,
                hash: block_hash(number),
                tx_hashes: &hashes[number],
                changes,
                trie: &trie,
            })
            .collect();
        for batch in all.chunks(flush_blocks) {
            index.flush(batch).unwrap();
        }
        let reader = index.reader().unwrap();
        check_state(&reader, &models);
        check_lookups(&reader, blocks.len());
        drop(reader);
        index.wipe().unwrap();
        let reader = index.reader().unwrap();
        check_state(&reader, &[Model::new()]);
        prop_assert_eq!(reader.flushed().unwrap(), None);
    }
}
