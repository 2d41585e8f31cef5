//! Tests the mempool alone: compares it with a model that sorts, and checks that every reason for a rejection occurs.

mod forge;
mod model;
mod rows;

use crate::random::Random;
use alloy_primitives::{B256, U256};
use forge::{BLOB_GAS, Draft, address};
use mempool::{BlockSpace, Limits, Mempool, SLOT_BYTES, Standing};
use model::{Model, Sender};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use storage::Account;

/// Number of operations per seed.
const OPERATIONS: u32 = 100_000;
/// Number of operations between two comparisons of the whole pool.
const COMPARE_ALL_EVERY: u32 = 16;

/// Limits so low that all of them are reached often.
const TIGHT: Limits = Limits {
    price_limit: 1,
    min_tip: 0,
    price_bump: 10,
    account_slots: 3,
    global_slots: 60,
    account_queue: 4,
    global_queue: 30,
    lifetime: Duration::from_secs(100),
};

/// The pool and its model. Both receive the same operations.
struct PoolAndModel {
    pool: Mempool,
    model: Model,
    random: Random,
    now: Instant,
    ids: u64,
    /// The number of rejections for each reason, keyed by the reason's label.
    reasons: BTreeMap<String, u32>,
}

impl PoolAndModel {
    fn new(seed: u64) -> Self {
        let sender = |n| (n, Sender { nonce: 0, balance: U256::from(400_000_000_u64) });
        let senders: BTreeMap<_, _> = (1..=24).map(sender).collect();
        Self {
            pool: Mempool::new(TIGHT, 0),
            model: Model::new(TIGHT, senders),
            random: Random(seed),
            now: Instant::now(),
            ids: 1,
            reasons: BTreeMap::new(),
        }
    }

    fn account(&self, sender: u8) -> Account {
        let Sender { nonce, balance } = self.model.senders[&sender];
        Account { nonce, balance, ..Account::default() }
    }

    fn some_sender(&mut self) -> u8 {
        1 + self.random.below(24) as u8
    }

    fn some_hash(&mut self) -> Option<B256> {
        let hashes = self.model.hashes();
        let count = u64::try_from(hashes.len()).unwrap();
        (count > 0).then(|| hashes[self.random.below(count) as usize])
    }

    fn draft(&mut self) -> Draft {
        let sender = self.some_sender();
        let random = &mut self.random;
        let nonce = self.model.senders[&sender].nonce + random.below(9);
        let again = random.chance(2);
        let id = if again { self.ids - 1 - random.below(self.ids.min(40)) } else { self.ids };
        self.ids += u64::from(!again);
        Draft {
            id,
            sender,
            nonce: if random.chance(3) { nonce.saturating_sub(5) } else { nonce },
            // Few different fees, so that ties are common. A quarter of the priority fees are above the fee cap;
            // without blobs, transactions with such fees are legacy transactions.
            tip: 10 * u128::from(random.below(12)),
            cap: 20 + 10 * u128::from(random.below(15)),
            gas: 21_000 * (1 + random.below(3)),
            bytes: if random.chance(10) { SLOT_BYTES * 2 } else { 110 },
            blobs: if random.chance(20) { 1 + random.below(3) as u8 } else { 0 },
            blob_cap: 1 + u128::from(random.below(8)),
        }
    }

    fn insert(&mut self) {
        let draft = self.draft();
        let account = self.account(draft.sender);
        let from_pool = self.pool.insert(draft.tx(), |_| Box::default(), &account, self.now);
        let from_pool = from_pool.map(|standing| standing == Standing::Pending);
        if let Err(reject) = &from_pool {
            *self.reasons.entry(reject.label().to_owned()).or_default() += 1;
        }
        let from_model = self.model.insert(draft, self.now);
        assert_eq!(from_pool.map_err(|reject| reject.to_string()), from_model, "{draft:?}");
    }

    fn remove(&mut self) {
        let Some(hash) = self.some_hash() else { return };
        let removed = self.pool.remove(hash, self.now).is_some();
        assert_eq!(removed, self.model.remove(hash, self.now));
    }

