//! Reads bytes as a journal of the mempool, and makes damaged journals of them; see
//! `node/mempool/src/journal/fuzzing.rs`.
#![no_main]

use mempool::journal::fuzzing::{damaged_journal, journal_file};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    journal_file(data);
    damaged_journal(data);
});
