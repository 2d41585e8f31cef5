//! Lanes ordered by the offer of one of their transactions, at a base fee that changes.
//!
//! The producer of a block earns `min(priority fee cap, fee cap - base fee)` per gas. Which of the two terms is
//! smaller depends on the base fee. An order by the priority fee cap alone, or by the fee cap alone, does not
//! depend on it. So each order here consists of two sorted sets, and **no entry moves when the base fee
//! changes**:
//!
//! - [`Best`] stores each entry in one of its sets: the set of the term that was smaller when the entry was inserted
//!   or last moved. No set ranks an entry too low, so the better one of the two maxima is the best entry, unless
//!   its other term is smaller now. In that case, it is moved to the other set, and reading continues.
//! - [`Worst`] stores each entry in both sets. The worst entry is the lower one of the two sets' minima.
//!
//! With n entries, an insertion or removal costs O(log n), and a new base fee costs nothing. Reading the best j
//! entries costs O(j), plus O(log n) for each entry that has to move. An entry moves at most once each time the
//! base fee passes its `fee cap - priority fee cap`. Reading the worst entry costs O(log n).

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, btree_set},
    iter::{Peekable, Rev},
};

/// The offer of a transaction, or the minimum of several, in wei per gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The maximum for the block producer: `maxPriorityFeePerGas`, or the gas price. Not above `cap`.
    pub tip: u128,
    /// The maximum in total: `maxFeePerGas`, or the gas price.
    pub cap: u128,
    /// Sequence number of arrival in the pool.
    pub arrival: u64,
}

/// The value of an offer at a base fee. An offer with a cap below the base fee has a lower value than all other
/// offers, and the lower the cap, the lower the value.
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

    /// Returns the minimum of each field in the two offers. Keeps its own arrival if `later` lowers neither field.
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
struct SetEntry {
    /// The field by which the set is sorted.
    fee: u128,
    /// Arrival, inverted: an earlier one is greater.
    earliness: u64,
    lane: u32,
    /// The other field.
    other: u128,
}

impl SetEntry {
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

    /// Returns the rank of the entry if its offer has this value.
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

/// An order that is read starting with the best entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Best {
    base_fee: u128,
    /// Entries for which the priority fee cap decided when they were inserted or last moved.
    by_tip: BTreeSet<SetEntry>,
    /// Entries for which the fee cap decided.
    by_cap: BTreeSet<SetEntry>,
}

impl Best {
    /// Inserts a lane's offer.
    pub(super) fn insert(&mut self, offer: &Offer, lane: u32) {
        if offer.threshold() >= self.base_fee {
            self.by_tip.insert(SetEntry::by_tip(offer, lane));
        } else {
            self.by_cap.insert(SetEntry::by_cap(offer, lane));
        }
    }

