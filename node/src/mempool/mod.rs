//! Transactions accepted and not yet mined: a lane per sender in nonce order, taken by effective
//! tip and then arrival.
//!
//! Owned by the ante stage alone, so it needs no lock. Knows nothing of sockets or blocks; it is
//! told what an account has on chain.

mod lane;

pub use crate::decorator::Reject;
pub use lane::{Lane, Pooled};

use crate::execution::RecoveredTx;
use alloy_consensus::Transaction;
use alloy_primitives::{Address, B256, U256, map::HashMap};
use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};
use storage::Account;

/// Most transactions pooled in all: about 300 MB at a transfer's size with its indexes.
pub const POOL_TXS_MAX: usize = 262_144;
/// Most transactions pooled for one sender, so that one cannot fill the pool.
pub const SENDER_TXS_MAX: usize = 65_536;

/// The pool.
#[derive(Debug, Default)]
pub struct Mempool {
    lanes: HashMap<Address, Lane>,
    by_hash: HashMap<B256, (Address, u64)>,
    arrivals: u64,
    /// Gas limits of all pooled transactions, summed.
    gas: u64,
}

/// How full the pool is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Transactions that can run now.
    pub pending: usize,
    /// Transactions behind a nonce gap.
    pub queued: usize,
}

impl Mempool {
    /// The sender's lane, if it has pooled anything.
    pub fn lane(&self, sender: Address) -> Option<&Lane> {
        self.lanes.get(&sender)
    }

    /// All lanes.
    pub fn lanes(&self) -> impl Iterator<Item = (&Address, &Lane)> {
        self.lanes.iter()
    }

    /// The pooled transaction with this hash.
    pub fn get(&self, hash: B256) -> Option<&Pooled> {
        let (sender, nonce) = self.by_hash.get(&hash)?;
        self.lanes.get(sender)?.txs.get(nonce)
    }

    /// Transactions in the pool.
    pub fn len(&self) -> usize {
        self.by_hash.len()
    }

