//! `eth_feeHistory` without the wire: the answer for 1,024 blocks and five percentiles from the
//! columns of recent blocks, and from stored rows at the tip and a year before it.
//!
//! A chain of `EVMD_BENCH_FEE_ROWS` blocks (default 200,000; a year of three-second blocks is 10
//! million) with rows of 0 to 12 transactions of eight different tips and little else. Reading is
//! from a warm page cache where the rows fit.

use criterion::{Criterion, criterion_group, criterion_main};
use node::feehistory::{FeeColumns, FeeEntry, FeeRow, RowReader, StoredAnswer, Tip};
use std::hint::black_box;
use storage::{BlockRecord, ChainDb, ChainOptions, ChainReader, StateChanges};

/// Blocks of a question, and percentiles.
const COUNT: u64 = 1024;
const PERCENTILES: [f64; 5] = [10.0, 25.0, 50.0, 75.0, 90.0];
/// Blocks appended in one transaction.
const GROUP: u64 = 10_000;

fn rows() -> u64 {
    let rows = std::env::var("EVMD_BENCH_FEE_ROWS").ok();
    rows.map_or(200_000, |rows| rows.parse().expect("EVMD_BENCH_FEE_ROWS is a number"))
}

/// A row that looks like a block's.
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
    alloy_rlp::encode(FeeRow {
        base_fee,
        next_base_fee,
        gas_used,
        gas_limit: 30_000_000,
        tips,
        ..FeeRow::default()
    })
}

fn fill(chain: &ChainDb, rows: u64) {
    for start in (0..rows).step_by(GROUP as usize) {
        let blocks: Vec<_> = (start..rows.min(start + GROUP))
            .map(|number| BlockRecord {
                number,
                hash: Default::default(),
                header: vec![0xc0].into(),
                body: vec![0xc0].into(),
                senders: Vec::new(),
                receipts: Vec::new(),
                changes: StateChanges::default().into(),
                fees: row(number).into(),
                module: Default::default(),
            })
            .collect();
        chain.append(&blocks).expect("appended");
    }
}

fn stored(reader: &ChainReader, first: u64) -> Vec<u8> {
    let mut answer = StoredAnswer::new(COUNT as usize, &PERCENTILES);
    reader
        .each_fee_row(first..=first + COUNT - 1, |_, bytes| {
            answer.push(&RowReader::new(bytes).expect("a row"));
            Ok::<(), storage::ReadError>(())
        })
        .expect("read");
    answer.finish(first)
}

fn fee_history(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ChainOptions { map_bytes: 1 << 36 };
    let chain = ChainDb::open(folder.path(), options).expect("opened");
    let rows = rows();
    fill(&chain, rows);
    let columns = FeeColumns::default();
    for number in rows - 4096..rows {
        columns.push(number, FeeEntry::new(&RowReader::new(&row(number)).expect("a row")));
    }
    let reader = chain.reader().expect("a snapshot");
    let (tip, old) = (rows - COUNT, 1_000);
    let held = columns.answer(tip, rows - 1, &PERCENTILES).expect("held");
    assert_eq!(held, stored(&reader, tip), "both are the same answer");
    let mut group = criterion.benchmark_group("fee_history_1024x5");
    group.bench_function("columns", |bencher| {
        bencher.iter(|| columns.answer(black_box(tip), rows - 1, &PERCENTILES));
    });
    group.bench_function("stored, tip", |bencher| bencher.iter(|| stored(&reader, black_box(tip))));
    group.bench_function("stored, old", |bencher| bencher.iter(|| stored(&reader, black_box(old))));
    group.finish();
}

criterion_group! {
    name = group;
    config = benches::quick();
    targets = fee_history
}
criterion_main!(group);
