//! Computes the gas price of a Cosmos transaction like cosmos/evm's dynamic fee checker.

use super::error::{Refusal, insufficient_fee, invalid_request, plain};
use alloy_primitives::U256;
use chain::Token;
use feemarket::LegacyDec;

/// The offered fee of a transaction. Amounts are in the token's base unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeePrice {
    /// The stated fee.
    pub fee: U256,
    /// The gas limit.
    pub gas: u64,
    /// The maximum priority fee per gas; `None` if there is no limit.
    pub tip: Option<U256>,
}

/// The charge for a transaction in a block with a given base fee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Price in wei per gas, with its fraction.
    pub price: LegacyDec,
    /// The fee in the token's base unit, rounded up to whole units.
    pub amount: U256,
    /// The fee in wei.
    pub fee: U256,
}

impl FeePrice {
    /// Returns the maximum price per gas in the token's base unit: fee / gas, truncated to 18 decimal places.
    ///
    /// # Errors
    /// Returns an error if the gas limit is zero.
    pub fn cap(&self) -> Result<LegacyDec, Refusal> {
        if self.gas == 0 {
            return Err(invalid_request("gas limit must not be zero"));
        }
        let fee = self.fee.min(U256::MAX >> 1);
        let cap = LegacyDec::from(fee).quo_int(U256::from(self.gas));
        cap.map_err(|error| invalid_request(error.to_string()))
    }

    /// Checks that the fee pays the minimum gas price (`MinGasPrice`) for the whole gas limit. `minimum` is in wei per
    /// gas, and the product is rounded up to whole base units of the token.
    ///
    /// # Errors
    /// Returns an error if the fee is too low.
    pub fn reaches_minimum(&self, minimum: LegacyDec, token: Token<'_>) -> Result<(), Refusal> {
        let Some(required) = self.unmet_minimum(minimum, token) else { return Ok(()) };
        let denom = token.denom;
        Err(insufficient_fee(if self.fee.is_zero() {
            format!(
                "fee not provided. Please use the --fees flag or the --gas-price flag along with \
                 the --gas flag to set the fee. The minimum global fee for this tx is: \
                 {required}{denom}"
            )
        } else {
            format!(
                "provided fee < minimum global fee ({}{denom} < {required}{denom}). Please increase \
                 the gas price.",
                self.fee
            )
        }))
    }

    /// Does the same as [`Self::reaches_minimum`] for the minimum gas price of this node's mempool.
    ///
    /// # Errors
    /// Returns an error if the fee is too low.
    pub fn reaches_mempool_minimum(
        &self,
        minimum: LegacyDec,
        token: Token<'_>,
    ) -> Result<(), Refusal> {
        let Some(required) = self.unmet_minimum(minimum, token) else { return Ok(()) };
        let denom = token.denom;
        Err(insufficient_fee(format!(
            "insufficient fees; got: {}{denom} required: {required}{denom}",
            self.fee
        )))
    }

    /// Returns the fee for the whole gas limit at `minimum` wei per gas, rounded up to whole base units of the
    /// token, if the stated fee is lower.
    fn unmet_minimum(&self, minimum: LegacyDec, token: Token<'_>) -> Option<U256> {
        if minimum == LegacyDec::ZERO {
            return None;
        }
        let minimum = token.unit.price_from_wei(minimum);
        let required = minimum.checked_mul_int(U256::from(self.gas));
        let required = required.ok().and_then(ceil).unwrap_or(U256::MAX);
        (self.fee < required).then_some(required)
    }

