//! Lanes ordered by the offer of one of their transactions, at a base fee that changes.
//!
//! The producer of a block earns `min(priority fee cap, fee cap - base fee)` per gas. Which of the two terms is
//! smaller depends on the base fee. An order by the priority fee cap alone, or by the fee cap alone, does not
//! depend on it. So each order here consists of two sorted sets, and **no entry moves when the base fee
//! changes**:
//!
//! - [`Best`] has an entry in one of its sets: that of the term that was smaller when the entry was inserted.
//!   This set never ranks the entry too low, so reading both sets from the top finds the best. If the other term
//!   is smaller when the entry is found there, it is moved to the other set.
//! - [`Worst`] has an entry in both sets. The worst entry is the lower one of the two sets' minima.
//!
//! With n entries, an insertion or removal costs O(log n), and a new base fee costs nothing. Reading the best j
//! entries costs O(j), plus O(log n) for each entry that has to move, which happens once each time the base fee
//! passes its `fee cap - priority fee cap`. Reading the worst entry costs O(log n).

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, btree_set},
    iter::{Peekable, Rev},
};

/// The offer of a transaction, or of the cheapest of several. In wei per gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The maximum for the block producer: `maxPriorityFeePerGas`, or the gas price. Not above `cap`.
    pub tip: u128,
    /// The maximum in total: `maxFeePerGas`, or the gas price.
    pub cap: u128,
    /// Sequence number of arrival in the pool.
    pub arrival: u64,
}

/// The value of an offer at a base fee. The value of an offer below the base fee is lower than that of all
/// others, and decreases with the distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worth {
    covers: bool,
    /// The effective priority fee if the cap covers the base fee, otherwise the cap.
    fee: u128,
}

impl Offer {
    /// Returns the value at this base fee.
    pub fn worth(&self, base_fee: u128) -> Worth {
        match self.cap.checked_sub(base_fee) {
            Some(above) => Worth { covers: true, fee: above.min(self.tip) },
            None => Worth { covers: false, fee: self.cap },
        }
    }

    /// Returns the priority fee per gas at this base fee; `None` if the cap is below it.
    pub fn effective_tip(&self, base_fee: u128) -> Option<u128> {
        self.cap.checked_sub(base_fee).map(|above| above.min(self.tip))
    }

    /// Returns the minimum of both fields. Keeps its own arrival if `later` lowers neither.
    #[must_use]
    pub fn lowered_by(self, later: Self) -> Self {
        if later.tip >= self.tip && later.cap >= self.cap {
            return self;
        }
        let (tip, cap) = (self.tip.min(later.tip), self.cap.min(later.cap));
        Self { tip, cap, arrival: later.arrival }
    }

    /// Returns the base fee up to which the priority fee cap decides. Above it, the fee cap decides.
    const fn threshold(&self) -> u128 {
        self.cap - self.tip
    }
}

/// An entry of a set; the maximum is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// The field by which the set is sorted.
    fee: u128,
    /// Arrival, inverted: an earlier one is greater.
    earliness: u64,
    lane: u32,
    /// The other field.
    other: u128,
}

impl Place {
    const fn by_tip(offer: &Offer, lane: u32) -> Self {
        Self { fee: offer.tip, earliness: !offer.arrival, lane, other: offer.cap }
    }

    const fn by_cap(offer: &Offer, lane: u32) -> Self {
        Self { fee: offer.cap, earliness: !offer.arrival, lane, other: offer.tip }
    }

    /// Returns the offer of an entry in the set by priority fee.
    const fn offer_by_tip(&self) -> Offer {
        Offer { tip: self.fee, cap: self.other, arrival: !self.earliness }
    }

    /// Returns the offer of an entry in the set by cap.
    const fn offer_by_cap(&self) -> Offer {
        Offer { tip: self.other, cap: self.fee, arrival: !self.earliness }
    }

    /// Returns the rank by this field, if it decides.
    const fn rank(&self, worth: Worth) -> Rank {
        Rank { worth, earliness: self.earliness, lane: self.lane }
    }
}

