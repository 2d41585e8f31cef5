//! Keccak-256 of many messages at once.

use keccak_asm::Keccak256;

/// Keccak-256 of one message.
pub fn keccak256(message: &[u8]) -> [u8; 32] {
    Keccak256::digest(message).into()
}

/// Keccak-256 of `messages[i]` into `hashes[i]`. Any mix of lengths.
///
/// # Panics
/// If the two slices differ in length.
pub fn keccak256_batch(messages: &[&[u8]], hashes: &mut [[u8; 32]]) {
    assert_eq!(messages.len(), hashes.len(), "one hash slot a message");
    for (message, hash) in messages.iter().zip(hashes) {
        *hash = keccak256(message);
    }
}
