//! Rows with checksums, so that a damaged row causes an error and never a wrong result.
//!
//! Layout, with big-endian integers: length of the payload (u32), a CRC-32 (IEEE) for each chunk of the payload (u32
//! each; an empty payload has one), the payload. The payload is contiguous, so readers borrow slices of it from
//! the memory map. To read a part of the payload, only the chunks that contain this part are verified.
//!
//! Each checksum also covers the table, the key, the length of the payload and the number of the chunk, so a row
//! or chunk in the wrong position does not match. The length comes first and must agree with the size that LMDB
//! reports for the value. Otherwise a damaged size could make a reader access memory past the end of the file.

use std::io::Write;
use std::ops::Range;

use crc32fast::Hasher;
use heed::{MdbError, PutFlags, RwTxn};

use crate::table::Table;
use trie::primitive::DecodeError;

/// Bytes of payload per checksum, unless a table has smaller chunks.
pub(crate) const CHUNK_BYTES: usize = 16 * 1024;
/// Size of the length and of each checksum, in bytes.
const NUMBER_BYTES: usize = 4;
/// Payloads of at least this size in bytes are written directly to LMDB's page, without `MDB_APPEND`. With pages
/// of 4 KiB, LMDB stores such values on overflow pages, so the flag would hardly save space on leaf pages.
const MIN_RESERVED_BYTES: usize = 2048;

/// The checksum format of the rows of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowFormat {
    /// Number that identifies the table in checksums. It never changes, and is different for each table.
    id: u8,
    chunk_bytes: usize,
}

/// A table whose rows have checksums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedTable {
    pub(crate) table: Table,
    pub(crate) name: &'static str,
    pub(crate) rows: RowFormat,
}

impl CheckedTable {
    pub(crate) const fn new(table: Table, name: &'static str, id: u8) -> Self {
        Self { table, name, rows: RowFormat::new(id) }
    }

    /// Returns the same table for rows with chunks of another size.
    pub(crate) const fn with_chunk_bytes(self, chunk_bytes: usize) -> Self {
        Self { rows: RowFormat { chunk_bytes, ..self.rows }, ..self }
    }

    /// Writes a row, which replaces any row with the same key.
    pub(crate) fn put(
        &self,
        txn: &mut RwTxn<'_>,
        key: &[u8],
        payload: &[u8],
    ) -> Result<(), heed::Error> {
        if payload.len() < MIN_RESERVED_BYTES {
            return self.table.put(txn, key, &self.rows.encode(key, payload)?);
        }
        self.put_reserved(txn, key, payload)
    }

    /// Writes a row whose key is above all others.
    pub(crate) fn append(
        &self,
        txn: &mut RwTxn<'_>,
        key: &[u8],
        payload: &[u8],
    ) -> Result<(), heed::Error> {
        if payload.len() < MIN_RESERVED_BYTES {
            let row = self.rows.encode(key, payload)?;
            return self.table.put_with_flags(txn, PutFlags::APPEND, key, &row);
        }
        self.put_reserved(txn, key, payload)
    }

    fn put_reserved(
        &self,
        txn: &mut RwTxn<'_>,
        key: &[u8],
        payload: &[u8],
    ) -> Result<(), heed::Error> {
        let head = self.rows.head(key, payload)?;
        self.table.put_reserved(txn, key, head.len() + payload.len(), |row| {
            row.write_all(&head)?;
            row.write_all(payload)
        })
    }
}

impl RowFormat {
    pub(crate) const fn new(id: u8) -> Self {
        Self { id, chunk_bytes: CHUNK_BYTES }
    }

    /// Encodes a whole row.
    pub(crate) fn encode(&self, key: &[u8], payload: &[u8]) -> Result<Vec<u8>, heed::Error> {
        let mut row = self.head(key, payload)?;
        row.extend_from_slice(payload);
        Ok(row)
    }