/// An entry as read; the maximum is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// The current value of its offer.
    pub(super) worth: Worth,
    /// Arrival, inverted: an earlier one is greater.
    pub(super) earliness: u64,
    /// The lane of the offer.
    pub(super) lane: u32,
}

impl Rank {
    /// Returns the rank of a lane's offer.
    pub(super) fn of(offer: &Offer, lane: u32, base_fee: u128) -> Self {
        Self { worth: offer.worth(base_fee), earliness: !offer.arrival, lane }
    }

    /// Returns whether its cap covers the base fee.
    pub(super) const fn covers(&self) -> bool {
        self.worth.covers
    }
}

/// An order that is read from the best entry on.
#[derive(Clone, Debug, Default)]
pub(super) struct Best {
    base_fee: u128,
    /// Entries for which the priority fee decided when they were last read.
    by_tip: BTreeSet<Place>,
    /// Entries for which the cap decided.
    by_cap: BTreeSet<Place>,
}

impl Best {
    /// Inserts a lane's offer.
    pub(super) fn insert(&mut self, offer: &Offer, lane: u32) {
        if offer.threshold() >= self.base_fee {
            self.by_tip.insert(Place::by_tip(offer, lane));
        } else {
            self.by_cap.insert(Place::by_cap(offer, lane));
        }
    }

    /// Removes a lane's offer.
    pub(super) fn remove(&mut self, offer: &Offer, lane: u32) {
        let (by_tip, by_cap) = (Place::by_tip(offer, lane), Place::by_cap(offer, lane));
        // Most entries are in the correct set.
        let tip_decides = offer.threshold() >= self.base_fee;
        let found =
            if tip_decides { self.by_tip.remove(&by_tip) } else { self.by_cap.remove(&by_cap) };
        match (found, tip_decides) {
            (true, _) => {}
            (false, true) => _ = self.by_cap.remove(&by_cap),
            (false, false) => _ = self.by_tip.remove(&by_tip),
        }
    }

    /// Removes the offers of several lanes, and clears the list. The offers that a block included were the best
    /// ones: after sorting, each is at the end of a set, which needs no search.
    pub(super) fn remove_all(&mut self, some: &mut Vec<(Offer, u32)>) {
        some.sort_unstable_by_key(|(offer, lane)| Reverse(Place::by_tip(offer, *lane)));
        for (offer, lane) in some.drain(..) {
            if self.by_tip.last() == Some(&Place::by_tip(&offer, lane)) {
                self.by_tip.pop_last();
            } else if self.by_cap.last() == Some(&Place::by_cap(&offer, lane)) {
                self.by_cap.pop_last();
            } else {
                self.remove(&offer, lane);
            }
        }
    }

    /// Changes the base fee.
    pub(super) const fn set_base_fee(&mut self, base_fee: u128) {
        self.base_fee = base_fee;
    }

    /// Iterates over all entries, best first. The caller passes the misplaced entries that the reader found to
    /// [`Self::settle`] afterwards.
    pub(super) fn read(&self) -> Reader<'_> {
        Reader {
            base_fee: self.base_fee,
            tips: self.by_tip.iter().rev().peekable(),
            caps: self.by_cap.iter().rev().peekable(),
            misplaced: BinaryHeap::new(),
            moves: Moves::default(),
        }
    }

    /// Moves entries to the correct set.
    pub(super) fn settle(&mut self, moves: Moves) {
        for place in moves.to_cap {
            self.by_tip.remove(&place);
            self.by_cap.insert(Place::by_cap(&place.offer_by_tip(), place.lane));
        }
        for place in moves.to_tip {
            self.by_cap.remove(&place);
            self.by_tip.insert(Place::by_tip(&place.offer_by_cap(), place.lane));
        }
    }

    /// Returns the best entry.
    pub(super) fn first(&mut self) -> Option<Rank> {
        let mut reader = self.read();
        let first = reader.next();
        let moves = reader.end();
        self.settle(moves);
        first
    }
}

