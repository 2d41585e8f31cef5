//! The mempool stores accepted transactions that are not yet included in a block. Each sender has one lane, which
//! is sorted by nonce. The pool selects transactions for a block by effective priority fee and then by arrival.
//!
//! A lane's transactions are *pending* as long as their nonces follow the account's without a gap, and *queued*
//! after the gap. The pool keeps its lanes in several orders: for blocks, by the offer of the first pending
//! transaction; and for evictions when the pool is full, by the lowest offer among the pending transactions (a *row*)
//! and by the lowest among the queued ones. With n lanes, a change costs O(log n), a new base fee costs nothing (see
//! `order`), and a block costs O(log n) for each transaction in it. When the pool becomes full, it walks all lanes to
//! list the ends of pending rows, and maintains this list until an eighth of the pending slots is free. This walk
//! happens at most once per block.
//!
//! If many senders have few transactions each, cache misses take most of the time, so a lane stores its first
//! transaction together with its sort keys.
//!
//! The pool needs no lock, because the ante stage owns it. It does not access sockets, blocks or clocks: on-chain
//! accounts, the base fee and the time are arguments.

mod admit;
mod arrival;
mod bands;
mod evict;
pub mod journal;
mod lane;
mod limits;
mod order;
mod row;
mod select;

pub use admit::Standing;
pub use arrival::{Arrival, Submitter};
pub use bands::PriceBand;
pub use lane::{Lane, Pooled};
pub use limits::{Limits, SLOT_BYTES};
pub use modules::decorator::Reject;
pub use order::{Offer, Worth};
pub use row::Row;
pub use select::{BlockSpace, Selection};

use alloy_primitives::{
    Address, B256,
    map::{AddressMap, B256Map, Entry, FbBuildHasher},
};
use lane::{Listed, Load};
use order::{Best, Worst};
use platform::table::Table;
use std::{mem, time::Instant};
use storage::{Account, prefetch};

/// A lane's first transaction is prefetched this many lanes before the lane is changed; the lane itself, twice as many.
const LANES_AHEAD: usize = 4;
/// Number of accounts between the prefetch of an account's index position and its lookup.
const ACCOUNTS_AHEAD: usize = 16;
/// Maximum number of lanes that are looked up before they are changed, so that the results stay in the L1 cache.
const SENDERS_AT_ONCE: usize = 256;
/// Number of transactions removed from lanes before they are removed from the indexes, for the same reason.
const REMOVED_AT_ONCE: usize = 64;

/// The pool.
#[derive(Clone, Debug, Default)]
pub struct Mempool {
    limits: Limits,
    /// The base fee of the next block, in wei per gas.
    base_fee: u128,
    /// Lanes by number. Empty ones are free for reuse.
    lanes: Vec<Lane>,
    free: Vec<u32>,
    by_sender: Table<Address, u32, FbBuildHasher<20>>,
    by_hash: B256Map<(u32, u64)>,
    /// Number of pooled set-code transactions that delegate an account, by account (EIP-7702).
    authorities: AddressMap<u32>,
    arrivals: u64,
    /// First pending transactions, for producing blocks.
    heads: Best,
    /// Ends of pending rows within an account's guarantee; maintained while `pressed`.
    tails: Worst,
    /// Ends of longer rows; maintained while `pressed`.
    spare_tails: Worst,
    /// Whether the pool has been full, and is still nearly full.
    pressed: bool,
    /// Ends of queues within an account's guarantee.
    queues: Worst,
    /// Ends of longer queues. They are evicted before those in `queues`, whatever they offer.
    spare_queues: Worst,
    /// The sums over all lanes.
    load: Load,
    /// Size of all raw transactions in bytes.
    bytes: u64,
    /// Number of transactions evicted for new ones since the last block.
    churn: usize,
    dropped: Dropped,
    /// Transactions that are leaving a lane; empty between calls.
    removed: Vec<Pooled>,
    /// Offers that were the first of their lanes before a block, to be removed from `heads`; empty between calls.
    departed: Vec<(Offer, u32)>,
}

