//! Measures the import end to end: from a file of blocks to durable blocks with checked roots.
//!
//! Signatures and state roots are checked, commits are durable, and the state is in LMDB (small:
//! the ten development accounts and the recipients).

use alloy_primitives::Address;
use benches::transfer;
use chain::{Genesis, block::join};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use home::Home;
use pipeline::{Mining, MiningControl, Options, Pipeline, SystemTimeSource};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use verify::Backend;

/// Transfers in the chain, spread over ten senders.
const TRANSFERS: u64 = 20_000;
/// Timestamp of genesis, in seconds.
const GENESIS_TIME: u64 = 1_700_000_000;

/// Writes a file of blocks with transfers to distinct recipients, and returns the number of blocks.
fn make_chain(folder: &Path, file: &Path) -> u64 {
    let home = Home::init(folder, &Genesis::native_dev(GENESIS_TIME)).expect("a fresh folder");
    let options = options(vec![], Some(Duration::from_millis(100)));
    let pipeline = Pipeline::start(&home, options).expect("started");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let client = pipeline.client();
    let per_sender = TRANSFERS / 10;
    for n in 0..TRANSFERS {
        let (from, nonce) = ((n / per_sender) as usize, n % per_sender);
        let to = Address::left_padding_from(&(n + 0x1000).to_be_bytes());
        runtime.block_on(client.submit(transfer(from, nonce, to))).expect("accepted");
    }
    while runtime.block_on(client.level()).expect("it is not busy").pending > 0 {
        std::thread::park_timeout(Duration::from_millis(10));
    }
    pipeline.stop();
    pipeline.join().expect("an orderly shutdown");
    let blocks = home.chain.reader().expect("a reader");
    let (head, _) = blocks.head().expect("readable").expect("a head");
    let mut bytes = Vec::new();
    for number in 1..=head {
        let (_, header) = blocks.header(number).expect("readable").expect("there");
        bytes.extend(join(&header, &blocks.body(number).expect("readable").expect("there")));
    }
    std::fs::write(file, bytes).expect("written");
    head
}

fn options(files: Vec<PathBuf>, block_time: Option<Duration>) -> Options {
    Options {
        transactions: block_time.map(|_| "127.0.0.1:0".parse().expect("an address")),
        mining: block_time.map(|time| MiningControl::new(Mining::Every(time))),
        files,
        forwarder: None,
        given_blocks: false,
        recover_workers: 1,
        backend: Backend::detect().expect("a backend"),
        certifier: None,
        clocks: SystemTimeSource::boxed,
    }
}

fn import(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("chain.rlp");
    let blocks = make_chain(&folder.path().join("maker"), &file);
    eprintln!("{TRANSFERS} transfers in {blocks} blocks; signatures, roots, fsync: all on");
    let mut group = c.benchmark_group("import");
    group.throughput(Throughput::Elements(TRANSFERS)).sample_size(10);
    group.bench_function("transfers", |b| {
        b.iter_batched(
            || {
                let home = tempfile::tempdir_in(folder.path()).expect("a temporary folder");
                let genesis = Genesis::native_dev(GENESIS_TIME);
                let home = Home::init(&home.keep(), &genesis).expect("a fresh folder");
                (home, options(vec![file.clone()], None))
            },
            |(home, options)| {
                Pipeline::start(&home, options).expect("started").join().expect("imported");
            },
            criterion::BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, import);
criterion_main!(benches);
