//! Keys of the `index` tables, and the small values that consist of numbers.

use alloy_primitives::{Address, B256, U256};

use crate::error::DecodeError;
use trie::{Nibbles, encode_path_key};

/// Bytes of a key in `storage`, and of the part before the block number in `storage_history`.
pub(super) const SLOT_KEY_BYTES: usize = 52;

/// Bytes of a key in `account_history`.
pub(super) const ACCOUNT_AT_KEY_BYTES: usize = 28;
/// Bytes of a key in `storage_history`.
pub(super) const SLOT_AT_KEY_BYTES: usize = SLOT_KEY_BYTES + 8;

/// Returns a key in `storage`: address, slot (big-endian).
pub(super) fn slot_key(address: Address, slot: U256) -> [u8; SLOT_KEY_BYTES] {
    let mut key = [0; SLOT_KEY_BYTES];
    key[..20].copy_from_slice(address.as_slice());
    key[20..].copy_from_slice(&slot.to_be_bytes::<32>());
    key
}

/// Returns a key in `account_history`: address, block number (big-endian).
pub(super) fn account_at_key(address: Address, number: u64) -> [u8; ACCOUNT_AT_KEY_BYTES] {
    let mut key = [0; ACCOUNT_AT_KEY_BYTES];
    key[..20].copy_from_slice(address.as_slice());
    key[20..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Returns a key in `storage_history`: key in `storage`, block number (big-endian).
pub(super) fn slot_at_key(slot_key: &[u8; SLOT_KEY_BYTES], number: u64) -> [u8; SLOT_AT_KEY_BYTES] {
    let mut key = [0; SLOT_AT_KEY_BYTES];
    key[..SLOT_KEY_BYTES].copy_from_slice(slot_key);
    key[SLOT_KEY_BYTES..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Returns a key in `account_trie` (no owner) or in `storage_trie` (owner first).
pub(super) fn trie_key(owner: Option<B256>, path: &Nibbles) -> Vec<u8> {
    let mut key = Vec::with_capacity(32 + 33);
    if let Some(owner) = owner {
        key.extend_from_slice(owner.as_slice());
    }
    encode_path_key(&mut key, path);
    key
}

/// Encodes the value under `flushed` in `meta`: block number (big-endian), block hash.
pub(super) fn encode_flushed(number: u64, hash: B256) -> [u8; 40] {
    let mut value = [0; 40];
    value[..8].copy_from_slice(&number.to_be_bytes());
    value[8..].copy_from_slice(hash.as_slice());
    value
}

pub(super) fn decode_flushed(value: &[u8]) -> Result<(u64, B256), DecodeError> {
    let error = DecodeError { what: "flushed block is not 40 bytes", at: value.len() };
    let (number, hash) = value.split_first_chunk::<8>().ok_or(error)?;
    let hash = <&[u8; 32]>::try_from(hash).map_err(|_| error)?;
    Ok((u64::from_be_bytes(*number), B256::from(hash)))
}

/// Decodes a value in `block_numbers`.
pub(super) fn decode_number(value: &[u8]) -> Result<u64, DecodeError> {
    value
        .try_into()
        .map(u64::from_be_bytes)
        .map_err(|_| DecodeError { what: "block number is not 8 bytes", at: value.len() })
}

/// Encodes a value in `transactions`: block number, index in the block, both big-endian.
pub(super) fn encode_location(number: u64, index: u32) -> [u8; 12] {
    let mut value = [0; 12];
    value[..8].copy_from_slice(&number.to_be_bytes());
    value[8..].copy_from_slice(&index.to_be_bytes());
    value
}

pub(super) fn decode_location(value: &[u8]) -> Result<(u64, u32), DecodeError> {
    let error = DecodeError { what: "transaction location is not 12 bytes", at: value.len() };
    let (number, index) = value.split_first_chunk::<8>().ok_or(error)?;
    let index = index.try_into().map_err(|_| error)?;
    Ok((u64::from_be_bytes(*number), u32::from_be_bytes(index)))
}
