//! Calculates the base fee: the formula of EIP-1559 in decimals.
//!
//! The formula depends neither on heights nor on the [`super::Market`]. Unlike in EIP-1559, nothing is rounded to
//! whole wei, and there is a minimum fee, which is applied only if the fee falls. As in EIP-1559, the fee rises by
//! at least one wei.

use super::dec::{DecError, LegacyDec};
use alloy_primitives::{U256, aliases::I512};
use thiserror::Error;

/// Number of decimals that every token has in the EVM.
const EVM_DECIMALS: u8 = 18;

/// The number of decimals of the chain's token, 1 to 18.
///
/// Prices in [`super::Params`] are in the token's base unit. The EVM uses wei, and a token always has 10^18 wei.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenDecimals(u8);

/// The number of decimals is not between 1 and 18.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("token decimals must be between 1 and 18, got {0}")]
pub struct DecimalsError(pub u8);

impl TokenDecimals {
    /// 18 decimals: the token's base unit is the wei.
    pub const EVM: Self = Self(EVM_DECIMALS);

    /// Creates a number of decimals.
    ///
    /// # Errors
    /// [`DecimalsError`] if it is not in the range 1 to 18.
    pub const fn new(decimals: u8) -> Result<Self, DecimalsError> {
        match decimals {
            1..=EVM_DECIMALS => Ok(Self(decimals)),
            _ => Err(DecimalsError(decimals)),
        }
    }

    /// The number of decimals.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The number of wei in one base unit of the token: 10^(18 - decimals).
    pub fn conversion_factor(self) -> u64 {
        power_of_ten(EVM_DECIMALS.saturating_sub(self.0))
    }

    /// One wei in the token's base unit, which is the minimum by which the base fee rises.
    pub fn unit(self) -> LegacyDec {
        let raw = I512::try_from(power_of_ten(self.0)).expect("64 bits fit into 512 bits");
        LegacyDec::from_raw(raw).expect("at most one")
    }

    /// Converts a price from the token's base unit to wei, with its fraction.
    ///
    /// # Errors
    /// [`DecError::Overflow`].
    pub fn to_wei(self, price: LegacyDec) -> Result<LegacyDec, DecError> {
        price.checked_mul_int(U256::from(self.conversion_factor()))
    }

    /// Converts whole wei to the token's base unit. The result is exact.
    pub fn from_wei(self, wei: u64) -> LegacyDec {
        let factor = U256::from(self.conversion_factor());
        LegacyDec::from(wei).quo_int(factor).expect("a power of ten is not zero")
    }
}

/// Returns 10^`exponent`. The exponent must be at most 18, so that the result fits into 64 bits.
fn power_of_ten(exponent: u8) -> u64 {
    10_u64.pow(u32::from(exponent))
}

/// The values from which the next base fee is calculated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inputs {
    /// Gas that counts as used by the parent; see [`super::block_gas`].
    pub used: u64,
    /// Gas at which the fee does not change, see [`gas_target`].
    pub target: u64,
    /// `base_fee_change_denominator`.
    pub denominator: u64,
    /// Base fee of the parent, in the token's base unit.
    pub base: LegacyDec,
    /// Minimum by which the fee rises, see [`TokenDecimals::unit`].
    pub unit: LegacyDec,
    /// `min_gas_price`.
    pub floor: LegacyDec,
}

/// Base fee of the next block, in the token's base unit.
///
/// Two truncating divisions, by target and then by denominator, are the only rounding. The floor is not applied if
/// the fee rises or does not change, nor if the target is zero.
///
/// # Errors
/// [`DecError`] for a denominator of zero or a fee that is out of range.
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

/// Gas at which the fee does not change: the block gas limit divided by the elasticity, truncated. `None` for an
/// elasticity of zero.
pub const fn gas_target(gas_limit: u64, elasticity: u32) -> Option<u64> {
    // The cast is lossless. `u64::from` is not const.
    gas_limit.checked_div(elasticity as u64)
}

/// The consensus parameter `max_gas` is below -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("max_gas {0} is neither a gas limit nor -1 for none")]
pub struct InvalidMaxGas(pub i64);

/// The block gas limit that the consensus parameter `max_gas` represents. If it is -1 or absent, the limit is
/// 2^64 - 1.
///
/// # Errors
/// [`InvalidMaxGas`] below -1.
pub fn block_gas_limit(max_gas: Option<i64>) -> Result<u64, InvalidMaxGas> {
    match max_gas {
        None | Some(-1) => Ok(u64::MAX),
        Some(limit) => u64::try_from(limit).map_err(|_| InvalidMaxGas(limit)),
    }
}
