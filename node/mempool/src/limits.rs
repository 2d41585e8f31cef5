//! How much the pool takes.

use std::time::Duration;

/// Bytes of a slot, the unit in which room is counted: geth's.
pub const SLOT_BYTES: usize = 32 * 1024;
/// What a replacement of a blob transaction must add to its three fee fields, in percent, as geth has
/// it: whoever shows new blobs has them checked anew, which costs a thousand times a signature.
pub(super) const BLOB_PRICE_BUMP: u128 = 100;

/// The limits of a pool. Names are geth's; a slot is [`SLOT_BYTES`] or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Least fee cap, in wei per gas.
    pub price_limit: u128,
    /// Least tip cap, in wei per gas.
    pub min_tip: u128,
    /// What a replacement must add to both fee fields, in percent.
    pub price_bump: u128,
    /// Executable slots an account keeps as long as others have more than this.
    pub account_slots: usize,
    /// Executable slots in all.
    pub global_slots: usize,
    /// Transactions behind a nonce gap, for one account.
    pub account_queue: usize,
    /// Slots behind nonce gaps, in all.
    pub global_queue: usize,
    /// How long transactions wait behind a gap without another coming in or moving up.
    pub lifetime: Duration,
}

impl Default for Limits {
    /// The reference's, but for the two global ones: its 5,120 executable slots hold less than two
    /// full blocks here. At a transfer's size these are about 150 MB, and 5 GiB when every
    /// transaction is as large as it may be.
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
    /// Transactions that may be pushed out between two blocks: a quarter of the pool, so that
    /// nobody can turn it over faster than blocks are made.
    pub(super) const fn churn(&self) -> usize {
        self.global_slots.saturating_add(self.global_queue) / 4
    }
}

/// The least that replaces `old`, both in wei per gas, raised by `percent`.
pub(super) fn bumped(old: u128, percent: u128) -> u128 {
    let percent = 100 + percent;
    // In two parts, so that the product cannot overflow: floor(old * percent / 100).
    let whole = (old / 100).saturating_mul(percent);
    let least = whole.saturating_add(old % 100 * percent / 100);
    least.max(old.saturating_add(1))
}

/// Slots that this many bytes take.
pub(super) const fn slots(bytes: usize) -> usize {
    bytes.div_ceil(SLOT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_replacement_as_the_table_has_it() {
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
        for (old, least) in table {
            assert_eq!(bumped(old, 10), least, "replacing {old}");
        }
        assert_eq!(bumped(7, 100), 14, "a blob transaction");
        assert_eq!(bumped(u128::MAX, 10), u128::MAX, "and nothing is above that");
    }

    #[test]
    fn slots_are_begun_ones() {
        assert_eq!(slots(1), 1);
        assert_eq!(slots(SLOT_BYTES), 1);
        assert_eq!(slots(SLOT_BYTES + 1), 2);
        assert_eq!(slots(128 * 1024), 4);
    }
}