    /// Encodes the length and the checksums, with capacity for a small payload after them.
    fn head(&self, key: &[u8], payload: &[u8]) -> Result<Vec<u8>, heed::Error> {
        let bytes = head_bytes(payload.len(), self.chunk_bytes);
        let too_long = heed::Error::Mdb(MdbError::BadValSize);
        let length = u32::try_from(payload.len()).map_err(|_| too_long)?;
        let capacity = if payload.len() < MIN_RESERVED_BYTES { payload.len() } else { 0 };
        let mut head = Vec::with_capacity(bytes + capacity);
        head.extend_from_slice(&length.to_be_bytes());
        for number in 0..chunks(payload.len(), self.chunk_bytes) {
            let chunk = &payload[chunk_range(number, payload.len(), self.chunk_bytes)];
            head.extend_from_slice(&self.checksum(key, length, number, chunk).to_be_bytes());
        }
        Ok(head)
    }

    fn checksum(&self, key: &[u8], length: u32, number: usize, chunk: &[u8]) -> u32 {
        let mut prefix = [self.id; 1 + 2 * NUMBER_BYTES];
        prefix[1..5].copy_from_slice(&length.to_be_bytes());
        prefix[5..].copy_from_slice(&(number as u32).to_be_bytes());
        let mut hasher = Hasher::new();
        hasher.update(&prefix);
        hasher.update(key);
        hasher.update(chunk);
        hasher.finalize()
    }

    /// Returns a stored row whose payload is not verified yet.
    pub(crate) fn row<'a>(
        &self,
        key: &'a [u8],
        value: &'a [u8],
    ) -> Result<CheckedRow<'a>, DecodeError> {
        let error = |what| DecodeError { what, at: 0 };
        let (length, _) = value.split_first_chunk().ok_or(error("row without a length"))?;
        let length = u32::from_be_bytes(*length);
        let head = head_bytes(length as usize, self.chunk_bytes);
        if value.len() < head || value.len() - head != length as usize {
            return Err(error("the length in the row differs from its size"));
        }
        let (head, payload) = value.split_at(head);
        let (checksums, _) = head[NUMBER_BYTES..].as_chunks();
        Ok(CheckedRow { format: *self, key, checksums, payload })
    }

    /// Returns the verified payload of a stored row.
    pub(crate) fn payload<'a>(&self, key: &[u8], value: &'a [u8]) -> Result<&'a [u8], DecodeError> {
        let row = self.row(key, value)?;
        row.verify(0..row.payload.len())?;
        let start = value.len() - row.payload.len();
        Ok(&value[start..])
    }
}

/// A stored row.
#[derive(Debug)]
pub(crate) struct CheckedRow<'a> {
    format: RowFormat,
    key: &'a [u8],
    checksums: &'a [[u8; NUMBER_BYTES]],
    payload: &'a [u8],
}

impl<'a> CheckedRow<'a> {
    /// Returns the length of the payload in bytes.
    pub(crate) const fn len(&self) -> usize {
        self.payload.len()
    }

    /// Returns the payload. No part of it may be used before it is verified.
    pub(crate) const fn unverified(&self) -> &'a [u8] {
        self.payload
    }

    /// Returns a part of the payload after verifying its chunks; `None` if the payload is shorter.
    pub(crate) fn part(&self, part: Range<usize>) -> Result<Option<&'a [u8]>, DecodeError> {
        let Some(bytes) = self.payload.get(part.clone()) else { return Ok(None) };
        self.verify(part)?;
        Ok(Some(bytes))
    }

    /// Verifies the chunks that contain a part of the payload. The part must not end after the payload.
    pub(crate) fn verify(&self, part: Range<usize>) -> Result<(), DecodeError> {
        let length = self.payload.len();
        let first = part.start / self.format.chunk_bytes;
        let end = part.end.div_ceil(self.format.chunk_bytes).max(1);
        for number in first..end.min(self.checksums.len()) {
            let range = chunk_range(number, length, self.format.chunk_bytes);
            let at = range.start;
            let chunk = &self.payload[range];
            let found = self.format.checksum(self.key, length as u32, number, chunk);
            if found.to_be_bytes() != self.checksums[number] {
                return Err(DecodeError { what: "checksum does not match", at });
            }
        }
        Ok(())
    }
}

