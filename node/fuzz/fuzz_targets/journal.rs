//! Reads bytes as a journal of the mempool, and generates damaged journals from them; see
//! `node/mempool/src/journal/fuzzing.rs`.
#![no_main]

use mempool::journal::fuzzing::{damaged_journal, journal_file};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    journal_file(data);
    damaged_journal(data);
});
