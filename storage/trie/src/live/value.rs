//! Values of leaves, in the format of records.

use alloy_primitives::{B256, KECCAK256_EMPTY, U256};

use crate::Account;
use crate::{EMPTY_ROOT_HASH, PLAIN_ACCOUNT_END};

/// Maximum size of a value in bytes: the RLP of an account, with list header, nonce, balance and two hashes.
pub(super) const MAX_VALUE_BYTES: usize = 2 + 9 + 33 + 33 + 33;

/// The RLP of an account or of a storage word. For an account without storage and code, the common
/// suffix is omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value<'a> {
    pub(super) head: &'a [u8],
    /// Whether [`PLAIN_ACCOUNT_END`] follows.
    pub(super) plain: bool,
}

impl Value<'_> {
    /// Returns the length of the complete RLP.
    pub(super) const fn len(&self) -> usize {
        self.head.len() + if self.plain { PLAIN_ACCOUNT_END.len() } else { 0 }
    }

    /// Returns the storage root in the RLP of an account; `None` if the bytes are not an account.
    pub(super) fn storage_root(&self) -> Option<B256> {
        if self.plain {
            return Some(EMPTY_ROOT_HASH);
        }
        let end = self.head.len().checked_sub(66)?;
        (self.head[end] == 0xa0).then(|| B256::from_slice(&self.head[end + 1..end + 33]))
    }
}

/// A buffer for building a value without an allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueBuffer {
    bytes: [u8; MAX_VALUE_BYTES],
    length: usize,
    plain: bool,
}

impl ValueBuffer {
    const EMPTY: Self = Self { bytes: [0; MAX_VALUE_BYTES], length: 0, plain: false };

    pub(super) fn account(account: &Account, storage_root: B256) -> Self {
        let mut buffer = Self { length: 2, ..Self::EMPTY };
        buffer.put_word(&account.nonce.to_be_bytes());
        buffer.put_word(&account.balance.to_be_bytes::<32>());
        buffer.bytes[0] = 0xf8;
        // Two hashes with their length bytes follow. The payload has at most 108 bytes, and never less than 56.
        buffer.bytes[1] = (buffer.length - 2 + PLAIN_ACCOUNT_END.len()) as u8;
        buffer.plain = storage_root == EMPTY_ROOT_HASH && account.code_hash == KECCAK256_EMPTY;
        if !buffer.plain {
            buffer.put_word_bytes(storage_root.as_slice());
            buffer.put_word_bytes(account.code_hash.as_slice());
        }
        buffer
    }

    pub(super) fn word(word: U256) -> Self {
        let mut buffer = Self::EMPTY;
        buffer.put_word(&word.to_be_bytes::<32>());
        buffer
    }

    /// Creates a value from arbitrary bytes, for tests.
    #[cfg(test)]
    pub(super) fn raw(bytes: &[u8]) -> Self {
        let mut buffer = Self { length: bytes.len(), ..Self::EMPTY };
        buffer.bytes[..bytes.len()].copy_from_slice(bytes);
        buffer
    }

    /// Appends the RLP of a big-endian integer.
    fn put_word(&mut self, word: &[u8]) {
        let zeros = word.iter().take_while(|byte| **byte == 0).count();
        self.put_word_bytes(&word[zeros..]);
    }

    /// Appends the RLP of a string of at most 32 bytes.
    fn put_word_bytes(&mut self, bytes: &[u8]) {
        if !matches!(bytes, [byte] if *byte < 0x80) {
            self.bytes[self.length] = 0x80 + bytes.len() as u8;
            self.length += 1;
        }
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    pub(super) fn value(&self) -> Value<'_> {
        Value { head: &self.bytes[..self.length], plain: self.plain }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_trie::TrieAccount;

    #[test]
    fn values_equal_the_rlp_of_alloy() {
        let balances =
            [U256::ZERO, U256::from(1), U256::from(0x80), U256::from(1) << 77, U256::MAX];
        let roots = [EMPTY_ROOT_HASH, B256::repeat_byte(7)];
        for (balance, storage_root) in balances.into_iter().flat_map(|b| roots.map(|r| (b, r))) {
            for (nonce, code_hash) in [(0, KECCAK256_EMPTY), (u64::MAX, B256::ZERO)] {
                let account = Account { nonce, balance, code_hash };
                let buffer = ValueBuffer::account(&account, storage_root);
                let value = buffer.value();
                let end: &[u8] = if value.plain { &PLAIN_ACCOUNT_END } else { &[] };
                let encoded = [value.head, end].concat();
                let expected = TrieAccount::new(nonce, balance, storage_root, code_hash);
                assert_eq!(encoded, alloy_rlp::encode(expected));
                assert_eq!(encoded.len(), value.len());
                assert_eq!(value.storage_root(), Some(storage_root));
            }
            assert_eq!(ValueBuffer::word(balance).value().head, alloy_rlp::encode(balance));
        }
    }
}
