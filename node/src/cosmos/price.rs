//! What a Cosmos transaction pays for gas: the reference's dynamic fee checker (2.7).

use super::error::{Refusal, insufficient_fee, invalid_request, plain};
use crate::feemarket::LegacyDec;
use alloy_primitives::U256;

/// What a transaction offers for its gas. In wei.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeePrice {
    /// The fee stated.
    pub fee: U256,
    /// The gas limit.
    pub gas: u64,
    /// Most it gives above the base fee, per gas; `None` for no such limit.
    pub tip: Option<U256>,
}

/// What a transaction is charged at a base fee. In wei.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Per gas, with its fraction.
    pub price: LegacyDec,
    /// In all, rounded up.
    pub fee: U256,
}

impl FeePrice {
    /// Most it pays per gas: fee / gas, cut at 18 digits.
    ///
    /// # Errors
    /// Without gas, or past all bounds.
    pub fn cap(&self) -> Result<LegacyDec, Refusal> {
        if self.gas == 0 {
            return Err(invalid_request("gas limit must not be zero"));
        }
        let fee = self.fee.min(U256::MAX >> 1);
        let cap = LegacyDec::from(fee).quo_int(U256::from(self.gas));
        cap.map_err(|error| invalid_request(error.to_string()))
    }

    /// The step `MinGasPrice`: at least the chain's least price for the whole gas limit, rounded up.
    ///
    /// # Errors
    /// Why the fee is too low.
    pub fn reaches_minimum(&self, minimum: LegacyDec, denom: &str) -> Result<(), Refusal> {
        if minimum == LegacyDec::ZERO {
            return Ok(());
        }
        let required = minimum.checked_mul_int(U256::from(self.gas));
        let required = required.ok().and_then(ceil).unwrap_or(U256::MAX);
        if self.fee.is_zero() && !required.is_zero() {
            return Err(insufficient_fee(format!(
                "fee not provided. Please use the --fees flag or the --gas-price flag along with \
                 the --gas flag to set the fee. The minimum global fee for this tx is: \
                 {required}{denom}"
            )));
        }
        if self.fee < required {
            return Err(insufficient_fee(format!(
                "provided fee < minimum global fee ({}{denom} < {required}{denom}). Please increase \
                 the gas price.",
                self.fee
            )));
        }
        Ok(())
    }

    /// What is charged in a block of this base fee.
    ///
    /// # Errors
    /// When the cap is below it.
    pub fn charge(&self, base_fee: u64, denom: &str) -> Result<Charge, Refusal> {
        let (cap, base) = (self.cap()?, LegacyDec::from(U256::from(base_fee)));
        if cap < base {
            return Err(insufficient_fee(format!(
                "gas prices too low, got: {cap}{denom} required: {base}{denom}. Please retry using \
                 a higher gas price or a higher fee"
            )));
        }
        let wanted = match self.tip {
            // A tip past all bounds is no limit either.
            Some(tip) => base.checked_add(LegacyDec::from(tip.min(U256::MAX >> 1))).unwrap_or(cap),
            None => cap,
        };
        let price = wanted.min(cap);
        let fee = price.checked_mul_int(U256::from(self.gas)).ok().and_then(ceil);
        let fee = fee.ok_or_else(|| plain("the fee overflows"))?;
        Ok(Charge { price, fee })
    }
}

fn ceil(value: LegacyDec) -> Option<U256> {
    let whole = value.truncate_u256()?;
    let exact = LegacyDec::from(whole) == value;
    if exact { Some(whole) } else { whole.checked_add(U256::ONE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dec(text: &str) -> LegacyDec {
        text.parse().unwrap()
    }

    #[test]
    fn minimum_fees_are_the_reference_s() {
        for (price, gas, required) in [
            ("10", 21_000, 210_000_u64),
            ("0.1", 21_001, 2_101),
            ("0.000000001", 1, 1),
            ("1.5", 3, 5),
            ("2.000000000000000001", 1, 3),
        ] {
            let with = |fee| FeePrice { fee: U256::from(fee), gas, tip: None };
            with(required).reaches_minimum(dec(price), "atest").unwrap();
            let short = with(required - 1).reaches_minimum(dec(price), "atest").unwrap_err();
            assert_eq!(short.code.number, 13, "{price}");
        }
        let none = FeePrice { fee: U256::ZERO, gas: 7, tip: None };
        none.reaches_minimum(LegacyDec::ZERO, "atest").unwrap();
        let refused = none.reaches_minimum(LegacyDec::ONE, "atest").unwrap_err();
        assert!(refused.detail.starts_with("fee not provided"), "{refused}");
    }

    #[test]
    fn charges_are_the_reference_s() {
        for (fee, gas, base, tip, effective, charged) in [
            (10_u64, 1, 10, None, "10", 10_u64),
            (10_000_010, 1, 10, None, "10000010", 10_000_010),
            (10_000_000, 1, 10, Some(0_u64), "10", 10),
            (10_000_010, 1, 10, Some(5_000_000), "5000010", 5_000_010),
            (7, 3, 1, None, "2.333333333333333333", 7),
        ] {
            let offer = FeePrice { fee: U256::from(fee), gas, tip: tip.map(U256::from) };
            let charge = offer.charge(base, "atest").unwrap();
            assert_eq!((charge.price, charge.fee), (dec(effective), U256::from(charged)));
        }
        let low = FeePrice { fee: U256::from(9), gas: 1, tip: None };
        assert_eq!(low.charge(10, "atest").unwrap_err().code.number, 13);
        let none = FeePrice { gas: 0, ..low };
        assert_eq!(none.charge(0, "atest").unwrap_err().code.number, 18);
    }
}
