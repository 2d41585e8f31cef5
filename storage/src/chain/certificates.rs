//! Certificates of blocks. A block without a row is covered by the certificate of a later block, whose hash
//! commits to it.

use alloy_primitives::Bytes;
use heed::RwTxn;

use super::{ChainReader, Tables};
use crate::checked::CheckedTable;
use crate::error::{DecodeError, ReadError};

/// Version of the rows that this program writes, in the first byte of each payload.
pub(super) const ROW_VERSION: u8 = 1;

/// Writes the certificate of a block. The payload begins with the version number.
pub(super) fn put(
    table: CheckedTable,
    txn: &mut RwTxn<'_>,
    number: u64,
    certificate: &[u8],
    scratch: &mut Vec<u8>,
) -> Result<(), heed::Error> {
    scratch.clear();
    scratch.push(ROW_VERSION);
    scratch.extend_from_slice(certificate);
    table.append(txn, &number.to_be_bytes(), scratch)
}

impl Tables {
    /// Returns the verified certificate in a row, and the number of its block.
    fn certificate(&self, key: &[u8], row: &[u8]) -> Result<(u64, Bytes), DecodeError> {
        let number = <[u8; 8]>::try_from(key);
        let number =
            number.map_err(|_| DecodeError { what: "the key is not a block number", at: 0 })?;
        match self.certificates.rows.payload(key, row)?.split_first() {
            Some((&ROW_VERSION, bytes)) => {
                Ok((u64::from_be_bytes(number), Bytes::copy_from_slice(bytes)))
            }
            _ => Err(DecodeError { what: "the version of the row is unknown", at: 0 }),
        }
    }
}

impl ChainReader {
    /// Returns whether block `number` or a later one has a certificate. The certificate itself is not read.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn is_signed_from(&self, number: u64) -> Result<bool, ReadError> {
        let table = self.tables.certificates.table;
        let row = table.get_greater_than_or_equal_to(self.txn.txn(), &number.to_be_bytes());
        Ok(row.map_err(|error| self.txn.error(error))?.is_some())
    }

    /// Returns the certificate of a block, if the block has its own.
    ///
    /// # Errors
    /// If the file cannot be read, or if the row is damaged.
    pub fn certificate(&self, number: u64) -> Result<Option<Bytes>, ReadError> {
        let next = self.certificate_from(number)?;
        Ok(next.filter(|(of, _)| *of == number).map(|(_, certificate)| certificate))
    }

    /// Returns the first certificate of block `number` or a later block, and the number of the certified block. The
    /// certificate also covers the blocks from `number` to that block, because each block's hash commits to its parent.
    ///
    /// # Errors
    /// If the file cannot be read, or if the row is damaged.
    pub fn certificate_from(&self, number: u64) -> Result<Option<(u64, Bytes)>, ReadError> {
        let table = self.tables.certificates.table;
        let row = table.get_greater_than_or_equal_to(self.txn.txn(), &number.to_be_bytes());
        let row = row.map_err(|error| self.txn.error(error))?;
        row.map(|(key, row)| self.decode_row(key, row)).transpose()
    }

    /// Returns the newest certificate, and the number of its block.
    ///
    /// # Errors
    /// If the file cannot be read, or if the row is damaged.
    pub fn newest_certificate(&self) -> Result<Option<(u64, Bytes)>, ReadError> {
        let row = self.tables.certificates.table.last(self.txn.txn());
        let row = row.map_err(|error| self.txn.error(error))?;
        row.map(|(key, row)| self.decode_row(key, row)).transpose()
    }

    fn decode_row(&self, key: &[u8], row: &[u8]) -> Result<(u64, Bytes), ReadError> {
        let decoded = self.tables.certificate(key, row);
        decoded.map_err(|why| self.txn.corrupt(self.tables.certificates.name, key, why))
    }
}
