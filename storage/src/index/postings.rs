//! Postings: which blocks contain logs of an address, logs with a topic at a position, or transactions to an address.
//!
//! The key of a posting contains a short hash of the address or topic, so different addresses or topics may share a
//! key. The blocks found are only candidates, whose contents must be checked. One posting covers up to
//! [`MAX_POSTING_BLOCKS`] blocks that are flushed together.

use alloy_primitives::{Address, B256};

use crate::receipt::StoredReceipt;
use trie::primitive::{DecodeError, Input, put_varint};

/// Maximum number of blocks in one posting, so that a posting is smaller than a page.
pub(super) const MAX_POSTING_BLOCKS: usize = 256;
/// Bytes of a posting's key: subject, first block.
pub(super) const POSTING_KEY_BYTES: usize = SUBJECT_BYTES + 8;
/// Bytes of a [`PostingKey`]: kind, folded address or topic.
pub(super) const SUBJECT_BYTES: usize = 9;
/// Kind of a logging address; a topic's kind is its position plus one.
const ADDRESS_KIND: u8 = 0;
/// Maximum number of topics of a log.
const MAX_TOPICS: usize = 4;
/// Kind of the recipient of a transaction.
const CALLED_KIND: u8 = 5;

/// A key for looking up blocks: a logging address, a topic at a position, or a called address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PostingKey(pub(super) [u8; SUBJECT_BYTES]);

impl PostingKey {
    /// Returns the key for logs of this address.
    pub fn address(address: Address) -> Self {
        Self::new(ADDRESS_KIND, &address.into_word())
    }

    /// Returns the key for logs with this topic at `position`, 0 to 3.
    ///
    /// # Panics
    /// If `position` is above 3.
    pub fn topic(position: usize, topic: &B256) -> Self {
        assert!(position < MAX_TOPICS, "a log has at most four topics");
        Self::new(position as u8 + 1, topic)
    }

    /// Returns the key for transactions to this address in a block that did not change the account at the address.
    pub fn called(address: Address) -> Self {
        Self::new(CALLED_KIND, &address.into_word())
    }

    fn new(kind: u8, word: &B256) -> Self {
        let mut key = [0; SUBJECT_BYTES];
        key[0] = kind;
        // All parts of a word are folded, because addresses and small numbers are in its last bytes, and short texts
        // in its first bytes.
        let (words, _) = word.as_chunks::<8>();
        let folded = words
            .iter()
            .fold(0u64, |folded, word| folded.rotate_left(23) ^ u64::from_be_bytes(*word));
        key[1..].copy_from_slice(&folded.to_be_bytes());
        Self(key)
    }

    /// Returns the distinct keys of a block with these receipts and called addresses (see [`Self::called`]), ascending.
    pub fn of_block(
        receipts: &[StoredReceipt],
        called: impl IntoIterator<Item = Address>,
    ) -> Vec<Self> {
        let logs = receipts.iter().flat_map(|receipt| &receipt.logs);
        let mut keys: Vec<Self> = logs
            .flat_map(|log| {
                let topics = log.topics().iter().take(MAX_TOPICS).enumerate();
                let topics = topics.map(|(position, topic)| Self::topic(position, topic));
                topics.chain([Self::address(log.address)])
            })
            .chain(called.into_iter().map(Self::called))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// Returns a key in `postings`: subject, first block.
pub(super) fn posting_key(key: PostingKey, first: u64) -> [u8; POSTING_KEY_BYTES] {
    let mut out = [0; POSTING_KEY_BYTES];
    out[..SUBJECT_BYTES].copy_from_slice(&key.0);
    out[SUBJECT_BYTES..].copy_from_slice(&first.to_be_bytes());
    out
}

/// Encodes a value in `postings`: for each further block, the varint difference to the previous one.
pub(super) fn encode_posting(out: &mut Vec<u8>, blocks: &[u64]) {
    for pair in blocks.windows(2) {
        put_varint(out, pair[1] - pair[0]);
    }
}

/// Passes the blocks of a posting to `take`, in ascending order.
pub(super) fn decode_posting(
    key: &[u8],
    value: &[u8],
    mut take: impl FnMut(u64),
) -> Result<(), DecodeError> {
    let first = key.get(SUBJECT_BYTES..).and_then(|first| first.try_into().ok());
    let first = first.ok_or(DecodeError { what: "posting key is not 17 bytes", at: key.len() })?;
    let mut block = u64::from_be_bytes(first);
    take(block);
    let mut input = Input::borrowed(value);
    while input.remaining() > 0 {
        let distance = input.varint()?;
        let next = block.checked_add(distance).filter(|next| *next > block);
        block = next.ok_or_else(|| input.error("blocks of a posting must be ascending"))?;
        take(block);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postings_round_trip() {
        let key = PostingKey::address(Address::repeat_byte(7));
        let blocks = [5, 6, 300, 1 << 40];
        let mut value = Vec::new();
        encode_posting(&mut value, &blocks);
        let mut found = Vec::new();
        decode_posting(&posting_key(key, 5), &value, |block| found.push(block)).unwrap();
        assert_eq!(found, blocks);
        assert!(decode_posting(&posting_key(key, 5), &[0], |_| {}).is_err(), "no distance");
        assert!(decode_posting(&key.0, &[], |_| {}).is_err(), "no block");
    }

    #[test]
    fn different_subjects_have_different_keys() {
        let topic = Address::repeat_byte(7).into_word();
        let keys = [
            PostingKey::address(Address::repeat_byte(7)),
            PostingKey::topic(0, &topic),
            PostingKey::topic(3, &topic),
            PostingKey::topic(3, &B256::repeat_byte(8)),
            PostingKey::called(Address::repeat_byte(7)),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(keys.iter().position(|other| other == key), Some(at));
        }
    }
}
