//! Keccak-256 of several messages at once.
//!
//! The default instruction set is chosen once per process, by the rules of [`Backend::detect`]. If the requested
//! backend is unknown or not supported by this processor, the scalar code is used: a hash function cannot report the
//! error, but [`Backend::detect`] does.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod sponge;

use crate::Backend;
use keccak_asm::Keccak256;
use std::{ops::Range, sync::OnceLock};

/// With fewer messages, the scalar code is faster than a vector with idle lanes.
const MIN_VECTOR_MESSAGES: usize = 2;

/// Returns the Keccak-256 of a message.
pub fn keccak256(message: &[u8]) -> [u8; 32] {
    Keccak256::digest(message).into()
}

/// Writes the Keccak-256 of `messages[i]` to `hashes[i]`. Messages may have different lengths.
///
/// # Panics
/// If the two slices differ in length.
pub fn keccak256_batch(messages: &[&[u8]], hashes: &mut [[u8; 32]]) {
    keccak256_batch_on(chosen(), messages, hashes);
}

/// Writes the Keccak-256 of the bytes `spans[i]` of one buffer to `hashes[i]`, for callers that encode messages
/// one after another, without a slice of slices.
///
/// # Panics
/// If the two slices differ in length or a span is not inside `buffer`.
pub fn keccak256_spans(buffer: &[u8], spans: &[Range<usize>], hashes: &mut [[u8; 32]]) {
    assert_eq!(spans.len(), hashes.len(), "one hash slot per message");
    hash_all(chosen(), spans.len(), |i| &buffer[spans[i].clone()], hashes);
}

/// Does the same as [`keccak256_batch`] on a given backend, for comparisons. It panics in the same cases.
pub fn keccak256_batch_on(backend: Backend, messages: &[&[u8]], hashes: &mut [[u8; 32]]) {
    assert_eq!(messages.len(), hashes.len(), "one hash slot per message");
    hash_all(backend, messages.len(), |i| messages[i], hashes);
}

/// Returns the default backend of this process.
fn chosen() -> Backend {
    static CHOSEN: OnceLock<Backend> = OnceLock::new();
    *CHOSEN.get_or_init(|| Backend::detect().unwrap_or(Backend::Scalar))
}

/// Writes the Keccak-256 of the `count` messages that `message` returns into `hashes`, whose length must be
/// `count`.
pub(crate) fn hash_all<'a>(
    backend: Backend,
    count: usize,
    message: impl Fn(usize) -> &'a [u8],
    hashes: &mut [[u8; 32]],
) {
    let backend = if count < MIN_VECTOR_MESSAGES { Backend::Scalar } else { backend };
    match backend {
        Backend::Scalar => {
            for (i, hash) in hashes.iter_mut().enumerate() {
                *hash = keccak256(message(i));
            }
        }
        #[cfg(target_arch = "x86_64")]
        Backend::Avx2(processor) => avx2::hash_all(processor, count, message, hashes),
        #[cfg(target_arch = "x86_64")]
        Backend::Ifma(processor) => avx512::hash_all(processor, count, message, hashes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(length: usize, seed: usize) -> Vec<u8> {
        (0..length).map(|i| (i * 31 + seed * 97 + (i >> 8)) as u8).collect()
    }

    fn check(backend: Backend, messages: &[&[u8]]) {
        let mut hashes = vec![[0xaa; 32]; messages.len()];
        keccak256_batch_on(backend, messages, &mut hashes);
        for (message, hash) in messages.iter().zip(&hashes) {
            assert_eq!(*hash, keccak256(message), "{backend}, {} bytes", message.len());
        }
    }

    #[test]
    fn empty_message_has_the_known_hash() {
        let empty = [
            0xc5, 0xd2, 0x46, 0x01, 0x86, 0xf7, 0x23, 0x3c, 0x92, 0x7e, 0x7d, 0xb2, 0xdc, 0xc7,
            0x03, 0xc0, 0xe5, 0x00, 0xb6, 0x53, 0xca, 0x82, 0x27, 0x3b, 0x7b, 0xfa, 0xd8, 0x04,
            0x5d, 0x85, 0xa4, 0x70,
        ];
        for backend in Backend::available() {
            let mut hashes = [[0; 32]; 3];
            keccak256_batch_on(backend, &[b"", b"", b""], &mut hashes);
            assert_eq!(hashes, [empty; 3], "{backend}");
        }
    }

    #[test]
    fn messages_of_every_length_hash_like_the_scalar_code() {
        let messages: Vec<_> = (0..=1200).map(|length| pattern(length, length)).collect();
        let slices: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        for backend in Backend::available() {
            println!("keccak backend tested: {backend}");
            check(backend, &slices);
            // Neighbouring lanes have very different lengths, and messages are not aligned.
            let mut mixed: Vec<&[u8]> = Vec::new();
            for i in 0..=1200 {
                mixed.push(
                    &slices[i * 577 % 1201]
                        [usize::from(i % 3 == 0 && i > 0).min(slices[i * 577 % 1201].len())..],
                );
            }
            check(backend, &mixed);
            for length in [0, 1, 135, 136, 137, 271, 272, 532] {
                check(backend, &[slices[length]; 19]);
            }
        }
    }

    #[test]
    fn batches_of_every_length_hash_like_the_scalar_code() {
        let messages: Vec<_> = (0..40).map(|i| pattern(i * 29, i)).collect();
        let slices: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        for backend in Backend::available() {
            for length in 0..=slices.len() {
                check(backend, &slices[..length]);
            }
        }
    }

    #[test]
    fn spans_hash_like_separate_messages() {
        let buffer = pattern(5000, 1);
        let spans: Vec<_> = (0..60).map(|i| i * 7..i * 7 + i * 71 % 600).collect();
        let mut hashes = vec![[0; 32]; spans.len()];
        keccak256_spans(&buffer, &spans, &mut hashes);
        for (span, hash) in spans.iter().zip(&hashes) {
            assert_eq!(*hash, keccak256(&buffer[span.clone()]));
        }
    }
}
