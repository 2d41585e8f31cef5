//! Bytes are cut into messages; every backend must hash each as the scalar code does.
//!
//! The first byte of what is left says how long the next message is, times seven.
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