/// The fill level of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Number of pending transactions.
    pub pending: usize,
    /// Number of transactions behind a nonce gap.
    pub queued: usize,
    /// Whether the next block would include a transaction, because a fee cap covers the base fee.
    pub payable: bool,
    /// Size of all raw transactions in bytes.
    pub bytes: u64,
    /// The base fee of the next block, in wei per gas.
    pub base_fee: u128,
}

/// Numbers of accepted transactions that left the pool without being included in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Replaced by a transaction with the same nonce and a higher price.
    pub replaced: u64,
    /// Evicted because the pool was full.
    pub evicted: u64,
    /// Queued behind a gap for too long.
    pub expired: u64,
    /// No longer covered by the balance.
    pub unpaid: u64,
}

impl Mempool {
    /// Creates an empty pool for a next block with this base fee.
    pub fn new(limits: Limits, base_fee: u64) -> Self {
        let by_sender = Table::sparse();
        let mut pool = Self { limits, by_sender, ..Self::default() };
        pool.set_base_fee(base_fee);
        pool
    }

    /// Returns the lane of a sender, or `None` if the sender has no pooled transactions.
    pub fn lane(&self, sender: Address) -> Option<&Lane> {
        self.by_sender.get(&sender).map(|lane| self.at(*lane))
    }

    /// Returns the senders of all pooled transactions, in any order.
    pub fn senders(&self) -> impl Iterator<Item = Address> {
        self.lanes().map(Lane::sender)
    }

