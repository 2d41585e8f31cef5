//! Generates values for property tests, and checks codecs with them. The tests of `storage` include this file as
//! well.

use super::{Account, DecodeError};
use alloy_primitives::{B256, Bytes, KECCAK256_EMPTY, U256};
use proptest::{collection::vec, prelude::*};
use std::fmt::Debug;

pub(super) fn b256() -> impl Strategy<Value = B256> {
    any::<[u8; 32]>().prop_map(B256::new)
}

/// Generates words of every length, short ones as often as long ones.
pub(super) fn word() -> impl Strategy<Value = U256> {
    (any::<[u8; 32]>(), 0..=256usize).prop_map(|(bytes, shift)| {
        U256::from_be_bytes(bytes).checked_shr(shift).unwrap_or_default()
    })
}

pub(super) fn varint() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64u32).prop_map(|(value, shift)| value >> shift)
}

pub(super) fn bytes(length: std::ops::Range<usize>) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), length).prop_map(Bytes::from)
}

pub(super) fn account() -> impl Strategy<Value = Account> {
    let code_hash = prop_oneof![Just(KECCAK256_EMPTY), b256()];
    (varint(), word(), code_hash).prop_map(|(nonce, balance, code_hash)| Account {
        nonce,
        balance,
        code_hash,
    })
}

pub(super) fn encoded<T: ?Sized>(encode: impl Fn(&mut Vec<u8>, &T), value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, value);
    out
}

/// Checks that the value round-trips, that every shorter string is rejected, and that a string with a changed
/// byte is either rejected or the only encoding of another value.
pub(super) fn check<T: PartialEq + Debug>(
    value: &T,
    encode: impl Fn(&mut Vec<u8>, &T),
    decode: impl Fn(&[u8]) -> Result<T, DecodeError>,
    (at, flip): (prop::sample::Index, u8),
) -> Result<(), TestCaseError> {
    let bytes = encoded(&encode, value);
    prop_assert_eq!(&decode(&bytes).unwrap(), value);
    for length in 0..bytes.len() {
        prop_assert!(decode(&bytes[..length]).is_err(), "cut to {} of {}", length, bytes.len());
    }
    let mut damaged = bytes;
    let at = at.index(damaged.len());
    damaged[at] ^= flip;
    if let Ok(other) = decode(&damaged) {
        prop_assert_eq!(encoded(&encode, &other), damaged);
    }
    Ok(())
}

/// Generates the position of a byte to damage, and how to change it.
pub(super) fn damage() -> impl Strategy<Value = (prop::sample::Index, u8)> {
    (any::<prop::sample::Index>(), 1..=255u8)
}
