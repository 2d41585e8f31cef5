//! A snapshot of the `chain` environment.

use std::ops::{Bound, Range, RangeInclusive};

use alloy_primitives::{Address, B256, Bytes};
use heed::{AnyTls, RoTxn};

use super::Tables;
use crate::StateChanges;
use crate::checked::{CheckedRow, CheckedTable};
use crate::codec;
use crate::error::{DecodeError, ReadError};
use crate::flags::BlockFlags;
use crate::receipt::{ReceiptOutcome, StoredReceipt};
use crate::snapshot::ReadTxn;
use crate::table::KeyRange;

/// The error of a missing row. Every block from the first to the head has one row in each of the block tables.
const MISSING: DecodeError = DecodeError { what: "the row is missing", at: 0 };

/// A snapshot of the `chain` environment. It may be sent to another thread. It pins the pages that it can see,
/// so it should be held no longer than one request takes.
#[derive(Debug)]
pub struct ChainReader {
    pub(super) txn: ReadTxn,
    pub(super) tables: Tables,
}

/// Methods fail only if the file cannot be read, or if a row is damaged or missing. They return `None` for a
/// block before the first or after the head.
impl ChainReader {
    pub(super) fn new(txn: ReadTxn, tables: Tables) -> Self {
        Self { txn, tables }
    }

    /// Returns the transaction id of this snapshot. Snapshots with equal ids have equal contents.
    pub fn txn_id(&self) -> u64 {
        self.txn.id()
    }

    /// Returns the number and hash of the last block.
    pub fn head(&self) -> Result<Option<(u64, B256)>, ReadError> {
        self.numbers()?;
        let last = self.tables.headers.table.last(self.txn.txn());
        self.number_and_hash(last.map_err(|error| self.txn.error(error))?)
    }

    /// Returns the number of the last block. Nothing else of the block is read or verified.
    pub fn head_number(&self) -> Result<Option<u64>, ReadError> {
        Ok(self.numbers()?.map(|numbers| *numbers.end()))
    }

    /// Returns the number and hash of the first block.
    pub fn first(&self) -> Result<Option<(u64, B256)>, ReadError> {
        self.numbers()?;
        let first = self.tables.headers.table.first(self.txn.txn());
        self.number_and_hash(first.map_err(|error| self.txn.error(error))?)
    }

    /// Returns the hash and the header RLP of a block.
    pub fn header(&self, number: u64) -> Result<Option<(B256, Bytes)>, ReadError> {
        let decoded = self.decoded(self.tables.headers, number, codec::decode_header)?;
        Ok(decoded.map(|(hash, _, header)| (hash, header)))
    }

    /// Returns flags for the properties of a block that were set by development methods.
    pub fn flags(&self, number: u64) -> Result<Option<BlockFlags>, ReadError> {
        let decoded = self.decoded(self.tables.headers, number, codec::decode_header)?;
        Ok(decoded.map(|(_, flags, _)| flags))
    }

    /// Returns the hash of a block.
    pub fn hash(&self, number: u64) -> Result<Option<B256>, ReadError> {
        self.with_row(self.tables.headers, number, |row| header_hash(&row))
    }

    /// Returns the RLP items of a block after the header.
    pub fn body(&self, number: u64) -> Result<Option<Bytes>, ReadError> {
        self.raw(self.tables.bodies, number)
    }

    /// Returns a part of the value of [`Self::body`]. `find` receives the whole value, which is not verified
    /// yet, and returns the range of the part, or `None` if there is no such part. The bytes before the part are
    /// verified as well, because `find` relied on them. Later checksummed chunks are neither verified nor copied.
    /// If `find` returns `None`, the whole value is verified.
    pub fn body_part(
        &self,
        number: u64,
        find: impl FnOnce(&[u8]) -> Option<Range<usize>>,
    ) -> Result<Option<Bytes>, ReadError> {
        let part = self.with_row(self.tables.bodies, number, |row| {
            let body = row.unverified();
            let wanted = find(body).filter(|part| body.get(part.clone()).is_some());
            row.verify(0..wanted.as_ref().map_or(body.len(), |part| part.end))?;
            Ok(wanted.map(|part| Bytes::copy_from_slice(&body[part])))
        })?;
        Ok(part.flatten())
    }

    /// Returns the size of the value of [`Self::body`] in bytes; 0 if the block does not exist.
    pub fn body_bytes(&self, number: u64) -> Result<usize, ReadError> {
        self.length(self.tables.bodies, number)
    }

    /// Returns the size of the stored receipts of a block in bytes; 0 if the block does not exist.
    pub fn receipts_bytes(&self, number: u64) -> Result<usize, ReadError> {
        self.length(self.tables.receipts, number)
    }

    /// Returns the number of transactions of a block; 0 if the block does not exist.
    pub fn tx_count(&self, number: u64) -> Result<usize, ReadError> {
        Ok(self.length(self.tables.senders, number)? / Address::len_bytes())
    }

