//! Reads bytes as the rows of a sorted run of the index, and encodes pages from them; see
//! `storage/src/index/runs/fuzzing.rs`.
#![no_main]

use storage::fuzzing::{page, pages_of_entries, run_directory};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    page(data);
    run_directory(data);
    pages_of_entries(data);
});