/// Returns the number of chunks of a payload. It is at least one, so that the length of an empty payload has a
/// checksum as well.
const fn chunks(length: usize, chunk_bytes: usize) -> usize {
    if length == 0 { 1 } else { length.div_ceil(chunk_bytes) }
}

/// Returns the number of bytes before a payload.
pub(crate) const fn head_bytes(length: usize, chunk_bytes: usize) -> usize {
    NUMBER_BYTES + NUMBER_BYTES * chunks(length, chunk_bytes)
}

fn chunk_range(number: usize, length: usize, chunk_bytes: usize) -> Range<usize> {
    let start = number * chunk_bytes;
    start..length.min(start + chunk_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = &[0, 0, 0, 7];
    const FORMAT: RowFormat = RowFormat { id: 3, chunk_bytes: 64 };

    fn payload(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 7) as u8).collect()
    }

    #[test]
    fn row_round_trips_at_every_length_around_a_chunk() {
        for length in [0, 1, 63, 64, 65, 127, 128, 129, 640] {
            let payload = payload(length);
            let row = FORMAT.encode(KEY, &payload).unwrap();
            assert_eq!(row.len(), head_bytes(length, 64) + length);
            assert_eq!(FORMAT.payload(KEY, &row), Ok(payload.as_slice()));
        }
    }

    #[test]
    fn every_flipped_bit_truncation_extension_and_misplacement_is_detected() {
        for length in [0, 1, 64, 65, 200] {
            let row = FORMAT.encode(KEY, &payload(length)).unwrap();
            for bit in 0..row.len() * 8 {
                let mut damaged = row.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(FORMAT.payload(KEY, &damaged).is_err(), "bit {bit} of {length} bytes");
            }
            for end in 0..row.len() {
                assert!(FORMAT.payload(KEY, &row[..end]).is_err(), "{end} of {} bytes", row.len());
            }
            assert!(FORMAT.payload(KEY, &[row.as_slice(), &[0]].concat()).is_err());
            assert!(FORMAT.payload(&[0, 0, 0, 6], &row).is_err(), "another key");
            assert!(RowFormat { id: 4, ..FORMAT }.payload(KEY, &row).is_err(), "another table");
        }
        // Two chunks are exchanged together with their checksums.
        let mut row = FORMAT.encode(KEY, &payload(128)).unwrap();
        let (head, payload) = row.split_at_mut(head_bytes(128, 64));
        let (first, second) = payload.split_at_mut(64);
        first.swap_with_slice(second);
        let (first, second) = head[4..].split_at_mut(4);
        first.swap_with_slice(second);
        assert!(FORMAT.payload(KEY, &row).is_err());
    }

    /// Checks the example in `docs/storage-format.md`.
    #[test]
    fn layout_is_as_documented() {
        let row = RowFormat::new(1).encode(&7u64.to_be_bytes(), b"abc").unwrap();
        assert_eq!(row, [0, 0, 0, 3, 0x14, 0xc8, 0xb4, 0x50, b'a', b'b', b'c']);
    }

    #[test]
    fn part_verifies_only_its_own_chunks() {
        let payload = payload(200);
        let mut row = FORMAT.encode(KEY, &payload).unwrap();
        let end = row.len() - 1;
        row[end] ^= 1;
        let checked = FORMAT.row(KEY, &row).unwrap();
        assert_eq!(checked.part(60..70), Ok(Some(&payload[60..70])));
        assert_eq!(checked.part(0..192), Ok(Some(&payload[..192])));
        assert!(checked.part(0..193).is_err());
        assert!(checked.part(199..200).is_err());
        assert_eq!(checked.part(199..201), Ok(None));
        assert_eq!(checked.len(), 200);
    }
}