    /// Returns all lanes, in any order.
    pub fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().filter(|lane| !lane.is_empty())
    }

    fn at(&self, lane: u32) -> &Lane {
        &self.lanes[lane as usize]
    }

    /// Returns the pooled transaction with this hash.
    pub fn get(&self, hash: B256) -> Option<&Pooled> {
        let (lane, nonce) = self.by_hash.get(&hash)?;
        self.at(*lane).get(*nonce)
    }

    /// Returns the transaction that a block would include first, if its fee cap covers the base fee.
    pub fn best(&mut self) -> Option<&Pooled> {
        let best = self.heads.first().filter(order::Rank::covers)?;
        self.at(best.lane).pending().front()
    }

    /// Returns the number of transactions in the pool.
    pub fn len(&self) -> usize {
        self.by_hash.len()
    }

    /// Returns whether the pool is empty.
    pub fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }

    /// Returns the size of all raw transactions in bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the sum of the gas limits of all pending transactions, including those below the base fee.
    pub fn pending_gas(&self) -> u64 {
        u64::try_from(self.load.pending_gas).unwrap_or(u64::MAX)
    }

    /// Returns the fill level.
    pub fn level(&mut self) -> Level {
        let payable = self.best().is_some();
        let Load { pending, queued, .. } = self.load;
        Level { pending, queued, payable, bytes: self.bytes, base_fee: self.base_fee }
    }

    /// Returns and resets the counts of dropped transactions.
    pub const fn take_dropped(&mut self) -> Dropped {
        mem::replace(&mut self.dropped, Dropped { replaced: 0, evicted: 0, expired: 0, unpaid: 0 })
    }

    /// Sets the base fee of the next block, in wei per gas, after a block.
    pub fn set_base_fee(&mut self, base_fee: u64) {
        self.base_fee = u128::from(base_fee);
        self.heads.set_base_fee(self.base_fee);
        self.churn = 0;
        self.release();
    }

    /// Removes a transaction. If it was pending, later ones of its sender move behind a gap.
    pub fn remove(&mut self, hash: B256, now: Instant) -> Option<Pooled> {
        let (lane, nonce) = self.by_hash.get(&hash).copied()?;
        let pooled = self.change(lane, |lane| lane.take(nonce, now));
        let pooled = pooled.expect("an indexed transaction is in its lane");
        self.forget(&pooled);
        self.evict();
        Some(pooled)
    }

    /// Updates the accounts that a block changed; each occurs once. Removes transactions with used nonces and those
    /// that a sender can no longer pay for, the highest nonces first. Moves up transactions whose gap is closed.
    pub fn advance(
        &mut self,
        mut accounts: impl Iterator<Item = (Address, Account)> + Clone,
        now: Instant,
    ) {
        let mut lanes: Vec<(u32, Account)> = Vec::with_capacity(SENDERS_AT_ONCE);
        let mut ahead = accounts.clone().skip(ACCOUNTS_AHEAD);
        let mut near = accounts.clone().skip(ACCOUNTS_AHEAD / 2);
        loop {
            let by_sender = &self.by_sender;
            let lane = |(sender, account)| {
                ahead.next().into_iter().for_each(|(sender, _)| by_sender.prefetch(&sender));
                near.next().into_iter().for_each(|(sender, _)| by_sender.prefetch_next(&sender));
                let lane = *by_sender.get(&sender)?;
                by_sender.prefetch_removal(&sender);
                Some((lane, account))
            };
            lanes.extend(accounts.by_ref().filter_map(lane).take(SENDERS_AT_ONCE));
            if lanes.is_empty() {
                break;
            }
            self.advance_lanes(&lanes, now);
            lanes.clear();
        }
        self.heads.remove_all(&mut self.departed);
        self.evict();
    }

    /// Updates these lanes. The caller removes `departed` from the order and evicts.
    fn advance_lanes(&mut self, lanes: &[(u32, Account)], now: Instant) {
        let mut removed = mem::take(&mut self.removed);
        for (at, (lane, account)) in lanes.iter().enumerate() {
            if let Some((ahead, _)) = lanes.get(at + 2 * LANES_AHEAD) {
                prefetch(&self.lanes[*ahead as usize]);
            }
            if let Some((ahead, _)) = lanes.get(at + LANES_AHEAD) {
                self.at(*ahead).pending().front().into_iter().for_each(|head| prefetch(&*head.tx));
            }
            let advance = |lane: &mut Lane| lane.advance(*account, now, &mut removed);
            let unpaid = self.change_with(*lane, advance, |pool, offer, lane| {
                pool.departed.push((offer, lane));
            });
            self.dropped.unpaid += unpaid as u64;
            if removed.len() >= REMOVED_AT_ONCE || at + 1 == lanes.len() {
                self.forget_all(&mut removed);
            }
        }
        self.removed = removed;
    }

    /// Prefetches the entries that [`Self::insert`] will access, by hash and sender.
    pub fn prefetch(&self, txs: impl Iterator<Item = (B256, Address)> + Clone) {
        let known = txs.clone().filter(|(hash, _)| self.by_hash.contains_key(hash)).count();
        std::hint::black_box(known);
        txs.clone().for_each(|(_, sender)| self.by_sender.prefetch(&sender));
        txs.clone().for_each(|(_, sender)| self.by_sender.prefetch_next(&sender));
        let mut free = self.free.iter().rev();
        for (_, sender) in txs {
            let lane = self.by_sender.get(&sender).or_else(|| free.next());
            lane.into_iter().for_each(|lane| prefetch(self.at(*lane)));
        }
    }

    /// Drops transactions that have been behind a gap for too long. Checks every lane with a gap.
    pub fn expire(&mut self, now: Instant) {
        let lifetime = self.limits.lifetime;
        let waiting = self.queues.lanes().chain(self.spare_queues.lanes());
        let old =
            waiting.filter(|lane| now.saturating_duration_since(self.at(*lane).beat) > lifetime);
        for lane in old.collect::<Vec<_>>() {
            let removed = self.change(lane, |lane| {
                std::iter::from_fn(|| lane.take_last_queued()).collect::<Vec<_>>()
            });
            self.dropped.expired += removed.len() as u64;
            removed.iter().for_each(|pooled| self.forget(pooled));
        }
    }

    /// Returns the number of a sender's lane, which is created if necessary.
    fn enter(&mut self, sender: Address, account: &Account, now: Instant) -> u32 {
        if let Some(lane) = self.by_sender.get(&sender) {
            return *lane;
        }
        let lane = match self.free.pop() {
            Some(lane) => {
                self.lanes[lane as usize].assign_to(sender, *account, now);
                lane
            }
            None => {
                self.lanes.push(Lane::new(sender, *account, now));
                u32::try_from(self.lanes.len() - 1).expect("fewer lanes than slots")
            }
        };
        self.by_sender.insert(sender, lane);
        lane
    }

    /// Adds a transaction that is in its lane to the indexes.
    fn remember(&mut self, hash: B256, lane: u32, nonce: u64) {
        self.by_hash.insert(hash, (lane, nonce));
        let pooled = self.lanes[lane as usize].get(nonce).expect("it was just inserted");
        self.bytes += pooled.bytes() as u64;
        for authority in &pooled.authorities {
            *self.authorities.entry(*authority).or_default() += 1;
        }
    }

    /// Removes a transaction that has left its lane from the indexes.
    fn forget(&mut self, removed: &Pooled) {
        self.by_hash.remove(&removed.tx.hash);
        self.bytes -= removed.bytes() as u64;
        for authority in &removed.authorities {
            if let Entry::Occupied(mut count) = self.authorities.entry(*authority) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }

    /// Does the same as [`Self::forget`] for several transactions. The index accesses are independent of each
    /// other here, so the processor executes many of them concurrently; freeing transactions in between would
    /// serialize them.
    fn forget_all(&mut self, removed: &mut Vec<Pooled>) {
        let found = removed.iter().filter(|tx| self.by_hash.contains_key(&tx.tx.hash)).count();
        std::hint::black_box(found);
        removed.iter().for_each(|pooled| self.forget(pooled));
        removed.clear();
    }

    /// Changes a lane, and updates orders and sums accordingly. An empty lane is freed.
    fn change<R>(&mut self, number: u32, change: impl FnOnce(&mut Lane) -> R) -> R {
        self.change_with(number, change, |pool, offer, lane| pool.heads.remove(&offer, lane))
    }

    /// Does the same as [`Self::change`], but `depart` removes the previous first transaction of the lane from
    /// the order.
    fn change_with<R>(
        &mut self,
        number: u32,
        change: impl FnOnce(&mut Lane) -> R,
        depart: impl FnOnce(&mut Self, Offer, u32),
    ) -> R {
        let account_slots = self.limits.account_slots;
        let lane = &mut self.lanes[number as usize];
        let old = lane.listing(account_slots);
        let result = change(lane);
        let new = lane.listing(account_slots);
        let empty = lane.is_empty().then(|| lane.sender());
        if let Some(offer) = old.head.filter(|_| old.head != new.head) {
            depart(self, offer, number);
        }
        self.relist(number, &old, &new);
        if let Some(sender) = empty {
            self.lanes[number as usize].shrink();
            self.by_sender.remove(&sender);
            self.free.push(number);
        }
        result
    }

    /// Updates the sums and the orders, except that the caller removes the previous first transaction from `heads`.
    fn relist(&mut self, number: u32, old: &Listed, new: &Listed) {
        self.load.replace(&old.load, &new.load);
        if let Some(offer) = new.head.as_ref().filter(|_| old.head != new.head) {
            self.heads.insert(offer, number);
        }
        if old.tail != new.tail && self.pressed {
            if let Some((offer, spare)) = &old.tail {
                self.tails_mut(*spare).remove(offer, number);
            }
            if let Some((offer, spare)) = &new.tail {
                self.tails_mut(*spare).insert(offer, number);
            }
        }
        if old.queue != new.queue {
            if let Some((offer, spare)) = &old.queue {
                self.queues_mut(*spare).remove(offer, number);
            }
            if let Some((offer, spare)) = &new.queue {
                self.queues_mut(*spare).insert(offer, number);
            }
        }
    }

    const fn tails_mut(&mut self, spare: bool) -> &mut Worst {
        if spare { &mut self.spare_tails } else { &mut self.tails }
    }

    const fn queues_mut(&mut self, spare: bool) -> &mut Worst {
        if spare { &mut self.spare_queues } else { &mut self.queues }
    }
}
