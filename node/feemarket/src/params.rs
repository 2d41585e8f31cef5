//! Defines and validates the fee market's parameters.
//!
//! [`json`] and [`proto`] are their two encodings. Both read a [`Draft`], which may lack values, so that the same
//! checks in the same order apply to both.

mod json;
mod proto;

use super::{
    dec::{DecError, LegacyDec},
    wire::WireError,
};
use alloy_primitives::U256;
use thiserror::Error;

pub use json::Scaled;
pub(super) use json::integer;
pub use json::optional_integer;

/// Parameters of the fee market. Prices are in the token's base unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Turns the base fee off.
    pub no_base_fee: bool,
    /// An empty block lowers the base fee by the fee divided by this number.
    pub base_fee_change_denominator: u32,
    /// The block gas limit divided by the gas target.
    pub elasticity_multiplier: u32,
    /// Height from which the base fee is enabled. The block at this height has the initial base fee.
    pub enable_height: i64,
    /// The current base fee. Every block above the enable height updates it.
    pub base_fee: LegacyDec,
    /// The minimum gas price, and the minimum base fee.
    pub min_gas_price: LegacyDec,
    /// Share of a gas limit that is charged even if it is unused, 0 to 1.
    pub min_gas_multiplier: LegacyDec,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            no_base_fee: false,
            base_fee_change_denominator: 8,
            elasticity_multiplier: 2,
            enable_height: 0,
            base_fee: LegacyDec::from(1_000_000_000),
            min_gas_price: LegacyDec::ZERO,
            min_gas_multiplier: LegacyDec::ONE.quo_int(U256::from(2)).expect("two is not zero"),
        }
    }
}

/// Why parameters are rejected. The texts are those of cosmos/evm.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParamsError {
    /// The fee would be divided by zero.
    #[error("base fee change denominator cannot be 0")]
    ZeroDenominator,
    /// The gas limit would be divided by zero.
    #[error("elasticity multiplier cannot be zero: 0")]
    ZeroElasticity,
    /// The enable height is negative.
    #[error("enable height cannot be negative: {0}")]
    NegativeEnableHeight(i64),
    /// The base fee is negative.
    #[error("initial base fee cannot be negative: {0}")]
    NegativeBaseFee(LegacyDec),
    /// A decimal is missing.
    #[error("invalid parameter: nil")]
    Unset(&'static str),
    /// Another decimal is negative.
    #[error("value cannot be negative: {0}")]
    Negative(LegacyDec),
    /// The minimum gas multiplier exceeds 1.
    #[error("value cannot be greater than 1: {0}")]
    AboveOne(LegacyDec),
    /// A decimal that cannot be read.
    #[error("{field}: {source}")]
    Decimal {
        /// The name of the field.
        field: &'static str,
        /// The reason.
        source: DecError,
    },
    /// The bytes are not a protobuf message.
    #[error(transparent)]
    Wire(#[from] WireError),
}

impl Params {
    /// Checks the parameters in the order of cosmos/evm, and returns the first failure.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub fn validate(&self) -> Result<(), ParamsError> {
        Draft {
            no_base_fee: self.no_base_fee,
            base_fee_change_denominator: self.base_fee_change_denominator,
            elasticity_multiplier: self.elasticity_multiplier,
            enable_height: self.enable_height,
            base_fee: Some(self.base_fee),
            min_gas_price: Some(self.min_gas_price),
            min_gas_multiplier: Some(self.min_gas_multiplier),
        }
        .check()
        .map(drop)
    }
}

/// Parameters before validation. Omitted integers are zero, as in protobuf, and decimals may be missing.
#[derive(Debug, Default)]
struct Draft {
    no_base_fee: bool,
    base_fee_change_denominator: u32,
    elasticity_multiplier: u32,
    enable_height: i64,
    base_fee: Option<LegacyDec>,
    min_gas_price: Option<LegacyDec>,
    min_gas_multiplier: Option<LegacyDec>,
}

impl Draft {
    /// Performs all checks. Their order decides which error is returned.
    fn check(self) -> Result<Params, ParamsError> {
        if self.base_fee_change_denominator == 0 {
            return Err(ParamsError::ZeroDenominator);
        }
        let base_fee = self.base_fee.ok_or(ParamsError::Unset("base_fee"))?;
        if base_fee.is_negative() {
            return Err(ParamsError::NegativeBaseFee(base_fee));
        }
        if self.enable_height < 0 {
            return Err(ParamsError::NegativeEnableHeight(self.enable_height));
        }
        if self.elasticity_multiplier == 0 {
            return Err(ParamsError::ZeroElasticity);
        }
        let min_gas_multiplier = not_negative("min_gas_multiplier", self.min_gas_multiplier)?;
        if min_gas_multiplier > LegacyDec::ONE {
            return Err(ParamsError::AboveOne(min_gas_multiplier));
        }
        let min_gas_price = not_negative("min_gas_price", self.min_gas_price)?;
        Ok(Params {
            no_base_fee: self.no_base_fee,
            base_fee_change_denominator: self.base_fee_change_denominator,
            elasticity_multiplier: self.elasticity_multiplier,
            enable_height: self.enable_height,
            base_fee,
            min_gas_price,
            min_gas_multiplier,
        })
    }
}

fn not_negative(field: &'static str, value: Option<LegacyDec>) -> Result<LegacyDec, ParamsError> {
    let value = value.ok_or(ParamsError::Unset(field))?;
    if value.is_negative() { Err(ParamsError::Negative(value)) } else { Ok(value) }
}