    /// Removes a lane's offer.
    pub(super) fn remove(&mut self, offer: &Offer, lane: u32) {
        let (by_tip, by_cap) = (SetEntry::by_tip(offer, lane), SetEntry::by_cap(offer, lane));
        // Most entries are in the set of the field that decides now.
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
    /// ones: after sorting, most are at the end of a set, from which they are removed without a search.
    pub(super) fn remove_all(&mut self, offers: &mut Vec<(Offer, u32)>) {
        offers.sort_unstable_by_key(|(offer, lane)| Reverse(SetEntry::by_tip(offer, *lane)));
        for (offer, lane) in offers.drain(..) {
            if self.by_tip.last() == Some(&SetEntry::by_tip(&offer, lane)) {
                self.by_tip.pop_last();
            } else if self.by_cap.last() == Some(&SetEntry::by_cap(&offer, lane)) {
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

    /// Iterates over all entries, best first. Afterwards, the caller passes the misplaced entries that
    /// [`Reader::end`] returns to [`Self::settle`].
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
        for entry in moves.to_cap {
            self.by_tip.remove(&entry);
            self.by_cap.insert(SetEntry::by_cap(&entry.offer_by_tip(), entry.lane));
        }
        for entry in moves.to_tip {
            self.by_cap.remove(&entry);
            self.by_tip.insert(SetEntry::by_tip(&entry.offer_by_cap(), entry.lane));
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
    to_cap: Vec<SetEntry>,
    to_tip: Vec<SetEntry>,
}

type Descending<'a> = Peekable<Rev<btree_set::Iter<'a, SetEntry>>>;

/// Reads a [`Best`]. A set never ranks its entries too low, so the better of the two maxima is the best entry,
/// unless its other field decides now. Such an entry is returned later, at its actual rank.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    base_fee: u128,
    tips: Descending<'a>,
    caps: Descending<'a>,
    misplaced: BinaryHeap<Rank>,
    moves: Moves,
}

impl Reader<'_> {
    /// Ends the iteration, and returns the misplaced entries that it found.
    pub(super) fn end(self) -> Moves {
        self.moves
    }
}

impl Iterator for Reader<'_> {
    type Item = Rank;

    fn next(&mut self) -> Option<Rank> {
        loop {
            let tip = self.tips.peek().map(|entry| entry.rank(covered(entry.fee)));
            let cap = self.caps.peek().map(|entry| entry.rank(by_cap(entry.fee, self.base_fee)));
            let bound = tip.max(cap);
            if bound <= self.misplaced.peek().copied() {
                return self.misplaced.pop();
            }
            if tip > cap {
                let entry = *self.tips.next()?;
                let rank = Rank::of(&entry.offer_by_tip(), entry.lane, self.base_fee);
                if Some(rank) == tip {
                    return tip;
                }
                self.moves.to_cap.push(entry);
                self.misplaced.push(rank);
            } else {
                let entry = *self.caps.next()?;
                let rank = Rank::of(&entry.offer_by_cap(), entry.lane, self.base_fee);
                if Some(rank) == cap {
                    return cap;
                }
                self.moves.to_tip.push(entry);
                self.misplaced.push(rank);
            }
        }
    }
}

/// An order that is read starting with the worst entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Worst {
    by_tip: BTreeSet<SetEntry>,
    by_cap: BTreeSet<SetEntry>,
}

impl Worst {
    /// Inserts a lane's offer.
    pub(super) fn insert(&mut self, offer: &Offer, lane: u32) {
        self.by_tip.insert(SetEntry::by_tip(offer, lane));
        self.by_cap.insert(SetEntry::by_cap(offer, lane));
    }

    /// Removes a lane's offer.
    pub(super) fn remove(&mut self, offer: &Offer, lane: u32) {
        self.by_tip.remove(&SetEntry::by_tip(offer, lane));
        self.by_cap.remove(&SetEntry::by_cap(offer, lane));
    }

    /// Removes all offers.
    pub(super) fn clear(&mut self) {
        self.by_tip.clear();
        self.by_cap.clear();
    }

    /// Returns the worst entry at this base fee.
    pub(super) fn first(&self, base_fee: u128) -> Option<Rank> {
        let tip = self.by_tip.first().map(|entry| entry.rank(covered(entry.fee)));
        let cap = self.by_cap.first().map(|entry| entry.rank(by_cap(entry.fee, base_fee)));
        Some(tip?.min(cap?))
    }

    /// Returns the lanes of all entries, in any order.
    pub(super) fn lanes(&self) -> impl Iterator<Item = u32> {
        self.by_tip.iter().map(|entry| entry.lane)
    }
}

/// Returns the value if the priority fee cap decides, because the fee cap covers it in addition to the base fee.
const fn covered(tip: u128) -> Worth {
    Worth { covers: true, fee: tip }
}

/// Returns the value if the fee cap decides.
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
        fn orders_match_a_sorted_list(
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
                // Removes some of the best entries, as a block does, and one other.
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
                let best_entries: Vec<_> = reader.by_ref().take(count).collect();
                prop_assert_eq!(&best_entries[..], &sorted[..count.min(sorted.len())]);
                let moves = reader.end();
                best.settle(moves);
                prop_assert_eq!(best.by_tip.len() + best.by_cap.len(), model.len());
                prop_assert_eq!(best.first(), sorted.first().copied());
                prop_assert_eq!(best.read().collect::<Vec<_>>(), sorted);
            }
        }
    }

    #[test]
    fn entry_moves_once_when_the_base_fee_passes_its_threshold() {
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
    fn fee_cap_decides_only_above_the_threshold() {
        let generous = Offer { tip: 10, cap: 110, arrival: 0 };
        let capped = Offer { tip: 20, cap: 105, arrival: 1 };
        assert_eq!(generous.effective_tip(90), Some(10));
        assert_eq!(capped.effective_tip(90), Some(15));
        assert!(capped.worth(90) > generous.worth(90));
        assert!(capped.worth(96) < generous.worth(96));
        assert_eq!(capped.effective_tip(106), None);
        assert!(capped.worth(106) < generous.worth(110), "106 is not covered");
    }
}