    /// Returns the sender of each transaction of a block.
    pub fn senders(&self, number: u64) -> Result<Option<Vec<Address>>, ReadError> {
        self.decoded(self.tables.senders, number, |bytes| codec::decode_senders(&bytes))
    }

    /// Returns the stored form of the senders of a block: their addresses, one after the other.
    pub fn encoded_senders(&self, number: u64) -> Result<Option<Bytes>, ReadError> {
        self.raw(self.tables.senders, number)
    }

    /// Returns the sender of the transaction at `index` in a block.
    pub fn sender(&self, number: u64, index: u32) -> Result<Option<Address>, ReadError> {
        let sender = self.with_row(self.tables.senders, number, |row| {
            let start = index as usize * Address::len_bytes();
            let sender = row.part(start..start + Address::len_bytes())?;
            if sender.is_none() {
                row.verify(0..row.len())?;
            }
            Ok(sender.map(Address::from_slice))
        })?;
        Ok(sender.flatten())
    }

    /// Returns the receipts of a block.
    pub fn receipts(&self, number: u64) -> Result<Option<Vec<StoredReceipt>>, ReadError> {
        self.decoded(self.tables.receipts, number, codec::decode_receipts)
    }

    /// Returns the stored form of the receipts of a block, which [`decode_receipts`](crate::decode_receipts) reads.
    pub fn encoded_receipts(&self, number: u64) -> Result<Option<Bytes>, ReadError> {
        self.raw(self.tables.receipts, number)
    }

    /// Returns the outcome of each transaction of a block, without decoding logs.
    pub fn outcomes(&self, number: u64) -> Result<Option<Vec<ReceiptOutcome>>, ReadError> {
        self.decoded(self.tables.receipts, number, |bytes| codec::decode_outcomes(&bytes))
    }

    /// Returns the state changes of a block.
    pub fn changes(&self, number: u64) -> Result<Option<StateChanges>, ReadError> {
        self.decoded(self.tables.changes, number, codec::decode_changes)
    }

    /// Returns the stored form of the state changes of a block, which [`decode_changes`](crate::decode_changes) reads.
    pub fn encoded_changes(&self, number: u64) -> Result<Option<Bytes>, ReadError> {
        self.raw(self.tables.changes, number)
    }

    /// Returns the fee-history row of a block.
    pub fn fees(&self, number: u64) -> Result<Option<Bytes>, ReadError> {
        self.raw(self.tables.fees, number)
    }

    /// Returns the native module row of a block.
    pub fn module(&self, number: u64) -> Result<Option<Bytes>, ReadError> {
        self.raw(self.tables.module, number)
    }

