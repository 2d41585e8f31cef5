//! Writes blocks into the tables in one transaction. Accounts, slots and the entries of runs are written in key
//! order. Runs are merged in further transactions.

use heed::RwTxn;

use super::keys::{decode_flushed, encode_flushed, encode_location};
use super::postings::{MAX_POSTING_BLOCKS, encode_posting, posting_key};
use super::runs::{AddedRun, RunError, Runs};
use super::{FLUSHED_KEY, FlushBlock, PostingKey, Tables, accounts};
use crate::env::Environment;
use crate::error::WriteError;
use crate::prefetch;

/// Number of hashes between the prefetch of a hash and its use.
const HASHES_AHEAD: usize = 16;

pub(super) fn flush(
    env: &Environment,
    tables: &Tables,
    blocks: &[FlushBlock<'_>],
) -> Result<(), WriteError> {
    let Some(last) = blocks.last() else { return Ok(()) };
    let mut txn = env.write()?;
    check_order(env, tables, &txn, blocks)?;
    let histories = accounts::put(env, tables, &mut txn, blocks)?;
    let lookups = put_lookups(env, tables, &mut txn, blocks)?;
    let flushed = encode_flushed(last.number, last.hash);
    put_codes(tables, &mut txn, blocks)
        .and_then(|()| tables.meta.put(&mut txn, FLUSHED_KEY, &flushed))
        .map_err(|error| env.write_error(error))?;
    env.commit(txn)?;
    histories.into_iter().chain(lookups).try_for_each(|added| added.merge(env))
}

fn check_order(
    env: &Environment,
    tables: &Tables,
    txn: &RwTxn<'_>,
    blocks: &[FlushBlock<'_>],
) -> Result<(), WriteError> {
    let meta = tables.meta;
    let flushed = meta.table.get(txn, FLUSHED_KEY).map_err(|error| env.write_error(error))?;
    let mut next = flushed
        .map(|row| meta.rows.payload(FLUSHED_KEY, row).and_then(decode_flushed))
        .transpose()
        .map_err(|why| env.corrupt("meta", FLUSHED_KEY, why))?
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

/// Writes the lookups of block hashes, transactions and postings.
fn put_lookups(
    env: &Environment,
    tables: &Tables,
    txn: &mut RwTxn<'_>,
    blocks: &[FlushBlock<'_>],
) -> Result<[AddedRun; 2], WriteError> {
    for block in blocks {
        tables
            .block_numbers
            .put(txn, block.hash.as_slice(), &block.number.to_be_bytes())
            .map_err(|error| env.write_error(error))?;
    }
    let transactions = put_transactions(tables.transactions, txn, blocks)
        .map_err(|error| tables.transactions.write_error(env, error))?;
    let postings = put_postings(tables.postings, txn, blocks)
        .map_err(|error| tables.postings.write_error(env, error))?;
    Ok([transactions, postings])
}

/// Writes the hash and location of each transaction.
fn put_transactions(
    runs: Runs,
    txn: &mut RwTxn<'_>,
    blocks: &[FlushBlock<'_>],
) -> Result<AddedRun, RunError> {
    let count = blocks.iter().map(|block| block.tx_hashes.len()).sum();
    let mut txs: Vec<(u64, u32, u32)> = Vec::with_capacity(count);
    for (block, flushed) in (0..).zip(blocks) {
        txs.extend((0..).zip(flushed.tx_hashes).map(|(index, hash)| {
            let (prefix, _) = hash.split_first_chunk().expect("32 bytes begin with 8");
            (u64::from_be_bytes(*prefix), block, index)
        }));
    }
    let hash = |tx: &(u64, u32, u32)| &blocks[tx.1 as usize].tx_hashes[tx.2 as usize];
    txs.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| hash(a).cmp(hash(b))));
    let mut run = runs.begin(txn, count as u64)?;
    for (at, tx) in txs.iter().enumerate() {
        txs.get(at + HASHES_AHEAD).into_iter().for_each(|ahead| prefetch(hash(ahead)));
        let location = encode_location(blocks[tx.1 as usize].number, tx.2);
        run.push(txn, hash(tx).as_slice(), &location)?;
    }
    run.finish(txn)
}

/// Writes the blocks that match each posting key, with up to [`MAX_POSTING_BLOCKS`] blocks per entry.
fn put_postings(
    runs: Runs,
    txn: &mut RwTxn<'_>,
    blocks: &[FlushBlock<'_>],
) -> Result<AddedRun, RunError> {
    let mut dated: Vec<(PostingKey, u64)> = Vec::new();
    for block in blocks {
        dated.extend(block.posting_keys.iter().map(|key| (*key, block.number)));
    }
    // A stable sort is fast here, because the keys of each block are already sorted.
    dated.sort();
    let mut run = runs.begin(txn, dated.len() as u64)?;
    let (mut numbers, mut value) = (Vec::new(), Vec::new());
    for group in dated.chunk_by(|(a, _), (b, _)| a == b) {
        for posting in group.chunks(MAX_POSTING_BLOCKS) {
            let (key, first) = posting[0];
            numbers.clear();
            numbers.extend(posting.iter().map(|(_, block)| *block));
            value.clear();
            encode_posting(&mut value, &numbers);
            run.push(txn, &posting_key(key, first), &value)?;
        }
    }
    run.finish(txn)
}

/// Writes each contract code once, however often it is deployed.
fn put_codes(
    tables: &Tables,
    txn: &mut RwTxn<'_>,
    blocks: &[FlushBlock<'_>],
) -> Result<(), heed::Error> {
    for (hash, code) in blocks.iter().flat_map(|block| &block.changes.codes) {
        if tables.code.table.get(txn, hash.as_slice())?.is_none() {
            tables.code.put(txn, hash.as_slice(), code)?;
        }
    }
    Ok(())
}
