//! Measures the work of the recover stage per batch, from raw transactions to senders, on one thread.
//!
//! `cargo bench --profile release --workspace --bench recover_stage`. Each iteration decodes and hashes a batch and
//! recovers its senders. Every backend is compared with alloy and libsecp256k1, which recover one transaction at
//! a time.

use alloy_primitives::{Address, Bytes, keccak256};
use benches::signatures;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use transactions::{DecodedTx, Senders};
use verify::{Backend, Recoverer};

/// Transactions per batch, as under load.
const BATCH: usize = 256;
/// Number of transactions in each workload. Those of mainnet are repeated.
const TRANSACTIONS: usize = 2_048;
/// Transactions of mainnet blocks, of types 0 to 3, with and without call data.
const MAINNET: &str = include_str!("../../verify/tests/data/mainnet.txt");

fn mainnet() -> Vec<Bytes> {
    let lines = MAINNET.lines().filter(|line| !line.starts_with('#'));
    let raw = lines.map(|line| line.split(' ').nth(2).expect("a column").parse().expect("hex"));
    raw.collect::<Vec<Bytes>>().into_iter().cycle().take(TRANSACTIONS).collect()
}

fn one_by_one(raw: &Bytes) -> Address {
    let tx = DecodedTx::decode_hashed(raw.clone(), keccak256(raw)).expect("well-formed");
    let public_key = signatures::libsecp256k1(&tx.job());
    Address::from_raw_public_key(&public_key[1..])
}

fn senders(c: &mut Criterion) {
    for (name, raw) in [("transfers", benches::transfers(TRANSACTIONS)), ("mainnet", mainnet())] {
        let mut group = c.benchmark_group(format!("recover-stage/{name}"));
        group.throughput(Throughput::Elements(BATCH as u64));
        let mut batches = raw.chunks(BATCH).cycle();
        group.bench_function("alloy+libsecp256k1", |b| {
            b.iter(|| {
                let batch = batches.next().expect("never ends");
                batch.iter().for_each(|raw| {
                    black_box(one_by_one(raw));
                });
            });
        });
        for backend in Backend::available() {
            verify::ensure_self_tested(backend).expect("the backend has right results");
            let mut senders = Senders::new(Recoverer::new(backend));
            group.bench_function(BenchmarkId::from_parameter(backend), |b| {
                b.iter(|| {
                    let batch = batches.next().expect("never ends");
                    senders.recover(batch).for_each(|tx| {
                        black_box(tx.expect("signed"));
                    });
                });
            });
        }
        group.finish();
    }
}

criterion_group! { name = benches; config = benches::quick(); targets = senders }
criterion_main!(benches);
