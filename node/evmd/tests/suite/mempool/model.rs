//! A model of the pool as a plain list. It computes every result from scratch, by sorting.

use super::forge::{Draft, address};
use alloy_primitives::{B256, U256};
use mempool::{BlockSpace, Dropped, Limits, SLOT_BYTES};
use std::{
    cmp::Reverse,
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// The account of a sender on the chain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sender {
    /// Next nonce.
    pub nonce: u64,
    /// In wei.
    pub balance: U256,
}

/// The lowest priority fee cap and fee cap of consecutive transactions, and the arrival of the last that lowered them.
type Floor = (u128, u128, u64);
/// The sort key of a [`Floor`]: whether it covers the base fee, its value, and its arrival. The highest is the best.
type Rank = (bool, u128, Reverse<u64>);

/// The model of the pool.
#[derive(Clone, Debug)]
pub struct Model {
    pub limits: Limits,
    pub base_fee: u128,
    pub senders: BTreeMap<u8, Sender>,
    /// In order of arrival.
    txs: Vec<(u64, Draft)>,
    beats: BTreeMap<u8, Instant>,
    arrivals: u64,
    churn: usize,
    pub dropped: Dropped,
}

fn slots(draft: &Draft) -> usize {
    draft.bytes.div_ceil(SLOT_BYTES)
}

impl Model {
    pub fn new(limits: Limits, senders: BTreeMap<u8, Sender>) -> Self {
        Self {
            limits,
            base_fee: 0,
            senders,
            txs: Vec::new(),
            beats: BTreeMap::new(),
            arrivals: 0,
            churn: 0,
            dropped: Dropped::default(),
        }
    }

    /// A sender's transactions by nonce: executable ones, and those behind a gap.
    pub fn rows(&self, sender: u8) -> [Vec<(u64, Draft)>; 2] {
        let mut all: Vec<_> = self.txs.iter().filter(|(_, tx)| tx.sender == sender).collect();
        all.sort_by_key(|(_, tx)| tx.nonce);
        let mut next = self.senders[&sender].nonce;
        let mut rows = [Vec::new(), Vec::new()];
        for tx in all {
            let pending = tx.1.nonce == next;
            next += u64::from(pending);
            rows[usize::from(!pending)].push(*tx);
        }
        rows
    }

    pub fn level(&self) -> (usize, usize) {
        let rows = || self.senders.keys().map(|sender| self.rows(*sender));
        (rows().map(|[row, _]| row.len()).sum(), rows().map(|[_, row]| row.len()).sum())
    }

    pub fn hashes(&self) -> Vec<B256> {
        self.txs.iter().map(|(_, tx)| tx.hash()).collect()
    }

    fn floor(row: &[(u64, Draft)]) -> Option<Floor> {
        let mut floor: Option<Floor> = None;
        for (arrival, tx) in row {
            let (tip, cap) = (tx.tip.min(tx.cap), tx.cap);
            floor = match floor {
                Some((min_tip, min_cap, _)) if tip < min_tip || cap < min_cap => {
                    Some((tip.min(min_tip), cap.min(min_cap), *arrival))
                }
                Some(floor) => Some(floor),
                None => Some((tip, cap, *arrival)),
            };
        }
        floor
    }

    fn rank(&self, (tip, cap, arrival): Floor) -> Rank {
        let covers = cap >= self.base_fee;
        let fee = if covers { tip.min(cap - self.base_fee) } else { cap };
        (covers, fee, Reverse(arrival))
    }

