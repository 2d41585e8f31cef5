//! The base-fee formula: EIP-1559 in decimals.
//!
//! Knows neither heights nor the [`super::Market`]: numbers in, one number out. Unlike EIP-1559 the
//! step upwards is at least one unit rather than one wei of the token, nothing is rounded to
//! integers, and the floor holds on the falling branch only.

use super::dec::{DecError, LegacyDec};
use alloy_primitives::{U256, aliases::I512};
use thiserror::Error;

/// Decimals of the EVM's view of every token.
const EVM_DECIMALS: u8 = 18;

/// Digits after the point of the chain's token, 1 to 18.
///
/// Prices in [`super::Params`] are in the token's base unit; the EVM sees them in wei, of which a
/// token has 10^18.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenDecimals(u8);

/// A token with no digits or more than the EVM shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("token decimals {0} not supported: 1 to 18 are")]
pub struct DecimalsError(pub u8);

impl TokenDecimals {
    /// Eighteen: the token's base unit is the wei.
    pub const EVM: Self = Self(EVM_DECIMALS);

    /// Checks the range.
    ///
    /// # Errors
    /// [`DecimalsError`] outside 1 to 18.
    pub const fn new(decimals: u8) -> Result<Self, DecimalsError> {
        match decimals {
            1..=EVM_DECIMALS => Ok(Self(decimals)),
            _ => Err(DecimalsError(decimals)),
        }
    }

    /// Digits after the point.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Wei in the token's base unit: 10^(18 - decimals).
    pub fn conversion_factor(self) -> u64 {
        power_of_ten(EVM_DECIMALS.saturating_sub(self.0))
    }

    /// One wei in the token's base unit: the least step of the base fee upwards.
    pub fn unit(self) -> LegacyDec {
        let raw = I512::try_from(power_of_ten(self.0)).expect("64 bits fit 512");
        LegacyDec::from_raw(raw).expect("at most one")
    }

    /// A price in the token's base unit as wei, fraction kept.
    ///
    /// # Errors
    /// [`DecError::Overflow`].
    pub fn to_wei(self, price: LegacyDec) -> Result<LegacyDec, DecError> {
        price.checked_mul_int(U256::from(self.conversion_factor()))
    }

    /// A whole number of wei in the token's base unit, exact.
    pub fn from_wei(self, wei: u64) -> LegacyDec {
        let factor = U256::from(self.conversion_factor());
        LegacyDec::from(wei).quo_int(factor).expect("a power of ten is not zero")
    }
}

/// 10^`exponent`; the exponent is at most 18, so it fits.
fn power_of_ten(exponent: u8) -> u64 {
    10_u64.pow(u32::from(exponent))
}

/// What the next base fee follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inputs {
    /// Gas that counts as used by the last block, see [`super::block_gas`].
    pub used: u64,
    /// Gas at which the fee stays, see [`gas_target`].
    pub target: u64,
    /// `base_fee_change_denominator`.
    pub denominator: u64,
    /// Base fee of the last block, in the token's base unit.
    pub base: LegacyDec,
    /// Least step upwards, see [`TokenDecimals::unit`].
    pub unit: LegacyDec,
    /// `min_gas_price`.
    pub floor: LegacyDec,
}

/// Base fee of the next block, in the token's base unit.
///
/// Two truncating divisions, by target and then by denominator, are the only rounding. The floor is
/// not applied where the fee stays or rises, nor with a target of zero.
///
/// # Errors
/// [`DecError`] for a denominator of zero or a fee past the range of decimals.
pub fn next_base_fee(inputs: &Inputs) -> Result<LegacyDec, DecError> {
    let &Inputs { used, target, denominator, base, unit, floor } = inputs;
    if used == target {
        return Ok(base);
    }
    if target == 0 {
        return Ok(LegacyDec::ZERO);
    }
    let distance = U256::from(used.abs_diff(target));
    let delta = base
        .checked_mul_int(distance)?
        .quo_int(U256::from(target))?
        .quo_int(U256::from(denominator))?;
    if used > target {
        base.checked_add(delta.max(unit))
    } else {
        Ok(base.checked_sub(delta)?.max(floor))
    }
}

/// Gas at which the fee stays: the block gas limit over the elasticity, truncated. `None` for an
/// elasticity of zero.
pub const fn gas_target(gas_limit: u64, elasticity: u32) -> Option<u64> {
    // A lossless cast: `u64::from` is not const.
    gas_limit.checked_div(elasticity as u64)
}

/// A consensus parameter `max_gas` below -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("max_gas {0} is neither a gas limit nor -1 for none")]
pub struct InvalidMaxGas(pub i64);

/// The block gas limit that the consensus parameter `max_gas` stands for: -1, or none at all, is
/// unlimited, 2^64 - 1.
///
/// # Errors
/// [`InvalidMaxGas`] below -1.
pub fn block_gas_limit(max_gas: Option<i64>) -> Result<u64, InvalidMaxGas> {
    match max_gas {
        None | Some(-1) => Ok(u64::MAX),
        Some(limit) => u64::try_from(limit).map_err(|_| InvalidMaxGas(limit)),
    }
}