    /// Returns the charge in a block with this base fee, which is in wei.
    ///
    /// # Errors
    /// Returns an error if the maximum price is below the base fee, the gas limit is 0, or the charge is out of range.
    pub fn charge(&self, base_fee: LegacyDec, token: Token<'_>) -> Result<Charge, Refusal> {
        let denom = token.denom;
        let base = token.unit.price_from_wei(base_fee);
        let cap = self.cap()?;
        if cap < base {
            return Err(insufficient_fee(format!(
                "gas prices too low, got: {cap}{denom} required: {base}{denom}. Please retry using \
                 a higher gas price or a higher fee"
            )));
        }
        let wanted = match self.tip {
            // A sum that is out of range does not limit the price.
            Some(tip) => base.checked_add(LegacyDec::from(tip.min(U256::MAX >> 1))).unwrap_or(cap),
            None => cap,
        };
        let price = wanted.min(cap);
        let overflows = || plain("the fee overflows");
        let amount = price.checked_mul_int(U256::from(self.gas)).ok().and_then(ceil);
        let amount = amount.ok_or_else(overflows)?;
        let fee = token.unit.to_wei(amount).ok_or_else(overflows)?;
        let price = token.unit.price_to_wei(price).map_err(|_| overflows())?;
        Ok(Charge { price, amount, fee })
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
    use chain::TokenUnit;
    use feemarket::TokenDecimals;

    const TEST: Token<'_> = Token { denom: "atest", unit: TokenUnit::WEI };

    fn dec(text: &str) -> LegacyDec {
        text.parse().unwrap()
    }

    #[test]
    fn minimum_fees_equal_those_of_cosmos_evm() {
        for (price, gas, required) in [
            ("10", 21_000, 210_000_u64),
            ("0.1", 21_001, 2_101),
            ("0.000000001", 1, 1),
            ("1.5", 3, 5),
            ("2.000000000000000001", 1, 3),
        ] {
            let with = |fee| FeePrice { fee: U256::from(fee), gas, tip: None };
            with(required).reaches_minimum(dec(price), TEST).unwrap();
            let error = with(required - 1).reaches_minimum(dec(price), TEST).unwrap_err();
            assert_eq!(error.code.number, 13, "{price}");
            with(required).reaches_mempool_minimum(dec(price), TEST).unwrap();
            with(required + 1).reaches_mempool_minimum(dec(price), TEST).unwrap();
            let error = with(required - 1).reaches_mempool_minimum(dec(price), TEST).unwrap_err();
            let text = format!(
                "insufficient fees; got: {}atest required: {required}atest: insufficient fee",
                required - 1
            );
            assert_eq!((error.code.number, error.to_string()), (13, text));
        }
        let zero_fee = FeePrice { fee: U256::ZERO, gas: 7, tip: None };
        zero_fee.reaches_minimum(LegacyDec::ZERO, TEST).unwrap();
        zero_fee.reaches_mempool_minimum(LegacyDec::ZERO, TEST).unwrap();
        let error = zero_fee.reaches_minimum(LegacyDec::ONE, TEST).unwrap_err();
        assert!(error.detail.starts_with("fee not provided"), "{error}");
    }

    #[test]
    fn charges_equal_those_of_cosmos_evm() {
        for (fee, gas, base, tip, effective, charged) in [
            (10_u64, 1, "10", None, "10", 10_u64),
            (10_000_010, 1, "10", None, "10000010", 10_000_010),
            (10_000_000, 1, "10", Some(0_u64), "10", 10),
            (10_000_010, 1, "10", Some(5_000_000), "5000010", 5_000_010),
            (7, 3, "1.5", None, "2.333333333333333333", 7),
            (7, 3, "1.5", Some(0), "1.5", 5),
        ] {
            let offer = FeePrice { fee: U256::from(fee), gas, tip: tip.map(U256::from) };
            let charge = offer.charge(dec(base), TEST).unwrap();
            assert_eq!((charge.price, charge.fee), (dec(effective), U256::from(charged)));
        }
        let low = FeePrice { fee: U256::from(9), gas: 1, tip: None };
        assert_eq!(low.charge(dec("9.000000000000000001"), TEST).unwrap_err().code.number, 13);
        let zero_gas = FeePrice { gas: 0, ..low };
        assert_eq!(zero_gas.charge(LegacyDec::ZERO, TEST).unwrap_err().code.number, 18);
    }

    /// In cosmos/evm, all prices and amounts are in the token's base unit, and whole units are charged.
    #[test]
    fn fees_of_tokens_with_fewer_decimals_are_whole_units() {
        for (decimals, minimum, gas, required) in [
            (6, "10000000000", 21_000, 210_u64), // 0.01 units
            (6, "10000000001", 21_000, 211),
            (6, "1", 21_000, 1),
            (8, "10000000000", 21_000, 21_000), // 1 unit
            (8, "9999999999.5", 21_000, 21_000),
            (18, "1.5", 3, 5),
        ] {
            let unit = TokenUnit::of(TokenDecimals::new(decimals).unwrap());
            let token = Token { denom: "utest", unit };
            let with = |fee| FeePrice { fee: U256::from(fee), gas, tip: None };
            with(required).reaches_minimum(dec(minimum), token).unwrap();
            with(required + 1).reaches_minimum(dec(minimum), token).unwrap();
            let error = with(required - 1).reaches_minimum(dec(minimum), token).unwrap_err();
            assert!(error.detail.contains(&format!("{required}utest")), "{error}");
        }
        let unit = TokenUnit::of(TokenDecimals::new(6).unwrap());
        let token = Token { denom: "utest", unit };
        let base_fee = 10_000_000_001_u64; // 0.010000000001 units
        let with = |fee| FeePrice { fee: U256::from(fee), gas: 21_000, tip: Some(U256::ZERO) };
        let charge = with(500_u64).charge(LegacyDec::from(base_fee), token).unwrap();
        assert_eq!(charge.price, LegacyDec::from(base_fee), "wei per gas");
        assert_eq!(charge.amount, U256::from(211), "210.000000021 rounded up");
        assert_eq!(charge.fee, U256::from(211_000_000_000_000_u64), "wei");
        assert_eq!(
            with(211).charge(LegacyDec::from(base_fee), token).unwrap().amount,
            charge.amount
        );
        let low = with(210).charge(LegacyDec::from(base_fee), token).unwrap_err();
        let text = "gas prices too low, got: 0.010000000000000000utest required: \
                    0.010000000001000000utest";
        assert!(low.detail.starts_with(text), "{low}");
        let maximum = FeePrice { fee: U256::MAX >> 1, gas: 1, tip: None };
        assert_eq!(
            maximum.charge(LegacyDec::ZERO, token).unwrap_err().code.number,
            1,
            "the fee in wei overflows"
        );
    }
}