/// Entries that are in the wrong set.
#[derive(Debug, Default)]
pub(super) struct Moves {
    to_cap: Vec<Place>,
    to_tip: Vec<Place>,
}

type Descending<'a> = Peekable<Rev<btree_set::Iter<'a, Place>>>;

/// Reads a [`Best`]. A set never ranks its entries too low, so the top of both sets is the best entry, unless
/// the other field decides now. In that case the entry is deferred to its rank.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    base_fee: u128,
    tips: Descending<'a>,
    caps: Descending<'a>,
    misplaced: BinaryHeap<Rank>,
    moves: Moves,
}

impl Reader<'_> {
    /// Ends the iteration.
    pub(super) fn end(self) -> Moves {
        self.moves
    }
}

impl Iterator for Reader<'_> {
    type Item = Rank;

    fn next(&mut self) -> Option<Rank> {
        loop {
            let tip = self.tips.peek().map(|place| place.rank(covered(place.fee)));
            let cap = self.caps.peek().map(|place| place.rank(by_cap(place.fee, self.base_fee)));
            let bound = tip.max(cap);
            if bound <= self.misplaced.peek().copied() {
                return self.misplaced.pop();
            }
            if tip > cap {
                let place = *self.tips.next()?;
                let rank = Rank::of(&place.offer_by_tip(), place.lane, self.base_fee);
                if Some(rank) == tip {
                    return tip;
                }
                self.moves.to_cap.push(place);
                self.misplaced.push(rank);
            } else {
                let place = *self.caps.next()?;
                let rank = Rank::of(&place.offer_by_cap(), place.lane, self.base_fee);
                if Some(rank) == cap {
                    return cap;
                }
                self.moves.to_tip.push(place);
                self.misplaced.push(rank);
            }
        }
    }
}

/// An order that is read from the worst entry on.
#[derive(Clone, Debug, Default)]
pub(super) struct Worst {
    by_tip: BTreeSet<Place>,
    by_cap: BTreeSet<Place>,
}

impl Worst {
    /// Inserts a lane's offer.
    pub(super) fn insert(&mut self, offer: &Offer, lane: u32) {
        self.by_tip.insert(Place::by_tip(offer, lane));
        self.by_cap.insert(Place::by_cap(offer, lane));
    }

    /// Removes a lane's offer.
    pub(super) fn remove(&mut self, offer: &Offer, lane: u32) {
        self.by_tip.remove(&Place::by_tip(offer, lane));
        self.by_cap.remove(&Place::by_cap(offer, lane));
    }

    /// Removes all offers.
    pub(super) fn clear(&mut self) {
        self.by_tip.clear();
        self.by_cap.clear();
    }

    /// Returns the worst entry at this base fee.
    pub(super) fn first(&self, base_fee: u128) -> Option<Rank> {
        let tip = self.by_tip.first().map(|place| place.rank(covered(place.fee)));
        let cap = self.by_cap.first().map(|place| place.rank(by_cap(place.fee, base_fee)));
        Some(tip?.min(cap?))
    }

    /// Returns the lanes of all entries, in any order.
    pub(super) fn lanes(&self) -> impl Iterator<Item = u32> {
        self.by_tip.iter().map(|place| place.lane)
    }
}

/// Returns the value if the priority fee decides, because the cap covers base fee and priority fee.
const fn covered(tip: u128) -> Worth {
    Worth { covers: true, fee: tip }
}

