//! Properties that hold for all bytes of a journal, for the fuzz targets (`node/fuzz`).

use super::format::{self, HEADER_BYTES, Header, Version};
use super::{Entry, Found};
use alloy_primitives::{Address, B256, Bytes, keccak256};

/// Factor between the length byte of a generated transaction and the length of the transaction in bytes.
const BYTES_PER_UNIT: usize = 3;

/// Decodes bytes as a journal file.
///
/// # Panics
/// Panics if the entries are larger than the file, or if a file written from the entries does not have the same ones.
pub fn journal_file(file: &[u8]) {
    let records = match format::version(file) {
        Version::One(records) => format::read_v1(records),
        Version::Two(header, records) => format::read_v2(&header, records),
        Version::Unknown => return,
    };
    assert!(records.valid <= file.len());
    let bytes: usize = records.entries.iter().map(|entry| entry.raw.len()).sum();
    assert!(bytes <= file.len(), "{bytes} bytes of transactions in {} bytes", file.len());
    check_written(&Header::NONE, &records.entries);
}

/// Generates a file from the bytes, and damages one part of it. A journal must lose only the damaged records.
///
/// The first two bytes are the position of the damage, the third its length, and the fourth the bits that it
/// flips. Each transaction follows as one byte, which is its length in units of [`BYTES_PER_UNIT`], and then its
/// bytes.
///
/// # Panics
/// Panics if another record is lost, or if one is found that was not written.
pub fn damaged_journal(data: &[u8]) {
    let Some((&[high, low, length, bits], rest)) = data.split_first_chunk() else { return };
    let entries = entries(rest);
    let header = header_for(data);
    check_written(&header, &entries);
    let mut file = file_of(&header, &entries);
    let records = file.len() - HEADER_BYTES;
    if records == 0 || bits == 0 {
        return;
    }
    let start = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low])) % records;
    let end = (start + usize::from(length) + 1).min(file.len());
    file[start..end].iter_mut().for_each(|byte| *byte ^= bits);
    let mut at = HEADER_BYTES;
    let undamaged: Vec<_> = entries
        .into_iter()
        .filter(|entry| {
            let begin = at;
            at += format::RECORD_HEAD_BYTES + entry.raw.len();
            at <= start || begin >= end
        })
        .collect();
    assert_eq!(entries_of(&file), undamaged);
}

/// Returns a header whose salt depends on each byte of the input, so that inputs can be reproduced. If the salt were
/// constant, the fuzzer would learn checksums from comparisons, and place a record inside a transaction, where it
/// would be found if that transaction were damaged. A client cannot do this, because it does not know the salt.
fn header_for(data: &[u8]) -> Header {
    let hash = keccak256(data);
    Header::with_salt(*hash.first_chunk().expect("a hash is longer than a salt"))
}

/// # Panics
/// Panics if a file written from these entries does not have the same ones.
fn check_written(header: &Header, entries: &[Entry]) {
    assert_eq!(entries_of(&file_of(header, entries)), entries);
}

fn file_of(header: &Header, entries: &[Entry]) -> Vec<u8> {
    let mut file = header.to_bytes();
    for entry in entries {
        header.put_entry(&mut file, entry);
    }
    file
}

fn entries_of(file: &[u8]) -> Vec<Entry> {
    match Found::in_file(file, B256::ZERO) {
        Found::Usable(_, records) => records.entries,
        Found::Other { entries, .. } => entries,
    }
}

/// Splits bytes into entries with distinct senders.
fn entries(mut bytes: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    while let Some((length, rest)) = bytes.split_first() {
        let (raw, rest) = rest.split_at(rest.len().min(usize::from(*length) * BYTES_PER_UNIT));
        let sender = Address::with_last_byte(entries.len() as u8);
        entries.push(Entry { raw: Bytes::copy_from_slice(raw), sender });
        bytes = rest;
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_hold_for_small_files() {
        journal_file(&file_of(&Header::NONE, &entries(&[1, 7, 7, 7, 0, 2, 9])));
        journal_file(b"evmdtxs\x01\0\0\0\x01");
        for at in 0..90 {
            damaged_journal(&[0, at, at % 3, 0x81, 1, 7, 7, 7, 0, 2, 1, 2, 3, 4, 5, 6]);
        }
    }

    #[test]
    fn record_in_a_damaged_transaction_is_found_only_with_its_salt() {
        // The last four bytes of the first sender are the length of an empty record. The transaction contains its
        // checksum for the salt zero, the sender, and one byte more, which is damaged.
        let transaction = [&[0x80, 0x70, 0x77, 0xe9][..], &[0; 21]].concat();
        let input = [&[0, 52, 0, 1, 9][..], &transaction].concat();
        damaged_journal(&input);

        let written = entries(&input[4..]);
        let damaged = |header: &Header| {
            let mut file = file_of(header, &written);
            *file.last_mut().expect("a file is not empty") ^= 1;
            entries_of(&file)
        };
        assert_eq!(damaged(&Header::NONE), entries(&[0]));
        assert_eq!(damaged(&header_for(&input)), []);
    }
}
