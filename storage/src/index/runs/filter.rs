//! Filters with ten bits per key, so that a lookup reads only runs that probably contain the key.
//!
//! They are blocked Bloom filters: a key sets and tests bits of one line of 64 bytes. The first
//! eight bytes of the key, interpreted as a fraction, select the line, so lines ascend with keys,
//! and a merge, which works in key order, fills a filter from start to end. Lines are stored in
//! chunks, one row each; a partial chunk is read back when its merge continues. Keys must be
//! uniformly distributed, like hashes, and have at least 16 bytes.

use heed::{AnyTls, RoTxn, RwTxn};

use super::{DIRECTORY, ID_BYTES, RunError, Runs};
use crate::checked::CheckedTable;
use crate::error::DecodeError;

/// Bits per key. The false-positive rate is about one in eighty.
const BITS_PER_KEY: u64 = 10;
/// Number of bits that a key sets.
const PROBES: u32 = 6;
/// Bytes of a line, which is a cache line.
const LINE_BYTES: usize = 64;
const LINE_BITS: u64 = LINE_BYTES as u64 * 8;
/// Lines per chunk. A row of this many lines, including its length, its checksums and LMDB's header, almost fills
/// sixteen pages of 4 KiB.
const CHUNK_LINES: u64 = 1008;
/// Bytes of a filter per checksum. The value is small because a lookup needs only one line of each filter.
const CHECKED_BYTES: usize = 512;

/// Builds a filter. Keys must be inserted in ascending order.
pub(super) struct Filter {
    id: u32,
    lines: u64,
    /// The current chunk and its number.
    chunk: Option<(u32, Vec<u8>)>,
}

/// Returns the number of lines of a filter for this number of keys.
pub(super) const fn lines(keys: u64) -> u64 {
    (keys * BITS_PER_KEY).div_ceil(LINE_BITS)
}

/// Position of a key's line, and its bits in the line.
struct FilterPosition {
    chunk: u32,
    start: usize,
    bits: [u16; PROBES as usize],
}

impl FilterPosition {
    fn of(key: &[u8], lines: u64) -> Self {
        let part = |from: usize| {
            let bytes = key[from..from + 8].try_into().expect("eight bytes");
            u64::from_be_bytes(bytes)
        };
        let line = ((u128::from(part(0)) * u128::from(lines)) >> 64) as u64;
        let mut seed = part(8);
        let bits = std::array::from_fn(|_| {
            let bit = (seed % LINE_BITS) as u16;
            seed /= LINE_BITS;
            bit
        });
        let chunk = u32::try_from(line / CHUNK_LINES).expect("runs have fewer than 2^47 keys");
        Self { chunk, start: (line % CHUNK_LINES) as usize * LINE_BYTES, bits }
    }

    fn set(&self, chunk: &mut [u8]) {
        for bit in self.bits {
            chunk[self.start + usize::from(bit / 8)] |= 1 << (bit % 8);
        }
    }

    /// Returns whether all bits are set in the line.
    fn is_set(&self, line: &[u8]) -> bool {
        self.bits.iter().all(|bit| line[usize::from(bit / 8)] & 1 << (bit % 8) != 0)
    }
}

/// Returns the key of a chunk's row.
fn chunk_key(id: u32, chunk: u32) -> [u8; 3 * ID_BYTES] {
    let mut key = [0; 3 * ID_BYTES];
    key[..ID_BYTES].copy_from_slice(&DIRECTORY);
    key[ID_BYTES..2 * ID_BYTES].copy_from_slice(&id.to_be_bytes());
    key[2 * ID_BYTES..].copy_from_slice(&chunk.to_be_bytes());
    key
}

impl Filter {
    pub(super) const fn new(id: u32, lines: u64) -> Self {
        Self { id, lines, chunk: None }
    }

