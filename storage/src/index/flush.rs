//! Writes a batch of blocks into the tables, each in key order, in one transaction.

use std::ops::Bound;

use alloy_primitives::{Address, B256, U256};
use heed::RwTxn;

use super::batch::Batch;
use super::keys::{SLOT_KEY_BYTES, decode_flushed, encode_flushed, slot_key, trie_key};
use super::logs::{encode_posting, posting_key};
use super::{FLUSHED_KEY, FlushBlock, Tables};
use crate::codec::{self, DecodeError};
use crate::env::{Environment, KeyRange, Table};
use crate::error::{ReadError, WriteError};
use crate::trie::{NodeChanges, TrieUpdates};

pub(super) fn flush(
    env: &Environment,
    tables: &Tables,
    blocks: &[FlushBlock<'_>],
) -> Result<(), WriteError> {
    let Some(last) = blocks.last() else { return Ok(()) };
    let mut txn = env.write()?;
    check_order(env, tables, &txn, blocks)?;
    let mut batch = Batch::default();
    for block in blocks {
        batch.add(block, |address| stored_slots(env, tables.storage, &txn, address))?;
    }
    batch.sort();
    let flushed = encode_flushed(last.number, last.hash);
    put_batch(tables, &mut txn, &batch)
        .and_then(|()| tables.meta.put(&mut txn, FLUSHED_KEY, &flushed))
        .map_err(|error| env.write_error(error))?;
    env.commit(txn)
}

fn check_order(
    env: &Environment,
    tables: &Tables,
    txn: &RwTxn<'_>,
    blocks: &[FlushBlock<'_>],
) -> Result<(), WriteError> {
    let flushed = tables.meta.get(txn, FLUSHED_KEY).map_err(|error| env.write_error(error))?;
    let mut next = flushed
        .map(decode_flushed)
        .transpose()
        .map_err(|why| ReadError::corrupt(env.path(), "meta", FLUSHED_KEY, why))?
        .map(|(number, _)| number + 1);
    for block in blocks {
        let expected = next.unwrap_or(block.number);
        if block.number != expected {
            return Err(env.not_next(expected, block.number));
        }
        next = Some(block.number + 1);
    }
    Ok(())
}

/// Slots of an account in the `storage` table.
fn stored_slots(
    env: &Environment,
    storage: Table,
    txn: &RwTxn<'_>,
    address: Address,
) -> Result<Vec<U256>, WriteError> {
    let error = |error| env.write_error(error);
    let rows = storage.prefix_iter(txn, address.as_slice()).map_err(error)?;
    let slots = rows.map(|row| {
        let (key, _) = row.map_err(error)?;
        let slot = key.get(20..).filter(|slot| slot.len() == 32);
        slot.map(U256::from_be_slice).ok_or_else(|| {
            let why = DecodeError { what: "slot key is not 52 bytes", at: key.len() };
            ReadError::corrupt(env.path(), "storage", key, why).into()
        })
    });
    slots.collect()
}

fn put_batch(tables: &Tables, txn: &mut RwTxn<'_>, batch: &Batch) -> Result<(), heed::Error> {
    put_state(tables, txn, batch)?;
    put_history(tables, txn, batch)?;
    put_trie(tables, txn, &batch.trie)?;
    for (hash, number) in &batch.block_numbers {
        tables.block_numbers.put(txn, hash.as_slice(), &number.to_be_bytes())?;
    }
    for (hash, location) in &batch.transactions {
        tables.transactions.put(txn, hash.as_slice(), location)?;
    }
    put_logs(tables, txn, batch)
}

/// One entry a key: all blocks of the batch that have it.
fn put_logs(tables: &Tables, txn: &mut RwTxn<'_>, batch: &Batch) -> Result<(), heed::Error> {
    let (mut blocks, mut value) = (Vec::new(), Vec::new());
    for posting in batch.logs.chunk_by(|(a, _), (b, _)| a == b) {
        let (key, first) = posting[0];
        blocks.clear();
        blocks.extend(posting.iter().map(|(_, block)| *block));
        value.clear();
        encode_posting(&mut value, &blocks);
        tables.logs.put(txn, &posting_key(key, first), &value)?;
    }
    Ok(())
}

fn put_state(tables: &Tables, txn: &mut RwTxn<'_>, batch: &Batch) -> Result<(), heed::Error> {
    let mut value = Vec::new();
    for (address, account) in &batch.accounts {
        match account {
            None => {
                tables.accounts.delete(txn, address.as_slice())?;
            }
            Some(account) => {
                value.clear();
                codec::encode_account(&mut value, account);
                tables.accounts.put(txn, address.as_slice(), &value)?;
            }
        }
    }
    for (address, storage) in &batch.storage {
        if storage.wiped {
            delete_prefix(tables.storage, txn, address.as_slice())?;
        }
        for (&slot, &word) in &storage.slots {
            let key: [u8; SLOT_KEY_BYTES] = slot_key(*address, slot);
            if word.is_zero() {
                tables.storage.delete(txn, &key)?;
                continue;
            }
            value.clear();
            codec::encode_word(&mut value, word);
            tables.storage.put(txn, &key, &value)?;
        }
    }
    for (hash, code) in &batch.codes {
        // The same code under the same hash: written once, however often it is deployed.
        tables.code.get_or_put(txn, hash.as_slice(), code)?;
    }
    Ok(())
}

fn put_history(tables: &Tables, txn: &mut RwTxn<'_>, batch: &Batch) -> Result<(), heed::Error> {
    let mut value = Vec::new();
    for (key, account) in &batch.account_history {
        value.clear();
        codec::encode_account_entry(&mut value, account.as_ref());
        tables.account_history.put(txn, key, &value)?;
    }
    for (key, word) in &batch.storage_history {
        value.clear();
        codec::encode_word(&mut value, *word);
        tables.storage_history.put(txn, key, &value)?;
    }
    Ok(())
}

fn put_trie(tables: &Tables, txn: &mut RwTxn<'_>, trie: &TrieUpdates) -> Result<(), heed::Error> {
    put_nodes(tables.account_trie, txn, None, &trie.accounts)?;
    let mut owners: Vec<&B256> = trie.storages.keys().collect();
    owners.sort_unstable();
    for owner in owners {
        let storage = &trie.storages[owner];
        if storage.wiped {
            delete_prefix(tables.storage_trie, txn, owner.as_slice())?;
        }
        put_nodes(tables.storage_trie, txn, Some(*owner), &storage.nodes)?;
    }
    Ok(())
}

fn put_nodes(
    table: Table,
    txn: &mut RwTxn<'_>,
    owner: Option<B256>,
    nodes: &NodeChanges,
) -> Result<(), heed::Error> {
    let mut sorted: Vec<_> =
        nodes.iter().map(|(path, node)| (trie_key(owner, path), node)).collect();
    sorted.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let mut value = Vec::new();
    for (key, node) in sorted {
        match node {
            None => {
                table.delete(txn, &key)?;
            }
            Some(node) => {
                value.clear();
                codec::encode_node(&mut value, node);
                table.put(txn, &key, &value)?;
            }
        }
    }
    Ok(())
}

/// Removes every key that starts with `prefix`.
fn delete_prefix(table: Table, txn: &mut RwTxn<'_>, prefix: &[u8]) -> Result<(), heed::Error> {
    let mut end = prefix.to_vec();
    while end.last() == Some(&0xff) {
        end.pop();
    }
    let end = match end.last_mut() {
        Some(last) => {
            *last += 1;
            Bound::Excluded(end.as_slice())
        }
        None => Bound::Unbounded,
    };
    let range: KeyRange<'_> = (Bound::Included(prefix), end);
    table.delete_range(txn, &range)?;
    Ok(())
}
