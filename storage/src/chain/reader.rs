//! A snapshot of the `chain` environment.

use std::ops::{Bound, RangeInclusive};

use alloy_primitives::{Address, B256, Bytes};

use super::{StoredReceipt, Tables};
use crate::codec;
use crate::env::{KeyRange, Table};
use crate::error::{DecodeError, ReadError};
use crate::snapshot::ReadTxn;
use crate::state::StateChanges;

/// A snapshot of the `chain` environment. May be sent to another thread. Pins the pages it can
/// see, so hold it for a request, not for ever.
#[derive(Debug)]
pub struct ChainReader {
    txn: ReadTxn,
    tables: Tables,
}

/// All methods fail only when the file cannot be read or a value does not decode; a block that is
/// not there is `None`.
impl ChainReader {
    pub(super) fn new(txn: ReadTxn, tables: Tables) -> Self {
        Self { txn, tables }
    }

    /// Number of the transaction this snapshot shows; equal numbers show equal contents.
    pub fn txn_id(&self) -> u64 {
        self.txn.id()
    }

    /// Number and hash of the last block.
    pub fn head(&self) -> Result<Option<(u64, B256)>, ReadError> {
        let last = self.tables.headers.last(self.txn.txn()).map_err(|e| self.txn.error(e))?;
        last.map(|(key, value)| self.number_and_hash(key, value)).transpose()
    }

    /// Number and hash of the first block.
    pub fn first(&self) -> Result<Option<(u64, B256)>, ReadError> {
        let first = self.tables.headers.first(self.txn.txn()).map_err(|e| self.txn.error(e))?;
        first.map(|(key, value)| self.number_and_hash(key, value)).transpose()
    }

    /// Hash and header RLP of a block.
    pub fn header(&self, number: u64) -> Result<Option<(B256, Bytes)>, ReadError> {
        self.decoded(self.tables.headers, "headers", number, codec::decode_header)
    }

    /// Hash of a block.
    pub fn hash(&self, number: u64) -> Result<Option<B256>, ReadError> {
        let key = number.to_be_bytes();
        let Some(value) = self.txn.get(self.tables.headers, &key)? else { return Ok(None) };
        Ok(Some(self.number_and_hash(&key, value)?.1))
    }

    /// RLP items of a block after the header.
    pub fn body(&self, number: u64) -> Result<Option<Bytes>, ReadError> {
        self.raw(self.tables.bodies, number)
    }

    /// Bytes of what [`Self::body`] would copy; 0 for a block that is not there.
    pub fn body_bytes(&self, number: u64) -> Result<usize, ReadError> {
        self.length(self.tables.bodies, number)
    }

    /// Bytes of the stored receipts of a block; 0 for a block that is not there.
    pub fn receipts_bytes(&self, number: u64) -> Result<usize, ReadError> {
        self.length(self.tables.receipts, number)
    }

    /// How many transactions a block has; 0 for a block that is not there.
    pub fn tx_count(&self, number: u64) -> Result<usize, ReadError> {
        Ok(self.length(self.tables.senders, number)? / Address::len_bytes())
    }

    /// Sender of each transaction of a block.
    pub fn senders(&self, number: u64) -> Result<Option<Vec<Address>>, ReadError> {
        self.decoded(self.tables.senders, "senders", number, |bytes| codec::decode_senders(&bytes))
    }

    /// Sender of the transaction at `index` of a block.
    pub fn sender(&self, number: u64, index: u32) -> Result<Option<Address>, ReadError> {
        let Some(senders) = self.txn.get(self.tables.senders, &number.to_be_bytes())? else {
            return Ok(None);
        };
        let (senders, _) = senders.as_chunks::<20>();
        Ok(senders.get(index as usize).map(Address::from))
    }

    /// Receipts of a block.
    pub fn receipts(&self, number: u64) -> Result<Option<Vec<StoredReceipt>>, ReadError> {
        self.decoded(self.tables.receipts, "receipts", number, codec::decode_receipts)
    }

    /// What a block changed in the state.
    pub fn changes(&self, number: u64) -> Result<Option<StateChanges>, ReadError> {
        self.decoded(self.tables.changes, "changes", number, codec::decode_changes)
    }

    /// Fee-history row of a block.
    pub fn fees(&self, number: u64) -> Result<Option<Bytes>, ReadError> {
        self.raw(self.tables.fees, number)
    }

    /// Native module row of a block.
    pub fn module(&self, number: u64) -> Result<Option<Bytes>, ReadError> {
        self.raw(self.tables.module, number)
    }

    /// Fee-history rows of the blocks in `range` that exist, ascending.
    pub fn fees_range(
        &self,
        range: RangeInclusive<u64>,
    ) -> Result<impl Iterator<Item = Result<(u64, Bytes), ReadError>> + '_, ReadError> {
        let rows = self.range(self.tables.fees, range)?;
        Ok(rows.map(|row| row.map(|(number, value)| (number, Bytes::copy_from_slice(value)))))
    }

    /// Gives `take` the fee-history rows of the blocks in `range` that exist, ascending, without
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

    fn range(
        &self,
        table: Table,
        range: RangeInclusive<u64>,
    ) -> Result<impl Iterator<Item = Result<(u64, &[u8]), ReadError>> + '_, ReadError> {
        let (first, last) = (range.start().to_be_bytes(), range.end().to_be_bytes());
        let keys: KeyRange<'_> = (Bound::Included(&first), Bound::Included(&last));
        let rows = table.range(self.txn.txn(), &keys).map_err(|error| self.txn.error(error))?;
        Ok(rows.map(|row| {
            let (key, value) = row.map_err(|error| self.txn.error(error))?;
            let number = decode_number(key).map_err(|why| self.txn.corrupt("chain", key, why))?;
            Ok((number, value))
        }))
    }

    fn length(&self, table: Table, number: u64) -> Result<usize, ReadError> {
        Ok(self.txn.get(table, &number.to_be_bytes())?.map_or(0, <[u8]>::len))
    }

    fn raw(&self, table: Table, number: u64) -> Result<Option<Bytes>, ReadError> {
        Ok(self.txn.get(table, &number.to_be_bytes())?.map(Bytes::copy_from_slice))
    }

    fn decoded<T>(
        &self,
        table: Table,
        name: &'static str,
        number: u64,
        decode: impl FnOnce(Bytes) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, ReadError> {
        let Some(bytes) = self.raw(table, number)? else { return Ok(None) };
        decode(bytes).map(Some).map_err(|why| self.txn.corrupt(name, &number.to_be_bytes(), why))
    }

    fn number_and_hash(&self, key: &[u8], value: &[u8]) -> Result<(u64, B256), ReadError> {
        let corrupt = |why| self.txn.corrupt("headers", key, why);
        let number = decode_number(key).map_err(corrupt)?;
        let hash = value
            .first_chunk::<32>()
            .ok_or(DecodeError { what: "block hash ends early", at: value.len() })
            .map_err(corrupt)?;
        Ok((number, B256::from(hash)))
    }
}

/// A block number from its key.
pub(super) fn decode_number(key: &[u8]) -> Result<u64, DecodeError> {
    key.try_into()
        .map(u64::from_be_bytes)
        .map_err(|_| DecodeError { what: "block number is not 8 bytes", at: key.len() })
}