    /// Returns the fee-history rows of the existing blocks in `range`, in ascending order.
    pub fn fees_range(
        &self,
        range: RangeInclusive<u64>,
    ) -> Result<impl Iterator<Item = Result<(u64, Bytes), ReadError>> + '_, ReadError> {
        let rows = self.range(self.tables.fees, range)?;
        Ok(rows.map(|row| row.map(|(number, value)| (number, Bytes::copy_from_slice(value)))))
    }

    /// Passes the fee-history rows of the existing blocks in `range` to `take`, in ascending order, without
    /// copying them.
    pub fn each_fee_row<E: From<ReadError>>(
        &self,
        range: RangeInclusive<u64>,
        mut take: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for row in self.range(self.tables.fees, range)? {
            let (number, value) = row?;
            take(number, value)?;
        }
        Ok(())
    }

    /// Verifies the row of a block in each table that has one row per block. Returns the number of rows.
    pub fn verify_block(&self, number: u64) -> Result<usize, ReadError> {
        let tables = self.tables.by_number();
        for table in tables {
            let row = self.with_row(table, number, |row| row.verify(0..row.len()))?;
            row.ok_or_else(|| self.corrupt(table, number, MISSING))?;
        }
        Ok(tables.len())
    }

    /// Returns the numbers of the first and the last block. Nothing else of these blocks is verified.
    pub fn numbers(&self) -> Result<Option<RangeInclusive<u64>>, ReadError> {
        let ends = ends(&self.tables, self.txn.txn()).map_err(|error| self.txn.error(error))?;
        ends.map_err(|(table, key, why)| self.txn.corrupt(table, &key, why))
    }

    /// Returns the rows of the existing blocks in `range`. A gap among them is an error.
    fn range(
        &self,
        table: CheckedTable,
        range: RangeInclusive<u64>,
    ) -> Result<impl Iterator<Item = Result<(u64, &[u8]), ReadError>> + '_, ReadError> {
        let (first, last) = (range.start().to_be_bytes(), range.end().to_be_bytes());
        let keys: KeyRange<'_> = (Bound::Included(&first), Bound::Included(&last));
        let rows = table.table.range(self.txn.txn(), &keys).map_err(|e| self.txn.error(e))?;
        let stored = self.numbers()?.unwrap_or(RangeInclusive::new(1, 0));
        let numbers = *range.start().max(stored.start())..=*range.end().min(stored.end());
        let mut rows = rows.fuse();
        Ok(numbers.map(move |number| {
            let row = rows.next().transpose().map_err(|error| self.txn.error(error))?;
            let row = row.filter(|(key, _)| *key == number.to_be_bytes());
            let (key, row) = row.ok_or_else(|| self.corrupt(table, number, MISSING))?;
            let payload = table.rows.payload(key, row);
            Ok((number, payload.map_err(|why| self.corrupt(table, number, why))?))
        }))
    }

    fn length(&self, table: CheckedTable, number: u64) -> Result<usize, ReadError> {
        // The row and LMDB both contain the length, so a damaged length is detected.
        Ok(self.with_row(table, number, |row| Ok(row.len()))?.unwrap_or(0))
    }

    fn raw(&self, table: CheckedTable, number: u64) -> Result<Option<Bytes>, ReadError> {
        self.decoded(table, number, Ok)
    }

    fn decoded<T>(
        &self,
        table: CheckedTable,
        number: u64,
        decode: impl FnOnce(Bytes) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, ReadError> {
        self.with_row(table, number, |row| {
            row.verify(0..row.len())?;
            decode(Bytes::copy_from_slice(row.unverified()))
        })
    }

    /// Returns the result of `read` for the row of a block.
    fn with_row<T>(
        &self,
        table: CheckedTable,
        number: u64,
        read: impl FnOnce(CheckedRow<'_>) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, ReadError> {
        let key = number.to_be_bytes();
        let Some(row) = self.txn.get(table.table, &key)? else {
            // Every block has a row in each of these tables, so a missing row is damage.
            let is_stored = self.numbers()?.is_some_and(|numbers| numbers.contains(&number));
            return if is_stored { Err(self.corrupt(table, number, MISSING)) } else { Ok(None) };
        };
        let read = table.rows.row(&key, row).and_then(read);
        read.map(Some).map_err(|why| self.corrupt(table, number, why))
    }

    fn corrupt(&self, table: CheckedTable, number: u64, why: DecodeError) -> ReadError {
        self.txn.corrupt(table.name, &number.to_be_bytes(), why)
    }

    fn number_and_hash(
        &self,
        row: Option<(&[u8], &[u8])>,
    ) -> Result<Option<(u64, B256)>, ReadError> {
        let Some((key, row)) = row else { return Ok(None) };
        let headers = self.tables.headers;
        let hash = headers.rows.row(key, row).and_then(|row| header_hash(&row));
        let read = decode_number(key).and_then(|number| Ok((number, hash?)));
        read.map(Some).map_err(|why| self.txn.corrupt(headers.name, key, why))
    }
}

/// Returns the hash of a block from its row in `headers`.
fn header_hash(row: &CheckedRow<'_>) -> Result<B256, DecodeError> {
    row.verify(0..row.len())?;
    let hash = row.unverified().first_chunk::<32>();
    let hash = hash.ok_or(DecodeError { what: "block hash is truncated", at: row.len() })?;
    Ok(B256::from(hash))
}

/// Table, key and reason of a damaged row.
type Damage = (&'static str, Vec<u8>, DecodeError);

/// Returns the numbers of the first and the last block. Two tables must agree on them: damage to LMDB's own
/// pages can hide the last rows of one table, and the chain would then appear shorter than it is.
pub(super) fn ends(
    tables: &Tables,
    txn: &RoTxn<'_, AnyTls>,
) -> Result<Result<Option<RangeInclusive<u64>>, Damage>, heed::Error> {
    let ends = |table: CheckedTable| {
        let (first, last) = (table.table.first(txn)?, table.table.last(txn)?);
        Ok::<_, heed::Error>(first.zip(last).map(|((first, _), (last, _))| (first, last)))
    };
    let (headers, bodies) = (ends(tables.headers)?, ends(tables.bodies)?);
    let name = tables.headers.name;
    if headers != bodies {
        let key = headers.max(bodies).map_or_else(Vec::new, |(_, last)| last.to_vec());
        let what = "tables `headers` and `bodies` do not end with the same block";
        return Ok(Err((name, key, DecodeError { what, at: 0 })));
    }
    let Some((first, last)) = headers else { return Ok(Ok(None)) };
    let number = |key: &[u8]| decode_number(key).map_err(|why| (name, key.to_vec(), why));
    Ok(number(first).and_then(|first| Ok(Some(first..=number(last)?))))
}

/// Decodes the block number in a key.
pub(super) fn decode_number(key: &[u8]) -> Result<u64, DecodeError> {
    key.try_into()
        .map(u64::from_be_bytes)
        .map_err(|_| DecodeError { what: "block number is not 8 bytes", at: key.len() })
}