    /// Inserts a transaction or returns the error text of the pool.
    pub fn insert(&mut self, draft: Draft, now: Instant) -> Result<bool, String> {
        let error = |text: &str| Err(text.to_owned());
        let Sender { nonce, balance } = self.senders[&draft.sender];
        if self.txs.iter().any(|(_, tx)| tx.id == draft.id) {
            return error("already known");
        }
        if draft.nonce < nonce {
            return Err(format!("nonce too low: next nonce {nonce}, tx nonce {}", draft.nonce));
        }
        let cost = draft.cost();
        let funds = "insufficient funds for gas * price + value:";
        if cost > balance {
            let over = cost - balance;
            return Err(format!("{funds} balance {balance}, tx cost {cost}, overshot {over}"));
        }
        let [pending, queued] = self.rows(draft.sender);
        let same = |tx: &&(u64, Draft)| tx.1.nonce == draft.nonce;
        let old = pending.iter().chain(&queued).find(same).copied();
        let others = pending.iter().chain(&queued).filter(|tx| !same(tx));
        let spent: U256 = others.map(|(_, tx)| tx.cost()).sum();
        if spent + cost > balance {
            let over = spent + cost - balance;
            return Err(format!(
                "{funds} balance {balance}, queued cost {spent}, tx cost {cost}, overshot {over}"
            ));
        }
        if let Some((_, old)) = old {
            let mut pairs =
                vec![(draft.cap, old.cap), (draft.tip.min(draft.cap), old.tip.min(old.cap))];
            let mut percent = 110;
            if old.blobs > 0 {
                pairs.push((if draft.blobs > 0 { draft.blob_cap } else { 0 }, old.blob_cap));
                percent = 200;
            }
            if pairs.iter().any(|(new, old)| new <= old || *new < old * percent / 100) {
                return error("replacement transaction underpriced");
            }
        } else if draft.nonce != nonce + pending.len() as u64
            && queued.len() >= self.limits.account_queue
        {
            let pooled = pending.len() + queued.len();
            return Err(format!("account limit exceeded: pooled {pooled} txs"));
        }
        let before = self.clone();
        self.txs.retain(|(_, tx)| tx.sender != draft.sender || tx.nonce != draft.nonce);
        self.txs.push((self.arrivals, draft));
        self.arrivals += 1;
        if let Err(text) = self.evict(Some(&draft)) {
            *self = before;
            return Err(text);
        }
        self.dropped.replaced += u64::from(old.is_some());
        let [_, still] = self.rows(draft.sender);
        let is_queued = still.iter().any(|(_, tx)| tx.id == draft.id);
        if is_queued || still.len() < queued.len() {
            self.beats.insert(draft.sender, now);
        }
        Ok(!is_queued)
    }

    /// The sequence of transactions that loses its last one first: whether it is within the guaranteed slots, its rank,
    /// and its sender.
    fn worst(&self, queued: bool) -> Option<(bool, Rank, u8)> {
        let rows = self.senders.keys().filter_map(|sender| {
            let row = &self.rows(*sender)[usize::from(queued)];
            let used: usize = row.iter().map(|(_, tx)| slots(tx)).sum();
            let exceeds = used > self.limits.account_slots;
            // `false` sorts first, so sequences above the guaranteed slots are shortened first.
            Self::floor(row).map(|floor| (!exceeds, self.rank(floor), *sender))
        });
        rows.min()
    }

    fn evict(&mut self, new: Option<&Draft>) -> Result<(), String> {
        let mut evicted = 0;
        loop {
            let rows: Vec<_> = self.senders.keys().map(|sender| self.rows(*sender)).collect();
            let used = |n: usize| -> usize {
                rows.iter().flat_map(|row| &row[n]).map(|(_, tx)| slots(tx)).sum()
            };
            let queued = if used(0) > self.limits.global_slots {
                false
            } else if used(1) > self.limits.global_queue {
                true
            } else {
                break;
            };
            let (guaranteed, rank, sender) = self.worst(queued).unwrap();
            let end = self.rows(sender)[usize::from(queued)].last().unwrap().1;
            if let Some(new) = new {
                self.judge(new, queued, (guaranteed, rank, sender), end.id)?;
                if sender != new.sender && self.churn + evicted >= self.max_churn() {
                    return Err("txpool is full".to_owned());
                }
            }
            self.txs.retain(|(_, tx)| tx.id != end.id);
            evicted += 1;
        }
        self.churn += if new.is_some() { evicted } else { 0 };
        self.dropped.evicted += evicted as u64;
        Ok(())
    }

    fn max_churn(&self) -> usize {
        (self.limits.global_slots + self.limits.global_queue) / 4
    }

    fn judge(
        &self,
        new: &Draft,
        queued: bool,
        (guaranteed, rank, sender): (bool, Rank, u8),
        end: u64,
    ) -> Result<(), String> {
        let rows = self.rows(new.sender);
        let row = rows.iter().find(|row| row.iter().any(|(_, tx)| tx.id == new.id)).unwrap();
        let upto = row.iter().position(|(_, tx)| tx.id == new.id).unwrap();
        let (covers, fee, _) = self.rank(Self::floor(&row[..=upto]).unwrap());
        let value = (covers, fee);
        let used = rows[usize::from(queued)].iter().map(|(_, tx)| slots(tx)).sum::<usize>();
        let refused = if sender == new.sender {
            end == new.id
        } else {
            let has_precedence = !guaranteed && used <= self.limits.account_slots;
            !has_precedence && (rank.0, rank.1) >= value
        };
        if !refused {
            return Ok(());
        }
        let cheapest = [true, false].map(|exceeds| {
            let rows = self.senders.keys().filter_map(|sender| {
                let row = &self.rows(*sender)[0];
                let used: usize = row.iter().map(|(_, tx)| slots(tx)).sum();
                let matches = (used > self.limits.account_slots) == exceeds;
                Self::floor(row).filter(|_| matches).map(|floor| self.rank(floor))
            });
            rows.min()
        });
        let future = queued && cheapest.iter().flatten().any(|rank| (rank.0, rank.1) < value);
        let text = if future {
            "future transaction tries to replace pending"
        } else {
            "transaction underpriced"
        };
        Err(text.to_owned())
    }

