//! The format of the journal: a header that identifies the chain, and records.
//!
//! The header of version 2 has a salt, which every checksum covers. After a damaged record, the reader searches
//! for the next one byte by byte, in bytes that clients may have chosen. Clients do not know the salt. Without it,
//! a client could hide a record with a forged sender inside a transaction. The header of version 1 has neither the
//! salt nor the hash of block 0: its records are found only by the length of the previous one.

use super::Entry;
use alloy_primitives::{Address, B256, Bytes};
use transactions::RecoveredTx;

/// Magic bytes at the start of the file.
const MAGIC: &[u8; 7] = b"evmdtxs";
/// Length of the header of version 1: [`MAGIC`] and the version.
const HEADER_V1_BYTES: usize = MAGIC.len() + 1;
const SALT_BYTES: usize = 8;
/// Length of the header: magic, version, hash of block 0, salt.
pub(super) const HEADER_BYTES: usize = HEADER_V1_BYTES + B256::len_bytes() + SALT_BYTES;
/// Length of a record without its transaction: length of the transaction, checksum, sender.
pub(super) const RECORD_HEAD_BYTES: usize = 4 + 4 + Address::len_bytes();
/// Maximum size of a transaction in a record. A record with a greater length is damaged. The limit of the pool is
/// 128 KiB, plus the blobs of one transaction.
const MAX_TX_BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of bytes that are hashed to find records after damaged ones, which takes 1 to 2 seconds.
const MAX_SEARCH_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// The header of a file of the current version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Hash of block 0.
    pub genesis: B256,
    salt: [u8; SALT_BYTES],
}

impl Header {
    /// The header of a disabled journal.
    pub(super) const NONE: Self = Self { genesis: B256::ZERO, salt: [0; SALT_BYTES] };

    /// Creates the header of a new file.
    pub(super) fn new(genesis: B256) -> std::io::Result<Self> {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(std::io::Error::other)?;
        Ok(Self { genesis, salt })
    }

    /// Returns the header of a file with this salt.
    #[cfg(any(test, fuzzing))]
    pub(super) const fn with_salt(salt: [u8; SALT_BYTES]) -> Self {
        Self { genesis: B256::ZERO, salt }
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        [MAGIC.as_slice(), &[2], self.genesis.as_slice(), &self.salt].concat()
    }

    /// Appends a record.
    pub(super) fn put(&self, out: &mut Vec<u8>, tx: &RecoveredTx) {
        put(&self.salt, out, tx.sender, &tx.raw);
    }

    /// Appends a record of a transaction that was read from a journal.
    pub(super) fn put_entry(&self, out: &mut Vec<u8>, entry: &Entry) {
        put(&self.salt, out, entry.sender, &entry.raw);
    }
}

fn put(salt: &[u8], out: &mut Vec<u8>, sender: Address, raw: &[u8]) {
    let length = u32::try_from(raw.len()).expect("a pooled transaction is smaller than 4 GiB");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&checksum(salt, &[sender.as_slice(), raw].concat()).to_be_bytes());
    out.extend_from_slice(sender.as_slice());
    out.extend_from_slice(raw);
}

fn checksum(salt: &[u8], covered: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(salt);
    crc.update(covered);
    crc.finalize()
}

/// The meaning of the first bytes of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Version<'a> {
    /// Version 1, which does not identify the chain, with its records.
    One(&'a [u8]),
    /// The current version.
    Two(Header, &'a [u8]),
    /// Another version, or not a journal.
    Unknown,
}

/// Reads the header of a file.
pub(super) fn version(file: &[u8]) -> Version<'_> {
    match file.strip_prefix(MAGIC).and_then(<[u8]>::split_first) {
        Some((1, records)) => Version::One(records),
        Some((2, rest)) => header(rest).map_or(Version::Unknown, |(h, rest)| Version::Two(h, rest)),
        _ => Version::Unknown,
    }
}

fn header(bytes: &[u8]) -> Option<(Header, &[u8])> {
    let (genesis, rest) = bytes.split_first_chunk()?;
    let (salt, rest) = rest.split_first_chunk()?;
    Some((Header { genesis: B256::from(*genesis), salt: *salt }, rest))
}

/// Returns the length of the header of a file that begins with these bytes.
pub(super) fn header_bytes(start: &[u8]) -> usize {
    if matches!(version(start), Version::One(_)) { HEADER_V1_BYTES } else { HEADER_BYTES }
}

/// The records of a file.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub entries: Vec<Entry>,
    /// Number of bytes up to the end of the last valid record, without the header.
    pub valid: usize,
    /// Number of damaged parts; adjacent damaged records count once.
    pub damaged: usize,
}

/// Reads the records of version 1.
pub(super) fn read_v1(bytes: &[u8]) -> Records {
    read(&[], bytes, |at| {
        let length = claimed_length(bytes.get(at..)?)?;
        at.checked_add(RECORD_HEAD_BYTES)?.checked_add(length)
    })
}

/// Reads the records of the current version.
pub(super) fn read_v2(header: &Header, bytes: &[u8]) -> Records {
    let mut searched = 0;
    read(&header.salt, bytes, |at| {
        let length = bytes.get(at..).and_then(claimed_length).filter(|n| *n <= MAX_TX_BYTES);
        searched += length.map_or(1, |length| (length + RECORD_HEAD_BYTES) as u64);
        (searched <= MAX_SEARCH_BYTES).then_some(at + 1)
    })
}

/// Reads records. If a position has no valid record, `next` returns the position at which to continue, if any.
fn read(salt: &[u8], bytes: &[u8], mut next: impl FnMut(usize) -> Option<usize>) -> Records {
    let mut records = Records::default();
    let mut at = 0;
    while at + RECORD_HEAD_BYTES <= bytes.len() {
        if let Some((entry, length)) = read_one(salt, &bytes[at..]) {
            records.damaged += usize::from(at > records.valid);
            at += length;
            records.valid = at;
            records.entries.push(entry);
        } else if let Some(found) = next(at) {
            at = found;
        } else {
            break;
        }
    }
    records.damaged += usize::from(!is_cut_off(&bytes[records.valid..]));
    records
}

/// Returns whether these bytes are an incomplete write, rather than a damaged record.
fn is_cut_off(end: &[u8]) -> bool {
    let is_part = |length| length <= MAX_TX_BYTES && RECORD_HEAD_BYTES + length > end.len();
    claimed_length(end).is_none_or(is_part) || end.iter().all(|byte| *byte == 0)
}

fn claimed_length(bytes: &[u8]) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(*bytes.first_chunk()?)).ok()
}

/// Decodes the first record. Returns it with its length.
fn read_one(salt: &[u8], bytes: &[u8]) -> Option<(Entry, usize)> {
    let length = claimed_length(bytes).filter(|length| *length <= MAX_TX_BYTES)?;
    let record = bytes.get(..RECORD_HEAD_BYTES + length)?;
    let (crc, covered) = record[4..].split_first_chunk()?;
    let (sender, raw) = covered.split_at(Address::len_bytes());
    let entry = || Entry { raw: Bytes::copy_from_slice(raw), sender: Address::from_slice(sender) };
    (checksum(salt, covered) == u32::from_be_bytes(*crc)).then(|| (entry(), record.len()))
}
