//! Encodes and decodes parameters as protobuf `cosmos.evm.feemarket.v1.Params`, for gRPC and for storage.
//!
//! Decimals are written as scaled integers and never omitted. Decimals with a point are read too.

use super::{Draft, Params, ParamsError};
use crate::{
    dec::LegacyDec,
    wire::{Field, Reader, Writer},
};

const NO_BASE_FEE: u64 = 1;
const BASE_FEE_CHANGE_DENOMINATOR: u64 = 2;
const ELASTICITY_MULTIPLIER: u64 = 3;
const ENABLE_HEIGHT: u64 = 5;
const BASE_FEE: u64 = 6;
const MIN_GAS_PRICE: u64 = 7;
const MIN_GAS_MULTIPLIER: u64 = 8;

impl Params {
    /// Encodes the parameters as protobuf.
    pub fn to_proto(&self) -> Vec<u8> {
        Writer::default()
            .number(NO_BASE_FEE, self.no_base_fee.into())
            .number(BASE_FEE_CHANGE_DENOMINATOR, self.base_fee_change_denominator.into())
            .number(ELASTICITY_MULTIPLIER, self.elasticity_multiplier.into())
            // Protobuf writes negative numbers as their two's complement.
            .number(ENABLE_HEIGHT, self.enable_height.cast_unsigned())
            .bytes(BASE_FEE, self.base_fee.to_scaled().as_bytes())
            .bytes(MIN_GAS_PRICE, self.min_gas_price.to_scaled().as_bytes())
            .bytes(MIN_GAS_MULTIPLIER, self.min_gas_multiplier.to_scaled().as_bytes())
            .finish()
    }

    /// Reads and validates protobuf bytes.
    ///
    /// # Errors
    /// [`ParamsError`] if the bytes are malformed or the parameters are invalid.
    pub fn from_proto(bytes: &[u8]) -> Result<Self, ParamsError> {
        let mut draft = Draft::default();
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            match field.number {
                NO_BASE_FEE => draft.no_base_fee = field.number::<u64>()? != 0,
                BASE_FEE_CHANGE_DENOMINATOR => {
                    draft.base_fee_change_denominator = field.number()?;
                }
                ELASTICITY_MULTIPLIER => draft.elasticity_multiplier = field.number()?,
                ENABLE_HEIGHT => draft.enable_height = field.number::<u64>()?.cast_signed(),
                BASE_FEE => draft.base_fee = decimal("base_fee", field)?,
                MIN_GAS_PRICE => draft.min_gas_price = decimal("min_gas_price", field)?,
                MIN_GAS_MULTIPLIER => {
                    draft.min_gas_multiplier = decimal("min_gas_multiplier", field)?;
                }
                _ => {}
            }
        }
        draft.check()
    }
}

/// Reads a decimal; `None` if it was not set, which is an empty string.
fn decimal(name: &'static str, field: Field<'_>) -> Result<Option<LegacyDec>, ParamsError> {
    let text = field.text()?;
    if text.is_empty() {
        return Ok(None);
    }
    let value = if text.contains('.') { text.parse() } else { LegacyDec::from_scaled(text) };
    value.map(Some).map_err(|source| ParamsError::Decimal { field: name, source })
}