    /// Removes a transaction.
    pub fn remove(&mut self, hash: B256, now: Instant) -> bool {
        let Some(at) = self.txs.iter().position(|(_, tx)| tx.hash() == hash) else { return false };
        let (_, removed) = self.txs[at];
        let before = self.rows(removed.sender)[0].len();
        self.txs.remove(at);
        if self.rows(removed.sender)[0].len() + 1 < before {
            self.beats.insert(removed.sender, now);
        }
        self.evict(None).unwrap();
        true
    }

    /// Applies a block after which the senders have these accounts.
    pub fn advance(&mut self, accounts: &[(u8, Sender)], now: Instant) {
        for (sender, account) in accounts {
            self.advance_one(*sender, *account, now);
        }
        self.evict(None).unwrap();
    }

    fn advance_one(&mut self, sender: u8, account: Sender, now: Instant) {
        let queued = |model: &Self| {
            let [_, queued] = model.rows(sender);
            queued.iter().filter(|(_, tx)| tx.nonce >= account.nonce).count()
        };
        let before = queued(self);
        self.senders.insert(sender, account);
        self.txs.retain(|(_, tx)| tx.sender != sender || tx.nonce >= account.nonce);
        if queued(self) < before {
            self.beats.insert(sender, now);
        }
        loop {
            let all: Vec<_> = self.txs.iter().filter(|(_, tx)| tx.sender == sender).collect();
            let cost: U256 = all.iter().map(|(_, tx)| tx.cost()).sum();
            if cost <= account.balance {
                break;
            }
            let last = all.iter().max_by_key(|(_, tx)| tx.nonce).unwrap().1.id;
            self.txs.retain(|(_, tx)| tx.id != last);
            self.dropped.unpaid += 1;
        }
    }

    /// Sets the base fee of the next block.
    pub fn set_base_fee(&mut self, base_fee: u64) {
        self.base_fee = base_fee.into();
        self.churn = 0;
    }

    /// Drops the queued transactions of senders whose queue has not changed for longer than the lifetime.
    pub fn expire(&mut self, now: Instant) {
        let lifetime: Duration = self.limits.lifetime;
        for sender in self.senders.keys().copied().collect::<Vec<_>>() {
            let [_, queued] = self.rows(sender);
            if queued.is_empty() || now - self.beats[&sender] <= lifetime {
                continue;
            }
            self.txs.retain(|(_, tx)| queued.iter().all(|(_, old)| old.id != tx.id));
            self.dropped.expired += queued.len() as u64;
        }
    }

    /// The hashes of the transactions that fit into a block, in block order.
    pub fn select(&self, mut free: BlockSpace) -> Vec<B256> {
        let mut rows: Vec<_> =
            self.senders.keys().map(|sender| self.rows(*sender)[0].clone()).collect();
        for row in &mut rows {
            row.reverse();
        }
        let mut chosen = Vec::new();
        while free.gas >= 21_000 && free.candidates_gas >= 21_000 {
            let heads = rows.iter().enumerate().filter_map(|(n, row)| {
                let (arrival, tx) = row.last()?;
                let rank = self.rank((tx.tip.min(tx.cap), tx.cap, *arrival));
                rank.0.then_some((rank, n))
            });
            let Some((_, n)) = heads.max() else { break };
            let (_, tx) = rows[n].pop().unwrap();
            let blobs =
                tx.blob_gas() > free.blob_gas || tx.blobs > 0 && tx.blob_cap < free.blob_base_fee;
            if blobs || tx.gas > free.gas || tx.gas > free.candidates_gas || tx.bytes > free.bytes {
                rows[n].clear();
                continue;
            }
            // The charge is a share of the limit, but at least that of a transfer.
            let charge = match free.charged {
                0 => 21_000,
                part => (tx.gas / ((1 << 32) / part)).max(21_000),
            };
            free.gas = free.gas.saturating_sub(charge);
            free.candidates_gas -= tx.gas;
            free.bytes -= tx.bytes;
            free.blob_gas -= tx.blob_gas();
            chosen.push(tx.hash());
        }
        chosen
    }

    /// The addresses of all senders, for lookups.
    pub fn addresses(&self) -> impl Iterator<Item = (u8, alloy_primitives::Address)> {
        self.senders.keys().map(|sender| (*sender, address(*sender)))
    }
}
