//! Measures the mempool with 100,000 pending transactions: the cost of inserting one more, and the
//! cost of including one in a block, from selection to removal.
//!
//! Signatures and state are not measured: the pool receives senders and accounts. Fees are random, so
//! that every ordering is used. The base fee alternates between two values, of which one is an eighth
//! higher. There are two cases: 1,000 senders with a hundred transactions each, and 100,000 senders
//! with one each. Inserting includes the lookup of the sender's account.

use alloy_consensus::{SignableTransaction, TxEip1559};
use alloy_primitives::{
    Address, B256, Bytes, KECCAK256_EMPTY, Signature, TxKind, U256, keccak256, map::HashMap,
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mempool::{BlockSpace, Limits, Mempool};
use std::{
    collections::BTreeMap,
    hint::black_box,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};
use storage::Account;
use transactions::{RecoveredTx, Transaction};

/// Pending transactions during each measurement.
const PENDING: u64 = 100_000;
/// Transactions inserted or removed in one measurement: about a block of transfers.
const BLOCK: u64 = 4_760;
/// Gas of a transfer.
const TRANSFER_GAS: u64 = 21_000;
/// The lower base fee, in wei per gas.
const BASE_FEE: u64 = 1_000_000_000;

/// Every account before its first transaction.
const NEW_ACCOUNT: Account = Account { nonce: 0, balance: U256::MAX, code_hash: KECCAK256_EMPTY };

/// Transfer number `n` of a pool with this number of senders, which are used round-robin.
fn transfer(n: u64, senders: u64) -> Arc<RecoveredTx> {
    let fees =
        u128::from(u64::from_be_bytes(keccak256(n.to_le_bytes())[..8].try_into().expect("8")));
    let priority_fee = fees % 1_000_000_000;
    let body = TxEip1559 {
        nonce: n / senders,
        // The base fee decides the rank of some, the priority fee that of the others.
        max_fee_per_gas: u128::from(BASE_FEE + BASE_FEE / 8) + (fees >> 32) % 2_000_000_000,
        max_priority_fee_per_gas: priority_fee.min(u128::from(BASE_FEE)),
        gas_limit: TRANSFER_GAS,
        to: TxKind::Call(Address::ZERO),
        ..TxEip1559::default()
    };
    let tx = Transaction::Eip1559(body.into_signed(Signature::new(U256::ONE, U256::ONE, false)));
    let raw = Bytes::from_static(&[0; 110]);
    let hash: B256 = keccak256(n.to_be_bytes());
    let sender = Address::from_word(keccak256((n % senders).to_be_bytes()));
    Arc::new(RecoveredTx {
        raw,
        tx,
        hash,
        sender,
        high_s: false,
        authorities: OnceLock::new(),
        cosmos: None,
    })
}

fn insert(
    pool: &mut Mempool,
    accounts: &HashMap<Address, Account>,
    txs: Vec<Arc<RecoveredTx>>,
    now: Instant,
) {
    for tx in txs {
        let account = accounts.get(&tx.sender).copied().unwrap_or(NEW_ACCOUNT);
        let inserted = pool.insert(tx, |_| Box::default(), &account, now);
        black_box(inserted.expect("the pool has space"));
    }
}

/// Selects the transactions of a block without removing them.
fn select(pool: &mut Mempool) -> Vec<Arc<RecoveredTx>> {
    pool.select(BlockSpace::exact(BLOCK * TRANSFER_GAS, usize::MAX)).txs
}

/// Senders and next nonces in the state changes of a block with these transactions.
fn changes(chosen: &[Arc<RecoveredTx>]) -> Vec<(Address, u64)> {
    let nonces: BTreeMap<_, _> = chosen.iter().map(|tx| (tx.sender, nonce(tx) + 1)).collect();
    nonces.into_iter().collect()
}

/// Updates the pool after a block.
fn advance(pool: &mut Mempool, base_fee: u64, changes: &[(Address, u64)], now: Instant) {
    pool.set_base_fee(base_fee);
    let accounts =
        changes.iter().map(|(sender, nonce)| (*sender, Account { nonce: *nonce, ..NEW_ACCOUNT }));
    pool.advance(accounts, now);
}

fn nonce(tx: &RecoveredTx) -> u64 {
    alloy_consensus::Transaction::nonce(&tx.tx)
}

/// A pool that holds [`PENDING`] transactions before and after each block.
struct SteadyPool {
    pool: Mempool,
    senders: u64,
    next: u64,
    /// The two base fees; that of the newest block is the first.
    base_fees: [u64; 2],
}

/// Time spent on the transactions of a block.
#[derive(Default)]
struct BlockTimes {
    insert: Duration,
    take: Duration,
}

impl SteadyPool {
    fn new(senders: u64) -> Self {
        let base_fees = [BASE_FEE, BASE_FEE + BASE_FEE / 8];
        let mut steady =
            Self { pool: Mempool::new(Limits::default(), BASE_FEE), senders, next: 0, base_fees };
        let txs = steady.fresh(PENDING);
        insert(&mut steady.pool, &HashMap::default(), txs, Instant::now());
        assert_eq!(steady.pool.level().pending as u64, PENDING);
        steady
    }

    fn fresh(&mut self, count: u64) -> Vec<Arc<RecoveredTx>> {
        let first = self.next;
        self.next += count;
        (first..self.next).map(|n| transfer(n, self.senders)).collect()
    }

    /// Inserts the transactions of a block, and removes the best transactions for a block.
    fn block(&mut self) -> BlockTimes {
        let txs = self.fresh(BLOCK);
        let account = |tx: &Arc<RecoveredTx>| {
            let lane = self.pool.lane(tx.sender);
            lane.map_or(Account { nonce: nonce(tx), ..NEW_ACCOUNT }, |lane| *lane.account())
        };
        let mut accounts = HashMap::default();
        for tx in &txs {
            accounts.entry(tx.sender).or_insert_with(|| account(tx));
        }
        let now = Instant::now();
        insert(&mut self.pool, &accounts, txs, now);
        let inserted = now.elapsed();
        let now = Instant::now();
        let chosen = select(&mut self.pool);
        let selected = now.elapsed();
        assert_eq!(chosen.len() as u64, BLOCK);
        let changes = changes(&chosen);
        drop(chosen);
        self.base_fees.reverse();
        let now = Instant::now();
        advance(&mut self.pool, self.base_fees[0], &changes, now);
        BlockTimes { insert: inserted, take: selected + now.elapsed() }
    }
}

fn mempool(c: &mut Criterion) {
    let mut group = c.benchmark_group("mempool");
    group.throughput(Throughput::Elements(BLOCK)).sample_size(20);
    for senders in [1_000, u64::MAX] {
        let shape = if senders == u64::MAX { "a_sender_each" } else { "1000_senders" };
        let mut steady = SteadyPool::new(senders);
        group.bench_function(format!("insert/{shape}"), |b| {
            b.iter_custom(|rounds| (0..rounds).map(|_| steady.block().insert).sum());
        });
        group.bench_function(format!("take/{shape}"), |b| {
            b.iter_custom(|rounds| (0..rounds).map(|_| steady.block().take).sum());
        });
        group.bench_function(format!("select/{shape}"), |b| {
            b.iter(|| select(&mut steady.pool).len());
        });
    }
    group.finish();
}

criterion_group!(benches, mempool);
criterion_main!(benches);
