//! The four fee steps of the requirement, in order.

use super::{CheckContext, Mode, Reject};
use alloy_primitives::U256;
use feemarket::{DecError, GasWanted, LegacyDec, Price, fee};

/// Step 1: before London, a transaction for this node's pool pays at least the price of the setting
/// `mempool.minimum-gas-prices` for its whole gas limit. From London on the step has no effect.
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

/// Step 2: the fee for the following steps: the effective fee at the base fee for a dynamic-fee transaction,
/// and the stated one for others. In wei per gas.
pub(super) fn effective_price(price: Price, base_fee: u64) -> u128 {
    price.effective(u128::from(base_fee))
}

/// Step 3, `CheckGlobalFee`: at least the chain's `min_gas_price` for the whole gas limit, compared as
/// decimals without rounding. Zero means no minimum.
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

/// Step 4: since London and with an enabled base fee, the gas limit is added to the block's gas wanted.
pub(super) fn gas_wanted(gas: u64, context: &CheckContext<'_>) -> Result<GasWanted, Reject> {
    let mut sum = context.gas_wanted;
    if context.london && context.base_fee_enabled {
        sum.add(gas).map_err(|_| Reject::GasWantedOverflow { gas })?;
    }
    Ok(sum)
}

/// `price * gas` truncated to whole wei, if `fee` is below it.
fn is_below(fee: U256, price: LegacyDec, gas: u64) -> Option<U256> {
    if price == LegacyDec::ZERO {
        return None;
    }
    match price.checked_mul_int(U256::from(gas)) {
        Ok(required) if LegacyDec::from(fee) >= required => None,
        Ok(required) => Some(required.truncate_u256().unwrap_or(U256::MAX)),
        // A fee of 192 bits is always below it.
        Err(DecError::Overflow | _) => Some(U256::MAX),
    }
}
