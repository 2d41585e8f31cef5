//! The elements of all on-disk layouts: integers, and byte strings with a fixed length or a length prefix.

use alloy_primitives::{Address, B256, Bytes, U256};

/// Maximum size of a LEB128 `u64` in bytes.
const MAX_VARINT_BYTES: usize = 10;

/// Why stored bytes could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct DecodeError {
    /// Description of the fault.
    pub what: &'static str,
    /// Offset from the start of the value.
    pub at: usize,
}

/// The remaining bytes of a value that is being decoded. Methods fail if the value is truncated or not canonical.
#[derive(Debug)]
pub struct Input<'a> {
    whole: &'a [u8],
    /// The buffer that contains `whole`, if byte strings may share it instead of being copied.
    owner: Option<&'a Bytes>,
    at: usize,
}

impl<'a> Input<'a> {
    /// Starts decoding a value whose byte strings will share its buffer.
    pub fn shared(owner: &'a Bytes) -> Self {
        Self { whole: owner, owner: Some(owner), at: 0 }
    }

    /// Starts decoding a value whose byte strings will be copied.
    pub fn borrowed(whole: &'a [u8]) -> Self {
        Self { whole, owner: None, at: 0 }
    }

    /// Creates an error at the current position.
    #[inline]
    pub fn error(&self, what: &'static str) -> DecodeError {
        DecodeError { what, at: self.at }
    }

    /// Returns the number of remaining bytes.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.whole.len() - self.at
    }

    /// Reads the next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        if count > self.remaining() {
            return Err(self.error("value is truncated"));
        }
        let start = self.at;
        self.at += count;
        Ok(&self.whole[start..self.at])
    }

    /// Reads the next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// Reads the next byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads the next 32 bytes.
    #[inline]
    pub fn b256(&mut self) -> Result<B256, DecodeError> {
        Ok(B256::new(self.array()?))
    }

    /// Reads the next 20 bytes.
    #[inline]
    pub fn address(&mut self) -> Result<Address, DecodeError> {
        Ok(Address::new(self.array()?))
    }

    /// Reads a LEB128 integer in its shortest form.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for index in 0..MAX_VARINT_BYTES {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if index == MAX_VARINT_BYTES - 1 && bits > 1 {
                return Err(self.error("integer above 64 bits"));
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                if byte == 0 && index > 0 {
                    return Err(self.error("integer with a superfluous byte"));
                }
                return Ok(value);
            }
        }
        Err(self.error("integer without an end"))
    }

    /// Reads the number of items in a list. Each item must occupy at least `min_item_bytes` bytes.
    pub fn count(&mut self, min_item_bytes: usize) -> Result<usize, DecodeError> {
        let count = self.varint()?;
        let max_count = self.remaining() / min_item_bytes.max(1);
        usize::try_from(count)
            .ok()
            .filter(|&count| count <= max_count)
            .ok_or_else(|| self.error("count exceeds the size of the value"))
    }

    /// Reads a byte string with a varint length prefix.
    pub fn counted_bytes(&mut self) -> Result<Bytes, DecodeError> {
        let count = self.count(1)?;
        self.bytes(count)
    }

    /// Reads the next `count` bytes, shared or copied.
    pub fn bytes(&mut self, count: usize) -> Result<Bytes, DecodeError> {
        let taken = self.take(count)?;
        Ok(self.owner.map_or_else(
            || Bytes::copy_from_slice(taken),
            |owner| owner.slice(self.at - count..self.at),
        ))
    }

    /// Reads a word of `count` big-endian bytes without leading zeros.
    pub fn word_of(&mut self, count: usize) -> Result<U256, DecodeError> {
        if count > 32 {
            return Err(self.error("word above 32 bytes"));
        }
        let bytes = self.take(count)?;
        if bytes.first() == Some(&0) {
            return Err(self.error("word with a leading zero"));
        }
        Ok(U256::from_be_slice(bytes))
    }

    /// Reads a length byte, and a word of this length.
    pub fn counted_word(&mut self) -> Result<U256, DecodeError> {
        let count = usize::from(self.byte()?);
        self.word_of(count)
    }

    /// Fails if bytes remain.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.remaining() == 0 { Ok(()) } else { Err(self.error("bytes after the value")) }
    }
}

/// Appends a LEB128 integer.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the number of items in a list.
#[inline]
pub fn put_count(out: &mut Vec<u8>, count: usize) {
    put_varint(out, count as u64);
}

/// Appends the length of a byte string, and its bytes.
#[inline]
pub fn put_counted_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends the big-endian bytes of a word without leading zeros. Zero has no bytes.
pub fn put_word(out: &mut Vec<u8>, word: U256) {
    out.extend_from_slice(&word.to_be_bytes::<32>()[32 - word.byte_len()..]);
}

/// Appends a length byte, and the bytes of a word without leading zeros.
#[inline]
pub fn put_counted_word(out: &mut Vec<u8>, word: U256) {
    out.push(word.byte_len() as u8);
    put_word(out, word);
}
