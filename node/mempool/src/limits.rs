//! The limits of the pool.

use std::time::Duration;

/// Size of a slot in bytes, the unit of the pool's capacity, as in geth.
pub const SLOT_BYTES: usize = 32 * 1024;
/// Minimum increase of the three fee fields by a replacement of a blob transaction, in percent, as in geth. New
/// blobs have to be verified, which costs much more than a signature.
pub(super) const BLOB_PRICE_BUMP: u128 = 100;

/// The limits of a pool, with geth's names. A transaction occupies one slot per [`SLOT_BYTES`], rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Minimum fee cap, in wei per gas.
    pub price_limit: u128,
    /// Minimum priority fee cap, in wei per gas.
    pub min_tip: u128,
    /// Minimum increase of both fee fields by a replacement, in percent.
    pub price_bump: u128,
    /// Pending slots that are guaranteed to an account.
    pub account_slots: usize,
    /// Maximum number of pending slots.
    pub global_slots: usize,
    /// Maximum number of transactions behind a nonce gap, per account.
    pub account_queue: usize,
    /// Maximum number of slots behind nonce gaps.
    pub global_queue: usize,
    /// Time after which queued transactions of a lane are dropped, if none was added or became pending meanwhile.
    pub lifetime: Duration,
}

impl Default for Limits {
    /// Returns the limits of cosmos/evm, except for the two global limits: its 5,120 pending slots would hold
    /// less than two full blocks here. A pool at these limits needs about 150 MB if it contains transfers, and
    /// 5 GiB if every transaction has the maximum size.
    fn default() -> Self {
        Self {
            price_limit: 1,
            min_tip: 0,
            price_bump: 10,
            account_slots: 16,
            global_slots: 131_072,
            account_queue: 64,
            global_queue: 32_768,
            lifetime: Duration::from_secs(3 * 60 * 60),
        }
    }
}

impl Limits {
    /// Returns the maximum number of evictions between two blocks: a quarter of the pool, so that clients cannot
    /// replace its contents faster than blocks are produced.
    pub(super) const fn churn(&self) -> usize {
        self.global_slots.saturating_add(self.global_queue) / 4
    }
}

/// Returns the minimum fee that replaces `old`: `percent` higher, and at least one wei. Both are in wei per gas.
pub(super) fn bumped(old: u128, percent: u128) -> u128 {
    let percent = 100 + percent;
    // Computed in two parts, so that the product cannot overflow: floor(old * percent / 100).
    let whole = (old / 100).saturating_mul(percent);
    let minimum = whole.saturating_add(old % 100 * percent / 100);
    minimum.max(old.saturating_add(1))
}

/// Returns the number of slots for this size in bytes.
pub(super) const fn slots(bytes: usize) -> usize {
    bytes.div_ceil(SLOT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacement_fee_is_higher_by_the_percentage_and_at_least_one_wei() {
        let table = [
            (0, 1),
            (1, 2),
            (5, 6),
            (9, 10),
            (10, 11),
            (100, 110),
            (1001, 1101),
            (1_000_000_000, 1_100_000_000),
        ];
        for (old, minimum) in table {
            assert_eq!(bumped(old, 10), minimum, "replacing {old}");
        }
        assert_eq!(bumped(7, 100), 14, "a blob transaction");
        assert_eq!(bumped(u128::MAX, 10), u128::MAX, "saturates");
    }

    #[test]
    fn slots_are_rounded_up() {
        assert_eq!(slots(1), 1);
        assert_eq!(slots(SLOT_BYTES), 1);
        assert_eq!(slots(SLOT_BYTES + 1), 2);
        assert_eq!(slots(128 * 1024), 4);
    }
}
