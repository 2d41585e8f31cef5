//! Splits bytes into messages; every backend must return the hashes of the scalar code.
//!
//! The first byte of the remaining input, times seven, is the length of the next message. The last one may be shorter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verify::{Backend, keccak256, keccak256_batch_on};

fuzz_target!(|data: &[u8]| {
    let mut messages: Vec<&[u8]> = Vec::new();
    let mut rest = data;
    while let Some((&length, tail)) = rest.split_first() {
        let (message, tail) = tail.split_at(tail.len().min(usize::from(length) * 7));
        messages.push(message);
        rest = tail;
    }
    for backend in Backend::available() {
        let mut hashes = vec![[0; 32]; messages.len()];
        keccak256_batch_on(backend, &messages, &mut hashes);
        for (message, hash) in messages.iter().zip(&hashes) {
            assert_eq!(*hash, keccak256(message), "{backend}");
        }
    }
});