    /// Adds a key; has no effect on a filter without lines.
    pub(super) fn insert(
        &mut self,
        runs: Runs,
        txn: &mut RwTxn<'_>,
        key: &[u8],
    ) -> Result<(), RunError> {
        if self.lines == 0 {
            return Ok(());
        }
        let position = FilterPosition::of(key, self.lines);
        if self.chunk.as_ref().is_none_or(|(number, _)| *number != position.chunk) {
            self.write(runs, txn)?;
            let at = chunk_key(self.id, position.chunk);
            let rows = runs.filters();
            let bytes = match rows.table.get(txn, &at)? {
                Some(row) => {
                    let begun = rows.rows.payload(&at, row);
                    begun.map_err(|why| RunError::Corrupt(at.to_vec(), why))?.to_vec()
                }
                None => vec![0; chunk_bytes(self.lines, position.chunk)],
            };
            self.chunk = Some((position.chunk, bytes));
        }
        let (_, chunk) = self.chunk.as_mut().expect("set above");
        position.set(chunk);
        Ok(())
    }

    /// Writes the current chunk. Another `Filter` with the same id can continue the filter.
    pub(super) fn finish(mut self, runs: Runs, txn: &mut RwTxn<'_>) -> Result<(), RunError> {
        self.write(runs, txn)
    }

    /// Writes the current chunk.
    fn write(&mut self, runs: Runs, txn: &mut RwTxn<'_>) -> Result<(), RunError> {
        if let Some((number, bytes)) = self.chunk.take() {
            runs.filters().put(txn, &chunk_key(self.id, number), &bytes)?;
        }
        Ok(())
    }
}

/// Returns the size of a chunk of a filter with this many lines, in bytes.
fn chunk_bytes(lines: u64, chunk: u32) -> usize {
    CHUNK_LINES.min(lines - u64::from(chunk) * CHUNK_LINES) as usize * LINE_BYTES
}

impl Runs {
    /// Returns the table with the row format of filters.
    const fn filters(self) -> CheckedTable {
        self.pages.with_chunk_bytes(CHECKED_BYTES)
    }

    /// Returns whether a run may contain a key; true for a run without a filter.
    pub(super) fn may_hold(
        self,
        txn: &RoTxn<'_, AnyTls>,
        id: u32,
        lines: u64,
        key: &[u8],
    ) -> Result<bool, RunError> {
        if lines == 0 {
            return Ok(true);
        }
        let position = FilterPosition::of(key, lines);
        let at = chunk_key(id, position.chunk);
        // A chunk without keys has no row.
        let rows = self.filters();
        let Some(row) = rows.table.get(txn, &at)? else { return Ok(false) };
        let is_set = rows.rows.row(&at, row).and_then(|row| {
            let line = row.part(position.start..position.start + LINE_BYTES)?;
            let short = DecodeError { what: "filter of a run is truncated", at: row.len() };
            Ok(position.is_set(line.ok_or(short)?))
        });
        is_set.map_err(|why| RunError::Corrupt(at.to_vec(), why))
    }

    /// Removes the filter of a run.
    pub(super) fn remove_filter(
        self,
        txn: &mut RwTxn<'_>,
        id: u32,
        lines: u64,
    ) -> Result<(), RunError> {
        for chunk in 0..lines.div_ceil(CHUNK_LINES) {
            let chunk = u32::try_from(chunk).expect("runs have fewer than 2^47 keys");
            self.pages.table.delete(txn, &chunk_key(id, chunk))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;

    #[test]
    fn filter_accepts_its_keys_and_few_others() {
        let keys = 20_000u64;
        let lines = lines(keys);
        assert!(lines <= CHUNK_LINES, "one chunk");
        let mut chunk = vec![0; lines as usize * LINE_BYTES];
        let key = |number: u64| keccak256(number.to_be_bytes());
        (0..keys)
            .for_each(|number| FilterPosition::of(key(number).as_slice(), lines).set(&mut chunk));
        let holds = |number| {
            let position = FilterPosition::of(key(number).as_slice(), lines);
            position.is_set(&chunk[position.start..position.start + LINE_BYTES])
        };
        assert!((0..keys).all(holds));
        let false_positives = (keys..2 * keys).filter(|number| holds(*number)).count();
        assert!(false_positives < keys as usize / 50, "{false_positives} of {keys}");
    }

    #[test]
    fn lines_ascend_with_keys_through_every_chunk() {
        let lines = 3 * CHUNK_LINES + 7;
        let mut last = (0, 0);
        for number in 0..=255u8 {
            let position = FilterPosition::of(&[number; 16], lines);
            assert!((position.chunk, position.start) >= last);
            last = (position.chunk, position.start);
        }
        assert_eq!(last, (3, 6 * LINE_BYTES), "the last key is in the last line");
    }
}
