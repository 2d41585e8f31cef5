//! Measures `eth_feeHistory` without the network, for 1,024 blocks with five percentiles and 20 with
//! three: from the columns of recent blocks, and from stored rows at the head and near genesis.
//!
//! The chain has `EVMD_BENCH_FEE_ROWS` blocks (default 200,000; a year of three-second blocks is 10
//! million). Their fee rows have 0 to 12 transactions with eight different priority fees. All other
//! parts of a block are empty, so a block takes less than [`MAX_BLOCK_BYTES`] on disk: 3 GB for 10
//! million. The folder is removed at the end. Successive queries of old blocks use different ranges.
//! Rows are read from a warm page cache if they fit.

use criterion::{Criterion, criterion_group, criterion_main};
use feehistory::{FeeColumns, FeeEntry, FeeRow, RECENT_BLOCKS, RowReader, StoredAnswer, Tip};
use std::hint::black_box;
use storage::{BlockRecord, ChainDb, ChainOptions, ChainReader, StateChanges};

/// Block counts and percentiles of the queries.
const QUERIES: [(u64, &[f64]); 2] =
    [(1024, &[10.0, 25.0, 50.0, 75.0, 90.0]), (20, &[10.0, 50.0, 90.0])];
/// Number of old ranges, which are queried one after another, and the distance between them in
/// blocks.
const OLD_RANGES: u64 = 64;
const OLD_RANGE_STEP: u64 = 1_500;
/// Blocks appended in one transaction.
const BLOCKS_PER_APPEND: u64 = 10_000;
/// Maximum bytes of a block on disk. It sets the map size, so that a benchmark cannot fill the
/// disk.
const MAX_BLOCK_BYTES: u64 = 400;

fn rows() -> u64 {
    let rows = std::env::var("EVMD_BENCH_FEE_ROWS").ok();
    rows.map_or(200_000, |rows| rows.parse().expect("EVMD_BENCH_FEE_ROWS is a number"))
}

/// A fee row like that of a real block.
fn row(number: u64) -> Vec<u8> {
    let mix = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let txs = (0..mix >> 32 & 0xf).take(12).map(|index| {
        let step = (mix >> (index * 3)) & 7;
        Tip { tip: u128::from(step + 1) * 100_000_000, gas: 21_000 + step * 1_000 }
    });
    let tips = FeeRow::distribution(txs.collect());
    let gas_used = tips.iter().map(|tip| tip.gas).sum();
    let base_fee = 1_000_000_000 + (mix >> 40);
    let next_base_fee = base_fee + 12_345;
    let row = FeeRow {
        base_fee,
        next_base_fee,
        gas_used,
        gas_limit: 30_000_000,
        tips,
        ..FeeRow::default()
    };
    row.to_bytes()
}

fn fill(chain: &ChainDb, rows: u64) {
    for start in (0..rows).step_by(BLOCKS_PER_APPEND as usize) {
        let blocks: Vec<_> = (start..rows.min(start + BLOCKS_PER_APPEND))
            .map(|number| BlockRecord {
                number,
                hash: Default::default(),
                flags: storage::BlockFlags::NONE,
                header: vec![0xc0].into(),
                body: vec![0xc0].into(),
                senders: Vec::new(),
                receipts: Vec::new(),
                changes: StateChanges::default().into(),
                fees: row(number).into(),
                module: Default::default(),
                governance: Vec::new(),
                certificate: None,
            })
            .collect();
        chain.append(&blocks).expect("appended");
    }
}

fn stored(reader: &ChainReader, first: u64, (count, percentiles): (u64, &[f64])) -> Vec<u8> {
    let mut response = StoredAnswer::new(first, first + count - 1, percentiles);
    reader
        .each_fee_row(first..=first + count - 1, |number, bytes| {
            response.push(number, &RowReader::new(bytes).expect("a row")).expect("a row");
            Ok::<(), storage::ReadError>(())
        })
        .expect("read");
    response.finish()
}

fn fee_history(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = rows();
    assert!(
        rows > OLD_RANGES * OLD_RANGE_STEP + RECENT_BLOCKS as u64,
        "EVMD_BENCH_FEE_ROWS is too small"
    );
    let options = ChainOptions { map_bytes: rows * MAX_BLOCK_BYTES };
    let chain = ChainDb::open(folder.path(), options).expect("opened");
    fill(&chain, rows);
    let columns = FeeColumns::default();
    for number in rows - RECENT_BLOCKS as u64..rows {
        let row = row(number);
        let entry = FeeEntry::new(&RowReader::new(&row).expect("a row")).expect("a row");
        columns.push(0, number, entry);
    }
    let reader = chain.reader().expect("a snapshot");
    for query in QUERIES {
        let (count, percentiles) = query;
        let first = rows - count;
        let recent = columns.answer(0, first, rows - 1, percentiles).expect("recent blocks");
        assert_eq!(recent, stored(&reader, first, query), "both responses are equal");
        let name = format!("fee_history {count}x{}", percentiles.len());
        let mut group = criterion.benchmark_group(name);
        group.bench_function("columns, tip", |bencher| {
            bencher.iter(|| columns.answer(0, black_box(first), rows - 1, percentiles));
        });
        // These percentiles were not queried before, so no part of the response is cached.
        let mut step = 0;
        group.bench_function("columns, tip, new percentiles", |bencher| {
            bencher.iter(|| {
                step += 1;
                let mut list = percentiles.to_vec();
                list[0] += f64::from(step % 1_000_000) / 1e6;
                columns.answer(0, black_box(first), rows - 1, &list)
            });
        });
        group.bench_function("stored, tip", |bencher| {
            bencher.iter(|| stored(&reader, black_box(first), query));
        });
        let mut at = (0..OLD_RANGES).cycle();
        group.bench_function("stored, old", |bencher| {
            bencher.iter(|| {
                let first = at.next().map_or(0, |at| at * OLD_RANGE_STEP);
                stored(&reader, black_box(first), query)
            });
        });
        group.finish();
    }
}

criterion_group! {
    name = group;
    config = benches::quick();
    targets = fee_history
}
criterion_main!(group);
