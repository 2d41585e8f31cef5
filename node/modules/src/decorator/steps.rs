//! The four steps that check the fee, in order.

use super::{CheckContext, Mode, Reject};
use alloy_primitives::U256;
use feemarket::{DecError, GasWanted, LegacyDec, Price, fee};

/// Step 1: before London, a transaction for this node's pool must pay at least the price in
/// `mempool.minimum-gas-prices` for its whole gas limit. From London on, this step has no effect.
pub(super) fn mempool_minimum(
    price: Price,
    gas: u64,
    context: &CheckContext<'_>,
    mode: Mode,
) -> Result<(), Reject> {
    if context.london || !mode.is_in_pool() {
        return Ok(());
    }
    let fee = fee(gas, price.fee_cap());
    match is_below(fee, context.mempool_min_gas_price, gas) {
        Some(required) => Err(Reject::MempoolMinimum { fee, required }),
        None => Ok(()),
    }
}

/// Step 2: returns the price for the following steps, in wei per gas: the effective price at the base fee for a
/// dynamic-fee transaction, and the stated price for others.
pub(super) fn effective_price(price: Price, base_fee: u64) -> u128 {
    price.effective(u128::from(base_fee))
}

/// Step 3, `CheckGlobalFee`: the fee must be at least the chain's `min_gas_price` for the whole gas limit,
/// compared as decimals without rounding. Zero means no minimum.
pub(super) fn global_minimum(
    effective_price: u128,
    gas: u64,
    context: &CheckContext<'_>,
) -> Result<(), Reject> {
    let fee = fee(gas, effective_price);
    match is_below(fee, context.min_gas_price, gas) {
        Some(required) => Err(Reject::GlobalMinimum { fee, required }),
        None => Ok(()),
    }
}

/// Step 4: since London and if the base fee is enabled, the gas limit is added to the block's gas wanted.
pub(super) fn gas_wanted(gas: u64, context: &CheckContext<'_>) -> Result<GasWanted, Reject> {
    let mut sum = context.gas_wanted;
    if context.london && context.base_fee_enabled {
        sum.add(gas).map_err(|_| Reject::GasWantedOverflow { gas })?;
    }
    Ok(sum)
}

/// Returns `price * gas` truncated to whole wei, if `fee` is below it.
fn is_below(fee: U256, price: LegacyDec, gas: u64) -> Option<U256> {
    if price == LegacyDec::ZERO {
        return None;
    }
    match price.checked_mul_int(U256::from(gas)) {
        Ok(required) if LegacyDec::from(fee) >= required => None,
        Ok(required) => Some(required.truncate_u256().unwrap_or(U256::MAX)),
        // A fee has at most 192 bits, so it is always lower.
        Err(DecError::Overflow | _) => Some(U256::MAX),
    }
}
