//! What leaves a full pool: the end of the row that is worth least at the current base fee.
//!
//! Ends only, so that dropping one never strands others behind a gap; and a row is worth as much
//! as its cheapest, for those behind it cannot run first. Rows longer than an account is
//! guaranteed give way before the others.

use super::{
    Mempool, Pooled, Reject,
    order::{Rank, Worst, Worth},
};
use std::{mem, time::Instant};
use storage::Account;

/// The end of a row to drop.
#[derive(Clone, Copy, Debug)]
struct Victim {
    rank: Rank,
    /// Its row is longer than guaranteed.
    spare: bool,
    /// It is behind a gap.
    queued: bool,
}

/// A transaction just put in, and how its lane was before.
#[derive(Debug)]
pub(super) struct Newcomer {
    pub(super) lane: u32,
    pub(super) nonce: u64,
    pub(super) replaced: Option<Pooled>,
    pub(super) beat: Instant,
}

/// A transaction that went for a newcomer, and how its lane was before.
#[derive(Debug)]
struct Gone {
    pooled: Pooled,
    account: Account,
    beat: Instant,
}

impl Mempool {
    /// Lists the ends of pending rows, unless they are listed.
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

    /// Gives that list up when the pool is an eighth empty. Called once a block.
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

    /// Takes a victim out of its lane and of the indexes.
    fn push_out(&mut self, victim: &Victim) -> Gone {
        let gone = self.change(victim.rank.lane, |lane| {
            let (account, beat) = (*lane.account(), lane.beat);
            let end =
                if victim.queued { lane.take_last_queued() } else { lane.take_last_pending() };
            Gone { pooled: end.expect("a listed row has an end"), account, beat }
        });
        self.forget(&gone.pooled);
        gone
    }

    /// Drops the worst until the pool holds no more than it may.
    pub(super) fn make_room(&mut self) {
        while let Some(victim) = self.victim() {
            self.push_out(&victim);
            self.dropped.evicted += 1;
        }
    }

    /// The same right after a newcomer was put in. If it is not worth more than what would have to
    /// go, the pool is put back as it was.
    pub(super) fn make_room_for(&mut self, newcomer: Newcomer) -> Result<(), Reject> {
        let mut gone = Vec::new();
        while let Some(victim) = self.victim() {
            if let Err(reject) = self.judge(&victim, &newcomer, gone.len()) {
                self.undo(newcomer, gone);
                return Err(reject);
            }
            gone.push(self.push_out(&victim));
        }
        self.churn += gone.len();
        self.dropped.evicted += gone.len() as u64;
        Ok(())
    }

    /// Whether a victim may go for the newcomer, after some others.
    fn judge(&self, victim: &Victim, newcomer: &Newcomer, gone: usize) -> Result<(), Reject> {
        let (lane, nonce) = (newcomer.lane, newcomer.nonce);
        let own = self.at(lane);
        let new = own.get(nonce).expect("it has not gone yet");
        let worth = new.floor.worth(self.base_fee);
        if victim.rank.lane == lane {
            // Of its own row, what it moved up behind it may go, but not itself.
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
        if self.churn + gone >= self.limits.churn() {
            return Err(Reject::PoolFull);
        }
        Ok(())
    }

    /// Why there is no room for a transaction of this worth.
    fn too_cheap(&self, victim: &Victim, worth: Worth) -> Reject {
        let worst = |order: &Worst| order.first(self.base_fee);
        let mut pending = [&self.spare_tails, &self.tails].into_iter().filter_map(worst);
        // Worth more than a transaction that can run, but it cannot run itself.
        if victim.queued && pending.any(|rank| rank.worth < worth) {
            return Reject::FutureReplacesPending;
        }
        Reject::Underpriced
    }

    /// Takes the newcomer out again, and puts back what went for it.
    fn undo(&mut self, newcomer: Newcomer, gone: Vec<Gone>) {
        let Newcomer { lane, nonce, replaced, beat } = newcomer;
        let (sender, account) = (self.at(lane).sender(), *self.at(lane).account());
        let pooled = self.change(lane, |lane| lane.take(nonce, beat));
        self.forget(&pooled.expect("it has not gone yet"));
        let replaced = replaced.map(|pooled| Gone { pooled, account, beat });
        for Gone { pooled, account, beat } in gone.into_iter().rev().chain(replaced) {
            let (hash, nonce) = (pooled.tx.hash, pooled.nonce());
            let lane = self.enter(pooled.tx.sender, &account, beat);
            self.change(lane, |lane| lane.put(pooled, beat));
            self.remember(hash, lane, nonce);
        }
        // What went of its own lane went after its beat had changed.
        if let Some(lane) = self.by_sender.get(&sender).copied() {
            self.change(lane, |lane| lane.beat = beat);
        }
    }
}
