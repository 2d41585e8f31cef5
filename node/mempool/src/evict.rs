//! Evicts transactions from a full pool. In this module, a row is the pending or the queued transactions of a lane.
//!
//! Only the last transaction of a row is evicted, so that no other transaction falls behind a gap. A row has the
//! value of its cheapest transaction at the current base fee, because those behind it cannot be executed first.
//! The row with the lowest value is shortened first, but rows above an account's guarantee come before all others.

use super::{
    Mempool, Pooled, Reject,
    order::{Rank, Worst, Worth},
};
use std::{mem, time::Instant};
use storage::Account;

/// The last transaction of a row, which is to be evicted.
#[derive(Clone, Copy, Debug)]
struct Victim {
    rank: Rank,
    /// Its row is longer than the guarantee.
    spare: bool,
    /// The transaction is behind a gap.
    queued: bool,
}

/// A new transaction, and the state of its lane before the insertion.
#[derive(Debug)]
pub(super) struct Inserted {
    pub(super) lane: u32,
    pub(super) nonce: u64,
    pub(super) replaced: Option<Pooled>,
    pub(super) beat: Instant,
}

/// An evicted transaction, and the state of its lane before the eviction.
#[derive(Debug)]
struct Evicted {
    pooled: Pooled,
    account: Account,
    beat: Instant,
}

impl Mempool {
    /// Lists the ends of pending rows, unless they are already listed.
    fn press(&mut self) {
        if mem::replace(&mut self.pressed, true) {
            return;
        }
        for (number, lane) in (0u32..).zip(&self.lanes) {
            if let Some((offer, spare)) = lane.listing(self.limits.account_slots).tail {
                let order = if spare { &mut self.spare_tails } else { &mut self.tails };
                order.insert(&offer, number);
            }
        }
    }

    /// Clears the list of the ends if more than an eighth of the pending slots is free. Called once per block.
    pub(super) fn release(&mut self) {
        let limit = self.limits.global_slots;
        if self.pressed && self.load.pending_slots < limit - limit / 8 {
            self.pressed = false;
            self.tails.clear();
            self.spare_tails.clear();
        }
    }

    fn victim(&mut self) -> Option<Victim> {
        let (load, limits) = (&self.load, &self.limits);
        if load.pending_slots <= limits.global_slots && load.queued_slots <= limits.global_queue {
            return None;
        }
        self.press();
        let victim = |spare, queued| move |rank| Victim { rank, spare, queued };
        if self.load.pending_slots > self.limits.global_slots {
            let spare = self.spare_tails.first(self.base_fee).map(victim(true, false));
            return spare.or_else(|| self.tails.first(self.base_fee).map(victim(false, false)));
        }
        let spare = self.spare_queues.first(self.base_fee).map(victim(true, true));
        spare.or_else(|| self.queues.first(self.base_fee).map(victim(false, true)))
    }

    /// Removes a victim from its lane and from the indexes.
    fn evict_one(&mut self, victim: &Victim) -> Evicted {
        let evicted = self.change(victim.rank.lane, |lane| {
            let (account, beat) = (*lane.account(), lane.beat);
            let end =
                if victim.queued { lane.take_last_queued() } else { lane.take_last_pending() };
            Evicted { pooled: end.expect("a listed row has an end"), account, beat }
        });
        self.forget(&evicted.pooled);
        evicted
    }

    /// Evicts the worst transactions until the pool is within its limits.
    pub(super) fn evict(&mut self) {
        while let Some(victim) = self.victim() {
            self.evict_one(&victim);
            self.dropped.evicted += 1;
        }
    }

    /// Does the same as [`Self::evict`] after the insertion of a new transaction. If one of the transactions that would
    /// have to be evicted may not be evicted for it, restores the pool and returns an error.
    pub(super) fn evict_for(&mut self, inserted: Inserted) -> Result<(), Reject> {
        let mut evicted = Vec::new();
        while let Some(victim) = self.victim() {
            if let Err(reject) = self.check_eviction(&victim, &inserted, evicted.len()) {
                self.undo(inserted, evicted);
                return Err(reject);
            }
            evicted.push(self.evict_one(&victim));
        }
        self.churn += evicted.len();
        self.dropped.evicted += evicted.len() as u64;
        Ok(())
    }

    /// Returns an error if a victim may not be evicted for the new transaction.
    fn check_eviction(
        &self,
        victim: &Victim,
        inserted: &Inserted,
        evicted: usize,
    ) -> Result<(), Reject> {
        let (lane, nonce) = (inserted.lane, inserted.nonce);
        let own = self.at(lane);
        let new = own.get(nonce).expect("the new transaction is still pooled");
        let worth = new.floor.worth(self.base_fee);
        if victim.rank.lane == lane {
            // It may displace those that it moved up in its own lane, but not itself.
            let end = if victim.queued {
                own.queued().last_key_value().map(|(_, end)| end)
            } else {
                own.pending().back()
            };
            let is_end = end.is_some_and(|end| end.nonce() == nonce);
            return if is_end { Err(self.too_cheap(victim, worth)) } else { Ok(()) };
        }
        let listing = own.listing(self.limits.account_slots);
        let row = if victim.queued { listing.queue } else { listing.tail };
        let spare = row.is_some_and(|(_, spare)| spare);
        let gives_way = victim.spare && !spare;
        if !gives_way && victim.rank.worth >= worth {
            return Err(self.too_cheap(victim, worth));
        }
        if self.churn + evicted >= self.limits.churn() {
            return Err(Reject::PoolFull);
        }
        Ok(())
    }

    /// Returns why a new transaction of this value cannot replace the victim.
    fn too_cheap(&self, victim: &Victim, worth: Worth) -> Reject {
        let worst = |order: &Worst| order.first(self.base_fee);
        let mut pending = [&self.spare_tails, &self.tails].into_iter().filter_map(worst);
        // The new transaction has a higher value than a pending one, but is behind a gap itself.
        if victim.queued && pending.any(|rank| rank.worth < worth) {
            return Reject::FutureReplacesPending;
        }
        Reject::Underpriced
    }

    /// Removes the new transaction again, and restores the evicted ones.
    fn undo(&mut self, inserted: Inserted, evicted: Vec<Evicted>) {
        let Inserted { lane, nonce, replaced, beat } = inserted;
        let (sender, account) = (self.at(lane).sender(), *self.at(lane).account());
        let pooled = self.change(lane, |lane| lane.take(nonce, beat));
        self.forget(&pooled.expect("the new transaction is still pooled"));
        let replaced = replaced.map(|pooled| Evicted { pooled, account, beat });
        for Evicted { pooled, account, beat } in evicted.into_iter().rev().chain(replaced) {
            let (hash, nonce) = (pooled.tx.hash, pooled.nonce());
            let lane = self.enter(pooled.tx.sender, &account, beat);
            self.change(lane, |lane| lane.put(pooled, beat));
            self.remember(hash, lane, nonce);
        }
        // The insertion may have changed the beat before the evictions from the lane recorded it.
        if let Some(lane) = self.by_sender.get(&sender).copied() {
            self.change(lane, |lane| lane.beat = beat);
        }
    }
}
