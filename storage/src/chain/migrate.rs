//! In-place migration from format 3, whose rows have no checksums.
//!
//! Blocks are rewritten in batches, each in one transaction that also records the next block in `meta`. If the
//! process dies, the rows of earlier blocks have checksums and those from the next block on do not. The next process
//! continues there. The last transaction writes the rows of `meta` and the format number. Later batches reuse the pages
//! that a batch frees, so the file grows by about two batches.
//!
//! Payloads are copied without being checked; those in `headers` receive empty block flags. `evmd doctor --verify`
//! finds rows that were damaged before the migration: it compares bodies, receipts and state with the headers.

use heed::RwTxn;

use super::meta::CALLER_KEY_PREFIX;
use super::{ChainDb, Tables, codec, reader};
use crate::error::{DecodeError, OpenError, WriteError};

/// Key in `meta` during a migration: the next block to rewrite.
const NEXT_KEY: &[u8] = b"migrate.next";
/// Total size of rows in bytes at which a batch is complete. LMDB keeps the pages of a transaction in memory.
const BATCH_BYTES: usize = if cfg!(test) { 1 << 12 } else { 32 << 20 };

/// The progress of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationProgress {
    /// First block of the chain.
    pub first: u64,
    /// Next block to rewrite.
    pub next: u64,
    /// Last block of the chain.
    pub last: u64,
}

/// The result of one transaction of a migration.
enum Step {
    Batch(MigrationProgress),
    Finished,
}

pub(super) fn migrate(
    chain: &ChainDb,
    mut report: impl FnMut(MigrationProgress),
) -> Result<(), OpenError> {
    loop {
        let mut txn = chain.env.write()?;
        let step = step(chain, &mut txn)?;
        chain.env.commit(txn)?;
        match step {
            Step::Batch(progress) => report(progress),
            Step::Finished => return Ok(()),
        }
    }
}

/// Rewrites one batch, or completes the migration.
fn step(chain: &ChainDb, txn: &mut RwTxn<'_>) -> Result<Step, WriteError> {
    let tables = &chain.tables;
    let Some(numbers) = chain.numbers(txn)? else { return finish(chain, txn) };
    let (first, last) = numbers.into_inner();
    let mut next = next_block(chain, txn)?.unwrap_or(first);
    if next > last {
        return finish(chain, txn);
    }
    let mut bytes = 0;
    while next <= last && bytes < BATCH_BYTES {
        bytes += rewrite(chain, txn, next)?;
        next += 1;
    }
    tables
        .meta
        .put(txn, NEXT_KEY, &next.to_be_bytes())
        .map_err(|error| chain.env.write_error(error))?;
    Ok(Step::Batch(MigrationProgress { first, next, last }))
}

/// Returns the first block whose rows have no checksums; `None` if no batch has been written yet.
fn next_block(chain: &ChainDb, txn: &RwTxn<'_>) -> Result<Option<u64>, WriteError> {
    let meta = chain.tables.meta;
    let row = meta.table.get(txn, NEXT_KEY).map_err(|error| chain.env.write_error(error))?;
    let Some(row) = row else { return Ok(None) };
    let number = meta.rows.payload(NEXT_KEY, row).and_then(reader::decode_number);
    number.map(Some).map_err(|why| chain.env.corrupt(meta.name, NEXT_KEY, why).into())
}

/// Rewrites the rows of a block. Returns the size of their payloads in bytes.
fn rewrite(chain: &ChainDb, txn: &mut RwTxn<'_>, number: u64) -> Result<usize, WriteError> {
    let key = number.to_be_bytes();
    let error = |error| chain.env.write_error(error);
    let Tables { headers, .. } = chain.tables;
    let mut bytes = 0;
    for table in chain.tables.by_number() {
        let corrupt = |why| WriteError::from(chain.env.corrupt(table.name, &key, why));
        let row = table.table.get(txn, &key).map_err(error)?;
        let row = row.ok_or_else(|| corrupt(DecodeError { what: "the row is missing", at: 0 }))?;
        let mut payload = row.to_vec();
        if table.name == headers.name {
            payload = codec::header_of_format_3(&payload).map_err(corrupt)?;
        }
        table.put(txn, &key, &payload).map_err(error)?;
        bytes += payload.len();
    }
    Ok(bytes)
}

/// Adds checksums to the rows of `meta`, and writes the new format number.
fn finish(chain: &ChainDb, txn: &mut RwTxn<'_>) -> Result<Step, WriteError> {
    let meta = chain.tables.meta;
    let write = |txn: &mut RwTxn<'_>| {
        let rows = meta.table.prefix_iter(txn, CALLER_KEY_PREFIX)?;
        let rows = rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())));
        for (key, value) in rows.collect::<Result<Vec<_>, _>>()? {
            meta.put(txn, &key, &value)?;
        }
        meta.table.delete(txn, NEXT_KEY)?;
        chain.put_meta_keys(txn)?;
        chain.env.put_format(meta, txn)
    };
    write(txn).map_err(|error: heed::Error| chain.env.write_error(error))?;
    Ok(Step::Finished)
}

#[cfg(test)]
#[path = "migrate_tests.rs"]
mod tests;