/// Returns the value if the cap decides.
fn by_cap(cap: u128, base_fee: u128) -> Worth {
    Offer { tip: cap, cap, arrival: 0 }.worth(base_fee)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offer() -> impl Strategy<Value = (u128, u128)> {
        // The range is narrow, so that ties and equal thresholds are common, and includes the extremes.
        let fee = || prop_oneof![0..40u128, 0..40u128, Just(u128::MAX), Just(u128::MAX - 1)];
        (fee(), fee()).prop_map(|(a, b)| (a.min(b), a.max(b)))
    }

    proptest! {
        #[test]
        fn orders_equal_sorting(
            offers in prop::collection::vec(offer(), 0..60),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
            base_fees in prop::collection::vec(
                (prop_oneof![0..45u128, Just(u128::MAX)], 0..70_usize), 1..8),
        ) {
            let (mut best, mut worst) = (Best::default(), Worst::default());
            let mut model = Vec::new();
            for (lane, (tip, cap)) in (0u32..).zip(offers) {
                let offer = Offer { tip, cap, arrival: u64::from(lane) };
                best.insert(&offer, lane);
                worst.insert(&offer, lane);
                model.push((offer, lane));
            }
            let mut removed = removed.into_iter();
            for (base_fee, count) in base_fees {
                best.set_base_fee(base_fee);
                // As a block does, this removes some of the best entries, and any other one.
                model.sort_by_key(|(offer, lane)| Reverse(Rank::of(offer, *lane, base_fee)));
                let mut taken: Vec<_> = model.drain(..(count / 7).min(model.len())).collect();
                if let Some(index) = removed.next().filter(|_| !model.is_empty()) {
                    taken.push(model.remove(index.index(model.len())));
                }
                taken.iter().for_each(|(offer, lane)| worst.remove(offer, *lane));
                best.remove_all(&mut taken);
                prop_assert!(taken.is_empty());
                if let Some(index) = removed.next().filter(|_| !model.is_empty()) {
                    let (offer, lane) = model.remove(index.index(model.len()));
                    best.remove(&offer, lane);
                    worst.remove(&offer, lane);
                }
                let mut sorted: Vec<_> =
                    model.iter().map(|(offer, lane)| Rank::of(offer, *lane, base_fee)).collect();
                sorted.sort_by(|a, b| b.cmp(a));
                prop_assert_eq!(worst.first(base_fee), sorted.last().copied());
                // Reads any number of entries. The misplaced entries are moved before the next reader.
                let mut reader = best.read();
                let some: Vec<_> = reader.by_ref().take(count).collect();
                prop_assert_eq!(&some[..], &sorted[..count.min(sorted.len())]);
                let moves = reader.end();
                best.settle(moves);
                prop_assert_eq!(best.by_tip.len() + best.by_cap.len(), model.len());
                prop_assert_eq!(best.first(), sorted.first().copied());
                prop_assert_eq!(best.read().collect::<Vec<_>>(), sorted);
            }
        }
    }

    #[test]
    fn an_entry_moves_once_for_a_way_of_the_base_fee() {
        let mut best = Best::default();
        for lane in 0..100 {
            best.insert(&Offer { tip: 100, cap: 110, arrival: u64::from(lane) }, lane);
        }
        best.set_base_fee(50);
        let mut reader = best.read();
        assert_eq!(reader.by_ref().count(), 100);
        let moves = reader.end();
        assert_eq!((moves.to_cap.len(), moves.to_tip.len()), (100, 0));
        best.settle(moves);
        best.set_base_fee(60);
        let mut reader = best.read();
        assert_eq!(reader.by_ref().take(3).count(), 3);
        let moves = reader.end();
        assert_eq!((moves.to_cap.len(), moves.to_tip.len()), (0, 0));
    }

    #[test]
    fn the_cap_decides_only_above_the_threshold() {
        let generous = Offer { tip: 10, cap: 110, arrival: 0 };
        let capped = Offer { tip: 20, cap: 105, arrival: 1 };
        assert_eq!(generous.effective_tip(90), Some(10));
        assert_eq!(capped.effective_tip(90), Some(15));
        assert!(capped.worth(90) > generous.worth(90));
        assert!(capped.worth(96) < generous.worth(96));
        assert_eq!(capped.effective_tip(106), None);
        assert!(capped.worth(106) < generous.worth(110), "not covered is below a tip of nothing");
    }
}
