//! Gas for which a transaction is charged, and gas that a block reports.
//!
//! Both have a minimum of `min_gas_multiplier` times the gas limit, so that blocks cannot be filled with gas
//! limits that are not used.

use super::dec::LegacyDec;
use alloy_primitives::U256;
use thiserror::Error;

/// Greatest amount of gas a block can report: the reference counts it in signed 64 bits.
const MAX_GAS: u64 = i64::MAX as u64;

/// More gas than a block can report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{what} {gas} exceeds 9223372036854775807")]
pub struct GasOverflow {
    /// Which amount.
    pub what: &'static str,
    /// How much it would be.
    pub gas: u128,
}

impl GasOverflow {
    fn check(what: &'static str, gas: u128) -> Result<u64, Self> {
        u64::try_from(gas).ok().filter(|gas| *gas <= MAX_GAS).ok_or(Self { what, gas })
    }
}

/// Gas limits of the transactions of one block that passed their checks. Starts at zero in every
/// block; a copy undoes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GasWanted(u64);

impl GasWanted {
    /// Adds one transaction's gas limit.
    ///
    /// # Errors
    /// [`GasOverflow`] if the sum could not be reported; the transaction must be refused, and the
    /// sum is as before.
    pub fn add(&mut self, gas_limit: u64) -> Result<(), GasOverflow> {
        let sum = u128::from(self.0).saturating_add(gas_limit.into());
        self.0 = GasOverflow::check("block gas wanted", sum)?;
        Ok(())
    }

    /// The sum.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Gas a transaction is charged: what the EVM used after refunds, at least the multiplier's share
/// of its limit, truncated.
pub fn charge(evm_gas: u64, gas_limit: u64, min_gas_multiplier: LegacyDec) -> u64 {
    at_least_share(evm_gas, gas_limit, min_gas_multiplier)
}

/// Gas a block reports to the next base fee: what it consumed, at least the multiplier's share of
/// what was wanted, truncated.
///
/// # Errors
/// [`GasOverflow`] for an amount past 2^63 - 1.
pub fn block_gas(
    gas_wanted: u64,
    gas_consumed: u64,
    min_gas_multiplier: LegacyDec,
) -> Result<u64, GasOverflow> {
    let wanted = GasOverflow::check("block gas wanted", gas_wanted.into())?;
    let consumed = GasOverflow::check("block gas consumed", gas_consumed.into())?;
    Ok(at_least_share(consumed, wanted, min_gas_multiplier))
}

/// `max(gas, trunc(whole * share))`. A share is at most one once validated, so the product fits.
fn at_least_share(gas: u64, whole: u64, share: LegacyDec) -> u64 {
    let floor = share.checked_mul_int(U256::from(whole)).unwrap_or(LegacyDec::MAX);
    if floor.is_negative() { gas } else { gas.max(floor.truncate_u64().unwrap_or(u64::MAX)) }
}
