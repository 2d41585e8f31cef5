//! Calculates the price that a transaction pays per gas. All amounts are in wei.

use alloy_consensus::Transaction;
use alloy_primitives::U256;

/// Effective priority fee in wei that corresponds to one point of priority.
const PRIORITY_WEI: u128 = 1_000_000;

/// The prices that a transaction offers, depending on its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// Types 0 and 1: one price, independent of the base fee.
    Fixed {
        /// `gasPrice`.
        gas_price: u128,
    },
    /// Types 2 and higher: the base fee and a priority fee, up to a fee cap.
    Dynamic {
        /// `maxFeePerGas`.
        fee_cap: u128,
        /// `maxPriorityFeePerGas`.
        tip_cap: u128,
    },
}

impl Price {
    /// Returns the prices that a transaction offers.
    pub fn of(tx: &impl Transaction) -> Self {
        let fee_cap = tx.max_fee_per_gas();
        match tx.max_priority_fee_per_gas() {
            Some(tip_cap) => Self::Dynamic { fee_cap, tip_cap },
            None => Self::Fixed { gas_price: fee_cap },
        }
    }

    /// The maximum price.
    pub const fn fee_cap(self) -> u128 {
        match self {
            Self::Fixed { gas_price } => gas_price,
            Self::Dynamic { fee_cap, .. } => fee_cap,
        }
    }

    /// The maximum that is paid above the base fee.
    pub const fn tip_cap(self) -> u128 {
        match self {
            Self::Fixed { gas_price } => gas_price,
            Self::Dynamic { tip_cap, .. } => tip_cap,
        }
    }

    /// The price at this base fee, which is zero if there is none.
    pub fn effective(self, base_fee: u128) -> u128 {
        match self {
            Self::Fixed { gas_price } => gas_price,
            // A saturated sum is the maximum of its type, so the cap is still the minimum of both.
            Self::Dynamic { fee_cap, tip_cap } => fee_cap.min(tip_cap.saturating_add(base_fee)),
        }
    }

    /// The price minus this base fee; `None` if the price does not reach it.
    pub fn effective_tip(self, base_fee: u128) -> Option<u128> {
        self.effective(base_fee).checked_sub(base_fee)
    }

    /// The transaction's priority, by effective priority fee; `None` if the price does not reach the base fee.
    pub fn priority(self, base_fee: u128) -> Option<i64> {
        let points = self.effective_tip(base_fee)?.checked_div(PRIORITY_WEI)?;
        Some(i64::try_from(points).unwrap_or(i64::MAX))
    }
}

/// Returns gas times price. A product of 64 and 128 bits cannot wrap.
pub fn fee(gas: u64, price: u128) -> U256 {
    U256::from(gas).wrapping_mul(U256::from(price))
}