    /// Mines some of the best transactions. The base fee changes, and balances and nonces may change too.
    fn block(&mut self) {
        let base_fee = 10 * self.random.below(16);
        self.pool.set_base_fee(base_fee);
        self.model.set_base_fee(base_fee);
        let space = BlockSpace::exact(21_000 * self.random.below(12), usize::MAX);
        let mined = self.pool.select(BlockSpace { blob_gas: 6 * BLOB_GAS, ..space }).txs;
        let mut changed: Vec<u8> = mined.iter().map(|tx| tx.sender[0]).collect();
        changed.push(self.some_sender());
        changed.sort_unstable();
        changed.dedup();
        let mut accounts = Vec::new();
        for sender in changed {
            let mut account = self.model.senders[&sender];
            account.nonce += mined.iter().filter(|tx| tx.sender == address(sender)).count() as u64;
            if self.random.chance(30) {
                account.balance = U256::from(1_000_000 * self.random.below(500));
            }
            if self.random.chance(3) {
                account.nonce += self.random.below(4);
            }
            accounts.push((sender, account));
        }
        self.model.advance(&accounts, self.now);
        let accounts = accounts.iter().map(|(sender, _)| (address(*sender), self.account(*sender)));
        let accounts: Vec<_> = accounts.collect();
        self.pool.advance(accounts.into_iter(), self.now);
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(self.random.below(600));
        match self.random.below(100) {
            0..=1 => self.remove(),
            2..=4 => self.block(),
            5 => {
                self.pool.expire(self.now);
                self.model.expire(self.now);
            }
            _ => self.insert(),
        }
    }

    fn compare(&mut self, whole: bool) {
        let level = self.pool.level();
        assert_eq!((level.pending, level.queued), self.model.level());
        assert_eq!(self.pool.take_dropped(), std::mem::take(&mut self.model.dropped));
        let space = if whole {
            BlockSpace { blob_gas: u64::MAX, ..BlockSpace::exact(u64::MAX, usize::MAX) }
        } else {
            let gas = 21_000 * self.random.below(8);
            let charged = [1 << 32, 1 << 31, 0][self.random.below(3) as usize];
            BlockSpace {
                gas,
                candidates_gas: 2 * gas,
                charged,
                bytes: SLOT_BYTES * 3,
                txs: usize::MAX,
                blob_gas: BLOB_GAS * self.random.below(5),
                blob_base_fee: u128::from(self.random.below(6)),
            }
        };
        let chosen: Vec<_> = self.pool.select(space).txs.iter().map(|tx| tx.hash).collect();
        let expected = self.model.select(space);
        assert_eq!(chosen, expected);
        if !whole {
            return;
        }
        let best = self.pool.best().map(|pooled| pooled.tx.hash);
        assert_eq!(best, expected.first().copied());
        assert_eq!(self.pool.len(), self.model.hashes().len());
        for hash in self.model.hashes() {
            assert!(self.pool.get(hash).is_some());
        }
        for (sender, address) in self.model.addresses() {
            let hashes = |row: Vec<(u64, Draft)>| -> Vec<_> {
                row.iter().map(|(_, tx)| tx.hash()).collect()
            };
            let [pending, queued] = self.model.rows(sender).map(hashes);
            let lane = self.pool.lane(address);
            let have = lane.map(|lane| {
                let row = lane.pending().iter().map(|p| p.tx.hash).collect::<Vec<_>>();
                (row, lane.queued().values().map(|p| p.tx.hash).collect::<Vec<_>>())
            });
            assert_eq!(have.unwrap_or_default(), (pending, queued));
        }
    }
}

#[test]
fn pool_equals_the_model_after_100_000_random_operations() {
    let seeds = if std::env::var_os("EVMD_LONG_TESTS").is_some() { 10 } else { 1 };
    for seed in 0..seeds {
        eprintln!("seed {seed}");
        let mut pair = PoolAndModel::new(seed);
        for operation in 0..OPERATIONS {
            pair.step();
            pair.compare(operation % COMPARE_ALL_EVERY == 0);
        }
        // Already known, nonce too low, insufficient funds, replacement underpriced, account limit,
        // underpriced, nonce gap when the pool is full, pool full.
        assert_eq!(pair.reasons.len(), 8, "{:?}", pair.reasons);
        assert!(pair.reasons.values().all(|times| *times > 50), "{:?}", pair.reasons);
    }
}
