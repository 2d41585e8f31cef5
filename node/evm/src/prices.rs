//! Handles prices above 128 bits in calls. They are well-formed, but neither transactions nor the interpreter can
//! represent them, and their cost exceeds the total ether supply of a usual chain.

use super::{Call, CallError};
use alloy_eips::eip4844::DATA_GAS_PER_BLOB;
use alloy_primitives::U256;
use revm::context_interface::result::InvalidTransaction;

/// The prices of a call if at least one exceeds 128 bits. The fields of [`Call`] contain 2^128 - 1 for such a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WidePrices {
    /// Legacy gas price or fee cap, in wei.
    pub fee_cap: U256,
    /// Priority fee, in wei.
    pub tip: U256,
    /// Fee cap of blob gas, in wei.
    pub blob_fee_cap: U256,
}

impl WidePrices {
    /// Returns the prices if at least one exceeds 128 bits.
    pub fn of(fee_cap: U256, tip: U256, blob_fee_cap: U256) -> Option<Self> {
        let is_wide = [fee_cap, tip, blob_fee_cap].iter().any(|price| price.bit_len() > 128);
        is_wide.then_some(Self { fee_cap, tip, blob_fee_cap })
    }

    /// Returns why a call with these prices is not executed: its sender cannot pay. If an override raises the balance
    /// enough, the reason is that such prices are not supported.
    pub(super) fn refusal(&self, call: &Call, gas: u64, balance: U256) -> CallError {
        if self.tip > self.fee_cap {
            return CallError::Invalid(InvalidTransaction::PriorityFeeGreaterThanMaxFee);
        }
        let blob_gas = DATA_GAS_PER_BLOB * call.blob_hashes.len() as u64;
        let fee = self.fee_cap.checked_mul(U256::from(gas));
        let blob_fee = self.blob_fee_cap.checked_mul(U256::from(blob_gas));
        let fees = fee.zip(blob_fee).and_then(|(fee, blob_fee)| fee.checked_add(blob_fee));
        match fees.and_then(|fees| fees.checked_add(call.value)) {
            None => CallError::Invalid(InvalidTransaction::OverflowPaymentInTransaction),
            Some(cost) if cost > balance => {
                CallError::Invalid(InvalidTransaction::LackOfFundForMaxFee {
                    fee: Box::new(cost),
                    balance: Box::new(balance),
                })
            }
            Some(_) => CallError::PriceTooHigh,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::B256;

    #[test]
    fn prices_are_wide_above_128_bits() {
        let max = U256::from(u128::MAX);
        assert_eq!(WidePrices::of(max, max, max), None);
        for index in 0..3 {
            let mut prices = [max; 3];
            prices[index] += U256::ONE;
            let [fee_cap, tip, blob_fee_cap] = prices;
            assert!(WidePrices::of(fee_cap, tip, blob_fee_cap).is_some(), "{index}");
        }
    }

    #[test]
    fn wide_price_is_refused_with_its_cost() {
        let call = |blobs| Call { blob_hashes: vec![B256::ZERO; blobs], ..Call::default() };
        let wide = U256::ONE << 130;
        let refusal = |fee_cap, tip, blob_fee_cap, blobs, balance| {
            let prices = WidePrices { fee_cap, tip, blob_fee_cap };
            match prices.refusal(&call(blobs), 21_000, balance) {
                CallError::Invalid(reason) => format!("{reason:?}"),
                error => error.to_string(),
            }
        };
        let (zero, max) = (U256::ZERO, U256::MAX);
        let cost = wide * U256::from(21_000);
        let lack = |fee: U256| format!("LackOfFundForMaxFee {{ fee: {fee}, balance: 7 }}");
        assert_eq!(refusal(wide, zero, zero, 0, U256::from(7)), lack(cost));
        let blob_cost = wide * U256::from(2 * DATA_GAS_PER_BLOB);
        assert_eq!(refusal(zero, zero, wide, 2, U256::from(7)), lack(blob_cost));
        assert_eq!(refusal(zero, wide, zero, 0, max), "PriorityFeeGreaterThanMaxFee");
        assert_eq!(refusal(max, zero, zero, 0, max), "OverflowPaymentInTransaction");
        assert!(refusal(wide, wide, zero, 0, max).contains("2^128"));
    }
}
