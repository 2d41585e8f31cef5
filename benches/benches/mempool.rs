//! The mempool with 100,000 transactions pending: what one more costs, and what it costs to take
//! one into a block, from choosing it to dropping it once it is mined.
//!
//! No signatures and no state: the pool is told senders and accounts. Fees and senders are random,
//! so that every order is exercised and no cache line is the right one. Two shapes: a hundred
//! transactions of each of 1,000 senders, and one of each of 100,000.

use alloy_consensus::{SignableTransaction, TxEip1559};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, Signature, TxKind, U256, keccak256};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use node::{
    execution::{RecoveredTx, Transaction},
    mempool::{Limits, Mempool},
};
use std::{hint::black_box, sync::Arc, time::Instant};
use storage::Account;

/// Transactions pending before anything is measured.
const PENDING: u64 = 100_000;
/// Transactions inserted, or taken, in one measurement: about a block of transfers.
const BLOCK: u64 = 4_760;
/// Gas of a transfer.
const TRANSFER_GAS: u64 = 21_000;
/// Wei per gas.
const BASE_FEE: u64 = 1_000_000_000;

/// Where every account is before its first transaction.
const FRESH: Account = Account { nonce: 0, balance: U256::MAX, code_hash: KECCAK256_EMPTY };

/// Transfer number `n` of a pool with so many senders: the senders take turns.
fn transfer(n: u64, senders: u64) -> Arc<RecoveredTx> {
    let fees =
        u128::from(u64::from_be_bytes(keccak256(n.to_le_bytes())[..8].try_into().expect("8")));
    let tip = fees % 1_000_000_000;
    let body = TxEip1559 {
        nonce: n / senders,
        // The base fee decides the rank of some, the tip that of the others.
        max_fee_per_gas: u128::from(BASE_FEE) + (fees >> 32) % 2_000_000_000,
        max_priority_fee_per_gas: tip.min(u128::from(BASE_FEE)),
        gas_limit: TRANSFER_GAS,
        to: TxKind::Call(Address::ZERO),
        ..TxEip1559::default()
    };
    let tx = Transaction::Eip1559(body.into_signed(Signature::new(U256::ONE, U256::ONE, false)));
    let raw = Bytes::from_static(&[0; 110]);
    let hash: B256 = keccak256(n.to_be_bytes());
    let sender = Address::from_word(keccak256((n % senders).to_be_bytes()));
    Arc::new(RecoveredTx { raw, tx, hash, sender, high_s: false })
}

fn insert(pool: &mut Mempool, txs: &[Arc<RecoveredTx>], now: Instant) {
    for tx in txs {
        let standing = pool.insert(Arc::clone(tx), Box::default(), &FRESH, now);
        black_box(standing.expect("there is room"));
    }
}

/// Chooses a block's worth, and follows the chain after that block.
fn take(pool: &mut Mempool, now: Instant) -> usize {
    let chosen = pool.select(BLOCK * TRANSFER_GAS, usize::MAX);
    // As a block's state changes have them: each account once, as it is after the block.
    let mut nonces: Vec<_> = chosen.txs.iter().map(|tx| (tx.sender, nonce(tx) + 1)).collect();
    nonces.sort_unstable();
    nonces.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            earlier.1 = later.1;
        }
        same
    });
    pool.set_base_fee(BASE_FEE + BASE_FEE / 8);
    for (sender, nonce) in nonces {
        pool.advance(sender, &Account { nonce, ..FRESH }, now);
    }
    chosen.txs.len()
}

fn nonce(tx: &RecoveredTx) -> u64 {
    alloy_consensus::Transaction::nonce(&tx.tx)
}

fn mempool(c: &mut Criterion) {
    let now = Instant::now();
    let mut group = c.benchmark_group("mempool");
    group.throughput(Throughput::Elements(BLOCK)).sample_size(20);
    for senders in [1_000, PENDING] {
        let txs: Vec<_> = (0..PENDING).map(|n| transfer(n, senders)).collect();
        let limits = Limits { global_slots: usize::MAX / 2, ..Limits::default() };
        let mut full = Mempool::new(limits, BASE_FEE);
        insert(&mut full, &txs, now);
        assert_eq!(full.level().pending as u64, PENDING);
        let next: Vec<_> = match senders {
            PENDING => (0..BLOCK).map(|n| transfer(PENDING + n, 2 * PENDING)).collect(),
            _ => (0..BLOCK).map(|n| transfer(PENDING + n, senders)).collect(),
        };
        group.bench_function(format!("insert/{senders}_senders"), |b| {
            b.iter_batched_ref(
                || full.clone(),
                |pool| insert(pool, &next, now),
                BatchSize::PerIteration,
            );
        });
        group.bench_function(format!("select/{senders}_senders"), |b| {
            b.iter(|| full.select(BLOCK * TRANSFER_GAS, usize::MAX).txs.len());
        });
        group.bench_function(format!("take/{senders}_senders"), |b| {
            b.iter_batched_ref(
                || full.clone(),
                |pool| assert_eq!(take(pool, now) as u64, BLOCK),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, mempool);
criterion_main!(benches);
