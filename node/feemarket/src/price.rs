//! What a transaction pays for a unit of gas. All amounts are in wei.

use alloy_consensus::Transaction;
use alloy_primitives::U256;

/// Wei of effective tip to one point of priority.
const PRIORITY_WEI: u128 = 1_000_000;

/// A transaction's offer, by its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// Types 0 and 1: one price, whatever the base fee.
    Fixed {
        /// `gasPrice`.
        gas_price: u128,
    },
    /// Types 2 and up: the base fee and a tip, up to a cap.
    Dynamic {
        /// `maxFeePerGas`.
        fee_cap: u128,
        /// `maxPriorityFeePerGas`.
        tip_cap: u128,
    },
}

impl Price {
    /// The offer of a transaction.
    pub fn of(tx: &impl Transaction) -> Self {
        let fee_cap = tx.max_fee_per_gas();
        match tx.max_priority_fee_per_gas() {
            Some(tip_cap) => Self::Dynamic { fee_cap, tip_cap },
            None => Self::Fixed { gas_price: fee_cap },
        }
    }

    /// The most it pays.
    pub const fn fee_cap(self) -> u128 {
        match self {
            Self::Fixed { gas_price } => gas_price,
            Self::Dynamic { fee_cap, .. } => fee_cap,
        }
    }

    /// The most it pays above the base fee.
    pub const fn tip_cap(self) -> u128 {
        match self {
            Self::Fixed { gas_price } => gas_price,
            Self::Dynamic { tip_cap, .. } => tip_cap,
        }
    }

    /// What it pays at this base fee, which is zero where there is none: then a dynamic offer pays
    /// its tip only.
    pub fn effective(self, base_fee: u128) -> u128 {
        match self {
            Self::Fixed { gas_price } => gas_price,
            // Saturation is above every cap but the greatest, which it equals.
            Self::Dynamic { fee_cap, tip_cap } => fee_cap.min(tip_cap.saturating_add(base_fee)),
        }
    }

    /// What it pays above this base fee; `None` if it does not reach it.
    pub fn effective_tip(self, base_fee: u128) -> Option<u128> {
        self.effective(base_fee).checked_sub(base_fee)
    }

    /// Its rank among others, by effective tip; `None` if it does not reach the base fee.
    pub fn priority(self, base_fee: u128) -> Option<i64> {
        let points = self.effective_tip(base_fee)?.checked_div(PRIORITY_WEI)?;
        Some(i64::try_from(points).unwrap_or(i64::MAX))
    }
}

/// Gas times price: 64 by 128 bits never wraps.
pub fn fee(gas: u64, price: u128) -> U256 {
    U256::from(gas).wrapping_mul(U256::from(price))
}
