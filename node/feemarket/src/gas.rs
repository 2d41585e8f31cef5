//! Computes the gas that a transaction is charged, and the gas that a block reports.
//!
//! Both are at least `min_gas_multiplier` times the gas limit, so that filling blocks with unused gas limits is not
//! free.

use super::dec::LegacyDec;
use alloy_primitives::U256;
use thiserror::Error;

/// Maximum gas that a block can report: cosmos/evm counts it in a signed 64-bit integer.
const MAX_GAS: u64 = i64::MAX as u64;

/// An amount of gas is above 2^63 - 1, the maximum that a block can report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{what} {gas} exceeds 9223372036854775807")]
pub struct GasOverflow {
    /// The name of the amount.
    pub what: &'static str,
    /// The amount.
    pub gas: u128,
}

impl GasOverflow {
    fn check(what: &'static str, gas: u128) -> Result<u64, Self> {
        u64::try_from(gas).ok().filter(|gas| *gas <= MAX_GAS).ok_or(Self { what, gas })
    }
}

/// The sum of the gas limits of those transactions of a block that passed their checks. It starts at zero in every
/// block. A caller undoes additions by restoring a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GasWanted(u64);

impl GasWanted {
    /// Adds the gas limit of a transaction.
    ///
    /// # Errors
    /// [`GasOverflow`] if the sum exceeds the maximum. It is unchanged then, and the transaction must be rejected.
    pub fn add(&mut self, gas_limit: u64) -> Result<(), GasOverflow> {
        let sum = u128::from(self.0).saturating_add(gas_limit.into());
        self.0 = GasOverflow::check("block gas wanted", sum)?;
        Ok(())
    }

    /// Returns the sum.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Returns the gas that a transaction is charged: the gas that the EVM used after refunds, but at least
/// `min_gas_multiplier` times the gas limit, truncated.
pub fn charge(evm_gas: u64, gas_limit: u64, min_gas_multiplier: LegacyDec) -> u64 {
    at_least_share(evm_gas, gas_limit, min_gas_multiplier)
}

/// Returns the gas that a block reports for the next base fee: the consumed gas, but at least `min_gas_multiplier`
/// times the sum of the gas limits, truncated.
///
/// # Errors
/// [`GasOverflow`] if an amount exceeds 2^63 - 1.
pub fn block_gas(
    gas_wanted: u64,
    gas_consumed: u64,
    min_gas_multiplier: LegacyDec,
) -> Result<u64, GasOverflow> {
    let wanted = GasOverflow::check("block gas wanted", gas_wanted.into())?;
    let consumed = GasOverflow::check("block gas consumed", gas_consumed.into())?;
    Ok(at_least_share(consumed, wanted, min_gas_multiplier))
}

/// Returns `max(gas, trunc(whole * share))`. A validated share is at most one, so the product fits.
fn at_least_share(gas: u64, whole: u64, share: LegacyDec) -> u64 {
    let floor = share.checked_mul_int(U256::from(whole)).unwrap_or(LegacyDec::MAX);
    if floor.is_negative() { gas } else { gas.max(floor.truncate_u64().unwrap_or(u64::MAX)) }
}
