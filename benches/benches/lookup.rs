//! Measures the lookup of a transaction by its hash after many flushes: of one that exists, and of one
//! that does not, which is searched in every run.
//!
//! `EVMD_LOOKUP_FLUSHES` and `EVMD_LOOKUP_HASHES` (per flush) change the size.

use alloy_primitives::{B256, keccak256};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use storage::{FlushBlock, IndexDb, IndexOptions, StateChanges};

/// Flushes: 7 runs on each of three levels, the maximum for three levels.
const FLUSHES: u64 = 511;
/// Transactions per flush.
const HASHES: u64 = 4000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn hash(number: u64) -> B256 {
    keccak256(number.to_be_bytes())
}

fn fill(index: &IndexDb, flushes: u64, hashes: u64) {
    let changes = StateChanges::default();
    for number in 0..flushes {
        let tx_hashes: Vec<_> = (number * hashes..(number + 1) * hashes).map(hash).collect();
        let block = FlushBlock {
            number,
            hash: hash(number | 1 << 63),
            tx_hashes: &tx_hashes,
            posting_keys: &[],
            changes: &changes,
        };
        index.flush(&[block]).expect("flushed");
    }
}

fn bench(criterion: &mut Criterion) {
    let (flushes, hashes) =
        (setting("EVMD_LOOKUP_FLUSHES", FLUSHES), setting("EVMD_LOOKUP_HASHES", HASHES));
    let folder = tempfile::tempdir_in(benches::workload::cache_folder()).expect("a folder");
    let index = IndexDb::open(folder.path(), IndexOptions::default()).expect("opened");
    fill(&index, flushes, hashes);
    let reader = index.reader().expect("a reader");
    let mut group = criterion.benchmark_group("tx-hash");
    let count = flushes * hashes;
    // The stride has no common factor with the default count, so all hashes are looked up, in an irregular order.
    let mut next = 0;
    let mut pick = || {
        next = (next + 7_368_787) % count;
        next
    };
    group.bench_function("hit", |bencher| {
        bencher.iter(|| {
            let found = reader.tx_location(black_box(hash(pick()))).expect("readable");
            assert!(found.is_some());
        });
    });
    group.bench_function("miss", |bencher| {
        bencher.iter(|| {
            let found = reader.tx_location(black_box(hash(pick() + count))).expect("readable");
            assert!(found.is_none());
        });
    });
}

criterion_group!(name = lookup; config = benches::quick(); targets = bench);
criterion_main!(lookup);
