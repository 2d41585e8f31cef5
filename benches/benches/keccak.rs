//! Measures Keccak-256 of many messages, with every backend on the same input.
//!
//! `cargo bench --profile release --workspace --bench keccak`. The scalar backend is the `keccak-asm` crate.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use verify::{Backend, keccak256_batch_on};

/// Messages per batch.
const BATCH: usize = 256;

fn lengths(c: &mut Criterion) {
    // A public key, a transaction, a full branch node of a state trie, and a mix of these and other lengths.
    let workloads: [(&str, &[usize]); 4] =
        [("64", &[64]), ("110", &[110]), ("532", &[532]), ("mixed", &[64, 110, 532, 180, 33])];
    for (name, lengths) in workloads {
        let messages: Vec<Vec<u8>> =
            (0..BATCH).map(|i| vec![i as u8; lengths[i % lengths.len()]]).collect();
        let slices: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        let mut hashes = vec![[0; 32]; BATCH];
        let mut group = c.benchmark_group(format!("keccak/{name}"));
        group.throughput(Throughput::Elements(BATCH as u64));
        for backend in Backend::available() {
            verify::ensure_self_tested(backend).expect("the backend has right results");
            group.bench_function(BenchmarkId::from_parameter(backend), |b| {
                b.iter(|| keccak256_batch_on(backend, black_box(&slices), &mut hashes));
            });
        }
        group.finish();
    }
}

criterion_group! { name = benches; config = benches::quick(); targets = lengths }
criterion_main!(benches);