    /// Nothing is pooled.
    pub fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }

    /// Gas limits of executable transactions, summed until they reach `enough`.
    pub fn gas_waiting(&self, enough: u64) -> u64 {
        if self.gas < enough {
            return self.gas; // An upper bound, and not enough: no need to look for gaps.
        }
        let mut gas = 0;
        for pooled in self.lanes.values().flat_map(Lane::executable) {
            gas += pooled.tx.tx.gas_limit();
            if gas >= enough {
                break;
            }
        }
        gas
    }

    /// Counts pending and queued transactions. Walks every lane.
    pub fn level(&self) -> Level {
        let pending = self.lanes.values().map(|lane| lane.executable().count()).sum();
        Level { pending, queued: self.len() - pending }
    }

    /// Accepts a transaction against the account's state on chain, or says why not.
    pub fn insert(&mut self, tx: Arc<RecoveredTx>, account: &Account) -> Result<(), Reject> {
        let (hash, sender, nonce) = (tx.hash, tx.sender, tx.tx.nonce());
        if self.by_hash.contains_key(&hash) {
            return Err(Reject::AlreadyKnown);
        }
        if nonce < account.nonce {
            return Err(Reject::NonceTooLow { next: account.nonce, nonce });
        }
        let gas_cost = U256::from(tx.tx.gas_limit()) * U256::from(tx.tx.max_fee_per_gas());
        let cost = gas_cost.saturating_add(tx.tx.value());
        let pooled = Pooled { tx, arrival: self.arrivals, cost };
        self.check_room(&pooled, sender, account)?;
        let lane = self.lanes.entry(sender).or_default();
        lane.nonce = account.nonce;
        lane.balance = account.balance;
        self.gas += pooled.tx.tx.gas_limit();
        if let Some(old) = lane.put(pooled) {
            self.forget(&old);
        }
        self.by_hash.insert(hash, (sender, nonce));
        self.arrivals += 1;
        Ok(())
    }

    fn check_room(&self, new: &Pooled, sender: Address, account: &Account) -> Result<(), Reject> {
        let lane = self.lanes.get(&sender);
        let old = lane.and_then(|lane| lane.txs.get(&new.tx.tx.nonce()));
        if old.is_some_and(|old| !new.outbids(old)) {
            return Err(Reject::ReplacementUnderpriced);
        }
        let others = lane.map_or(U256::ZERO, |lane| lane.cost);
        let others = others.saturating_sub(old.map_or(U256::ZERO, |old| old.cost));
        let balance = account.balance.saturating_sub(others);
        if new.cost > balance {
            return Err(Reject::InsufficientFunds { balance, cost: new.cost });
        }
        let sender_full = lane.is_some_and(|lane| lane.txs.len() >= SENDER_TXS_MAX);
        if old.is_none() && (sender_full || self.len() >= POOL_TXS_MAX) {
            return Err(Reject::PoolFull);
        }
        Ok(())
    }

    /// Takes a transaction out, whatever became of it.
    pub fn remove(&mut self, hash: B256) -> Option<Pooled> {
        let (sender, nonce) = self.by_hash.get(&hash).copied()?;
        let lane = self.lanes.get_mut(&sender).expect("an indexed transaction has a lane");
        let pooled = lane.take(nonce).expect("an indexed transaction is in its lane");
        if lane.txs.is_empty() {
            self.lanes.remove(&sender);
        }
        self.forget(&pooled);
        Some(pooled)
    }

    /// Drops a transaction that has left its lane from the index and the sum.
    fn forget(&mut self, gone: &Pooled) {
        self.by_hash.remove(&gone.tx.hash);
        self.gas -= gone.tx.tx.gas_limit();
    }

    /// Tells a sender's state after a block: stale and unaffordable transactions leave.
    pub fn advance(&mut self, sender: Address, account: &Account) {
        let Some(lane) = self.lanes.get_mut(&sender) else { return };
        lane.nonce = account.nonce;
        lane.balance = account.balance;
        let mut gone = Vec::new();
        while let Some((&nonce, _)) =
            lane.txs.first_key_value().filter(|(n, _)| **n < account.nonce)
        {
            gone.extend(lane.take(nonce));
        }
        // The latest nonces go first: they depend on the earlier ones, not the other way round.
        while lane.cost > lane.balance {
            let Some((&nonce, _)) = lane.txs.last_key_value() else { break };
            gone.extend(lane.take(nonce));
        }
        if lane.txs.is_empty() {
            self.lanes.remove(&sender);
        }
        for pooled in &gone {
            self.forget(pooled);
        }
    }

    /// Every pooled transaction with the lowest nonces first, for the journal.
    pub fn all(&self) -> impl Iterator<Item = &Pooled> {
        self.lanes.values().flat_map(|lane| lane.txs.values())
    }

    /// The best executable transactions, in the order a block should try them: highest effective
    /// tip first, earlier arrival on ties, each sender's in nonce order; until their gas limits
    /// sum to `gas` or their bytes to `bytes`.
    pub fn best(&self, base_fee: u64, gas: u64, bytes: usize) -> Vec<Arc<RecoveredTx>> {
        let mut heads = BinaryHeap::new();
        let mut lanes: Vec<_> = self.lanes.values().map(Lane::executable).collect();
        let mut waiting: Vec<Option<&Pooled>> = vec![None; lanes.len()];
        let offer = |lane: usize, pooled: &Pooled| {
            pooled.effective_tip(base_fee).map(|tip| (tip, Reverse(pooled.arrival), lane))
        };
        for (lane, txs) in lanes.iter_mut().enumerate() {
            waiting[lane] = txs.next();
            heads.extend(waiting[lane].and_then(|pooled| offer(lane, pooled)));
        }
        let (mut gas_left, mut bytes_left) = (gas, bytes);
        let mut chosen = Vec::new();
        while let Some((_, _, lane)) = heads.pop() {
            let Some(pooled) = waiting[lane] else { continue };
            let (gas, size) = (pooled.tx.tx.gas_limit(), pooled.tx.raw.len());
            if gas > gas_left || size > bytes_left {
                continue; // The lane must stay in nonce order, so it is done for this block.
            }
            gas_left -= gas;
            bytes_left -= size;
            chosen.push(Arc::clone(&pooled.tx));
            waiting[lane] = lanes[lane].next();
            heads.extend(waiting[lane].and_then(|pooled| offer(lane, pooled)));
        }
        chosen
    }
}
