//! Measures the roots of a block: of the state after it, of its transactions and of its receipts.
//!
//! `cargo bench --profile release --workspace --bench seal`. State roots are those of blocks of transfers between
//! random accounts, with the trie in memory. Each transfer changes two accounts; one element of the
//! throughput is one changed account.

use alloy_primitives::{Address, Bytes, U256};
use benches::quick;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::convert::Infallible;
use storage::{
    Account, AccountChange, LiveTrie, ReceiptOutcome, StateChanges, StoredReceipt,
    trie::{EMPTY_ROOT_HASH, RecordRead, TRIE_CACHE_BYTES_DEFAULT, ordered_root},
};

/// Transfers per block.
const BLOCK: usize = 10_000;

/// No records: the whole trie is in memory.
struct NoRecords;

impl RecordRead for NoRecords {
    type Error = Infallible;

    fn record(&self, _: bool, _: &[u8]) -> Result<Option<&[u8]>, Infallible> {
        Ok(None)
    }
}

/// A deterministic generator without a dependency; its statistical quality does not matter here.
struct Random(u64);

impl Random {
    fn draw(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

fn address(index: u64) -> Address {
    Address::from_word(alloy_primitives::keccak256(index.to_be_bytes()))
}

fn change(index: u64, nonce: u64) -> AccountChange {
    let balance = U256::from(10u64).pow(U256::from(18)) + U256::from(nonce * 21_000 + index);
    let account = Some(Account { nonce, balance, ..Account::default() });
    AccountChange { address: address(index), account, wiped: false, slots: Vec::new() }
}

fn sorted(mut accounts: Vec<AccountChange>) -> StateChanges {
    accounts.sort_unstable_by_key(|change| change.address);
    accounts.dedup_by_key(|change| change.address);
    StateChanges { accounts, codes: Vec::new() }
}

fn state_roots(c: &mut Criterion) {
    let mut group = c.benchmark_group("state_root");
    for accounts in [10_000u64, 1_000_000] {
        let mut trie = LiveTrie::new(EMPTY_ROOT_HASH, TRIE_CACHE_BYTES_DEFAULT);
        for first in (0..accounts).step_by(10_000) {
            let block = sorted((first..first + 10_000).map(|index| change(index, 0)).collect());
            trie.update(&NoRecords, &block).expect("in memory");
        }
        println!("{accounts} accounts: {} MB in memory", trie.bytes() >> 20);
        let mut random = Random(1);
        let mut nonce = 0;
        let mut block = || {
            nonce += 1;
            sorted((0..2 * BLOCK).map(|_| change(random.draw() % accounts, nonce)).collect())
        };
        group.throughput(Throughput::Elements(block().accounts.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(accounts), |b| {
            b.iter_batched(
                &mut block,
                |block| trie.update(&NoRecords, &block).expect("in memory"),
                BatchSize::PerIteration,
            );
        });
        let dirty = trie.dirty();
        let begun = std::time::Instant::now();
        let checkpoint = trie.checkpoint(1);
        let (records, took) = (checkpoint.len(), begun.elapsed());
        println!(
            "checkpoint of {records} records ({dirty} marked), {} MB: {} ns per record",
            checkpoint.bytes() >> 20,
            took.as_nanos() / records as u128,
        );
    }
    group.finish();
}

fn list_roots(c: &mut Criterion) {
    let transactions: Vec<Bytes> = (0..BLOCK as u64)
        .map(|i| i.to_be_bytes().iter().cycle().take(115).copied().collect())
        .collect();
    let receipts: Vec<StoredReceipt> = (0..BLOCK as u64)
        .map(|i| StoredReceipt {
            tx_type: 2,
            outcome: ReceiptOutcome::Status(true),
            cumulative_gas_used: (i + 1) * 21_000,
            logs: Vec::new(),
        })
        .collect();
    let mut group = c.benchmark_group("list_root");
    group.throughput(Throughput::Elements(BLOCK as u64));
    group.bench_function("transactions", |b| b.iter(|| ordered_root(&transactions)));
    group.bench_function("receipts", |b| b.iter(|| evm::receipts_root(&receipts)));
    group.finish();
}

criterion_group! { name = benches; config = quick(); targets = state_roots, list_roots }
criterion_main!(benches);
