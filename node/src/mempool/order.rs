//! Lanes in order of what one of their transactions offers, at a base fee that moves.
//!
//! What a block maker earns per gas is `min(tip cap, fee cap - base fee)`. While the tip cap is the
//! smaller of the two, rank depends on the tip cap alone; else on the fee cap alone. So two sorted
//! sets, each in an order the base fee does not change, merged when read. An entry changes sets
//! only when the base fee passes its `fee cap - tip cap`, and a third set finds those entries.
//!
//! Cost with n entries: insert and remove O(log n); a new base fee O(k log n), k being the entries
//! it passes, not n; reading the best j of them O(j).

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    mem,
};

/// What a transaction, or the cheapest of several, offers. In wei per gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Most it gives the block maker: `maxPriorityFeePerGas`, or the gas price. Not above `cap`.
    pub tip: u128,
    /// Most it gives in all: `maxFeePerGas`, or the gas price.
    pub cap: u128,
    /// Rank of arrival in the pool; lower came first.
    pub arrival: u64,
}

/// What an offer is worth at a base fee. One below the base fee is worth less than any that is
/// not, and the less the further below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worth {
    covers: bool,
    /// Effective tip where the cap covers the base fee, else the cap.
    fee: u128,
}

impl Offer {
    /// What it is worth at this base fee.
    pub fn worth(&self, base_fee: u128) -> Worth {
        match self.cap.checked_sub(base_fee) {
            Some(above) => Worth { covers: true, fee: above.min(self.tip) },
            None => Worth { covers: false, fee: self.cap },
        }
    }

    /// Tip per gas at this base fee; `None` when the cap is below it.
    pub fn effective_tip(&self, base_fee: u128) -> Option<u128> {
        self.cap.checked_sub(base_fee).map(|above| above.min(self.tip))
    }

    /// The cheaper of both fields. Keeps its own arrival if `later` lowers neither.
    #[must_use]
    pub fn lowered_by(self, later: Self) -> Self {
        if later.tip >= self.tip && later.cap >= self.cap {
            return self;
        }
        let (tip, cap) = (self.tip.min(later.tip), self.cap.min(later.cap));
        Self { tip, cap, arrival: later.arrival }
    }

    /// The base fee up to which the tip decides the rank; above it the cap does.
    const fn threshold(&self) -> u128 {
        self.cap - self.tip
    }
}

/// An entry in one of the two sets; the greatest is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    fee: u128,
    /// Arrival, inverted: the earlier is the greater.
    earliness: u64,
    lane: u32,
}

/// An entry as read: the greatest is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// What its offer is worth now.
    pub(super) worth: Worth,
    /// Arrival, inverted: the earlier is the greater.
    pub(super) earliness: u64,
    /// The lane it stands for.
    pub(super) lane: u32,
}

impl Rank {
    /// The rank of a lane's offer.
    pub(super) fn of(offer: &Offer, lane: u32, base_fee: u128) -> Self {
        Self { worth: offer.worth(base_fee), earliness: !offer.arrival, lane }
    }

    /// Its cap covers the base fee.
    pub(super) const fn covers(&self) -> bool {
        self.worth.covers
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct FeeOrder {
    base_fee: u128,
    /// Those whose tip decides.
    by_tip: BTreeSet<Place>,
    /// Those whose cap decides.
    by_cap: BTreeSet<Place>,
    /// Threshold, arrival and lane of every entry; its tip.
    thresholds: BTreeMap<(u128, u64, u32), u128>,
}

impl FeeOrder {
    /// Puts a lane's offer in.
    pub(super) fn insert(&mut self, offer: &Offer, lane: u32) {
        let threshold = offer.threshold();
        self.thresholds.insert((threshold, offer.arrival, lane), offer.tip);
        self.place(threshold, offer.arrival, lane, offer.tip);
    }

    /// Takes a lane's offer out.
    pub(super) fn remove(&mut self, offer: &Offer, lane: u32) {
        let threshold = offer.threshold();
        self.thresholds.remove(&(threshold, offer.arrival, lane));
        let earliness = !offer.arrival;
        if threshold >= self.base_fee {
            self.by_tip.remove(&Place { fee: offer.tip, earliness, lane });
        } else {
            self.by_cap.remove(&Place { fee: offer.cap, earliness, lane });
        }
    }

    /// Takes all out.
    pub(super) fn clear(&mut self) {
        self.by_tip.clear();
        self.by_cap.clear();
        self.thresholds.clear();
    }

    fn place(&mut self, threshold: u128, arrival: u64, lane: u32, tip: u128) {
        let earliness = !arrival;
        if threshold >= self.base_fee {
            self.by_tip.insert(Place { fee: tip, earliness, lane });
        } else {
            self.by_cap.insert(Place { fee: tip + threshold, earliness, lane });
        }
    }

    /// Goes over to another base fee.
    pub(super) fn set_base_fee(&mut self, base_fee: u128) {
        let old = mem::replace(&mut self.base_fee, base_fee);
        let passed = (old.min(base_fee), 0, 0)..(old.max(base_fee), 0, 0);
        let passed: Vec<_> = self.thresholds.range(passed).map(|(key, tip)| (*key, *tip)).collect();
        for ((threshold, arrival, lane), tip) in passed {
            let earliness = !arrival;
            if old < base_fee {
                self.by_tip.remove(&Place { fee: tip, earliness, lane });
            } else {
                self.by_cap.remove(&Place { fee: tip + threshold, earliness, lane });
            }
            self.place(threshold, arrival, lane, tip);
        }
    }

    /// Every entry, the best first.
    pub(super) fn best(&self) -> impl Iterator<Item = Rank> {
        let mut tips = self.by_tip.iter().rev().map(|place| self.rank_by_tip(place)).peekable();
        let mut caps = self.by_cap.iter().rev().map(|place| self.rank_by_cap(place)).peekable();
        std::iter::from_fn(move || match tips.peek().cmp(&caps.peek()) {
            Ordering::Greater => tips.next(),
            _ => caps.next(),
        })
    }

    /// The worst entry.
    pub(super) fn worst(&self) -> Option<Rank> {
        let tip = self.by_tip.first().map(|place| self.rank_by_tip(place));
        let cap = self.by_cap.first().map(|place| self.rank_by_cap(place));
        match (tip, cap) {
            (Some(tip), Some(cap)) => Some(tip.min(cap)),
            (tip, cap) => tip.or(cap),
        }
    }

    /// The cap of such an entry exceeds the base fee by at least the tip.
    const fn rank_by_tip(&self, place: &Place) -> Rank {
        let worth = Worth { covers: true, fee: place.fee };
        Rank { worth, earliness: place.earliness, lane: place.lane }
    }

    fn rank_by_cap(&self, place: &Place) -> Rank {
        let offer = Offer { tip: place.fee, cap: place.fee, arrival: 0 };
        let worth = offer.worth(self.base_fee);
        Rank { worth, earliness: place.earliness, lane: place.lane }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offer() -> impl Strategy<Value = (u128, u128)> {
        // A narrow range, so that ties and equal thresholds are common; and the extremes.
        let fee = || prop_oneof![0..40u128, 0..40u128, Just(u128::MAX), Just(u128::MAX - 1)];
        (fee(), fee()).prop_map(|(a, b)| (a.min(b), a.max(b)))
    }

    proptest! {
        #[test]
        fn order_equals_sorting(
            offers in prop::collection::vec(offer(), 0..60),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
            base_fees in prop::collection::vec(prop_oneof![0..45u128, Just(u128::MAX)], 1..8),
        ) {
            let mut order = FeeOrder::default();
            let mut model = Vec::new();
            for (lane, (tip, cap)) in (0u32..).zip(offers) {
                let offer = Offer { tip, cap, arrival: u64::from(lane) };
                order.insert(&offer, lane);
                model.push((offer, lane));
            }
            let mut removed = removed.into_iter();
            for base_fee in base_fees {
                order.set_base_fee(base_fee);
                if let Some(index) = removed.next().filter(|_| !model.is_empty()) {
                    let (offer, lane) = model.remove(index.index(model.len()));
                    order.remove(&offer, lane);
                }
                let mut sorted: Vec<_> =
                    model.iter().map(|(offer, lane)| Rank::of(offer, *lane, base_fee)).collect();
                sorted.sort_by(|a, b| b.cmp(a));
                prop_assert_eq!(order.worst(), sorted.last().copied());
                prop_assert_eq!(order.best().collect::<Vec<_>>(), sorted);
                prop_assert_eq!(order.thresholds.len(), model.len());
            }
        }
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
