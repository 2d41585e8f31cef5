//! The methods that suggest gas prices for new transactions.

use crate::{
    method::{Answer, Call, write_json},
    services::Prices,
};
use alloy_primitives::U128;
use feehistory::{FeeRow, Tip};
use feemarket::Market;
use rpc_types::error::Error;
use state::View;

/// Maximum number of non-empty blocks from which the suggested priority fee is computed.
const TIP_BLOCKS: usize = 20;
/// Maximum number of blocks that are searched for them, which limits the cost on an idle chain.
const MAX_TIP_BLOCKS_SEARCHED: u64 = 128;
/// The suggested priority fee is this percentile of the fees, weighted by gas.
const TIP_PERCENT: u64 = 60;
/// If the fee market has no base fee, the gas price is this percentile of the prices, weighted by gas.
const MEDIAN_PERCENT: u64 = 50;
/// Maximum suggested priority fee in wei: 500 gwei, which is the default of geth and reth.
const MAX_SUGGESTED_TIP: u128 = 500_000_000_000;
/// A block that uses less than this percentage of its gas limit had space for every transaction, so its fees do not
/// show which fee is necessary.
const FULL_PERCENT: u64 = 50;
/// Divisor of the base fee for the suggestion on an Ethereum chain without transactions. The result is the amount by
/// which a full block raises the base fee, `base_fee * (elasticity - 1) / denominator`, with EIP-1559's constants.
const TIP_FALLBACK_DIVISOR: u128 = 8;

pub(super) fn gas_price(call: &Call) -> Answer {
    call.no_arguments()?;
    let view = &call.view;
    let price = match without_base_fee(view) {
        Some(_) => prices(call)?.median,
        None => u128::from(call.next_base_fee()).saturating_add(suggested_tip(call)?),
    };
    // The pool must accept the suggested price.
    write_json(&U128::from(price.max(min_price(view)).max(call.context.pool_limits.price_limit)))
}

pub(super) fn max_priority_fee(call: &Call) -> Answer {
    call.no_arguments()?;
    write_json(&U128::from(suggested_tip(call)?))
}

pub(super) fn base_fee(call: &Call) -> Answer {
    call.no_arguments()?;
    let view = &call.view;
    let base_fee = match without_base_fee(view) {
        Some(_) => prices(call)?.median,
        None => u128::from(call.next_base_fee()),
    };
    write_json(&U128::from(base_fee))
}

/// Returns the fee market if its parameters disable the base fee.
fn without_base_fee(view: &View) -> Option<&Market> {
    view.head.market().filter(|market| market.base_fee().is_none())
}

/// Returns `min_gas_price` in wei, rounded up to an integer.
fn min_price(view: &View) -> u128 {
    let price = view.head.market().map(Market::min_gas_price_wei).unwrap_or_default();
    u128::try_from(price.ceil()).unwrap_or(u128::MAX)
}

pub(super) fn blob_base_fee(call: &Call) -> Answer {
    call.no_arguments()?;
    let header = &call.view.head.header;
    let params = call.context.spec.blob_params(header.timestamp).zip(header.excess_blob_gas);
    write_json(
        &params.map_or(U128::ZERO, |(params, excess)| U128::from(params.calc_blob_fee(excess))),
    )
}

/// Returns the priority fee that outbids most of the gas of recent blocks.
pub(super) fn suggested_tip(call: &Call) -> Result<u128, Error> {
    Ok(prices(call)?.tip.max(min_tip(call)))
}

/// Returns the prices at the head, which are stored until the head changes.
fn prices(call: &Call) -> Result<std::sync::Arc<Prices>, Error> {
    let view = &call.view;
    call.services.prices(view, || {
        let rows = recent_rows(view)?;
        let fallback = fallback_tip(view);
        // Without a base fee, the priority fee is the whole price, and a block with free space does not show that a
        // lower one is enough.
        let cap = without_base_fee(view).map_or(fallback, |_| MAX_SUGGESTED_TIP);
        Ok(Prices {
            head: view.head.hash,
            tip: tip_of(&rows, fallback, cap).min(MAX_SUGGESTED_TIP),
            median: median_price(view, &rows),
        })
    })
}

/// Returns the priority fee that outbids most of the gas of `rows`, or `fallback` if there are none. In a block that is
/// far from full, a priority fee above `cap` counts as `cap`. Otherwise one client that always outbids the suggestion
/// would raise it without limit.
fn tip_of(rows: &[FeeRow], fallback: u128, cap: u128) -> u128 {
    let tips = rows.iter().flat_map(|row| {
        let max = if is_far_from_full(row) { cap } else { u128::MAX };
        row.tips.iter().map(move |tip| Tip { tip: tip.tip.min(max), ..*tip })
    });
    gas_percentile(tips.collect(), TIP_PERCENT).unwrap_or(fallback)
}

fn is_far_from_full(row: &FeeRow) -> bool {
    u128::from(row.gas_used) * 100 < u128::from(row.gas_limit) * u128::from(FULL_PERCENT)
}

/// Returns the priority fee that this node's mempool requires at the next base fee.
fn min_tip(call: &Call) -> u128 {
    let limits = &call.context.pool_limits;
    let base_fee = u128::from(call.next_base_fee());
    limits.min_tip.max(limits.price_limit.saturating_sub(base_fee))
}

/// Returns the suggestion if there are no transactions: the amount by which a full block raises the base fee.
fn fallback_tip(view: &View) -> u128 {
    let base_fee = u128::from(view.head.next_base_fee);
    let Some(market) = view.head.market() else { return base_fee / TIP_FALLBACK_DIVISOR };
    let params = market.params();
    let rise = u128::from(params.elasticity_multiplier.saturating_sub(1));
    // The product has at most 64 + 32 bits. A valid denominator is not zero.
    base_fee * rise / u128::from(params.base_fee_change_denominator.max(1))
}

/// Returns the median price of recent blocks, weighted by gas, but at most [`MAX_SUGGESTED_TIP`] above the minimum.
fn median_price(view: &View, rows: &[FeeRow]) -> u128 {
    let prices = rows.iter().flat_map(|row| {
        let base_fee = u128::from(row.base_fee);
        row.tips.iter().map(move |tip| Tip { tip: tip.tip.saturating_add(base_fee), ..*tip })
    });
    let min = min_price(view);
    let max = min.saturating_add(MAX_SUGGESTED_TIP);
    gas_percentile(prices.collect(), MEDIAN_PERCENT).map_or(min, |price| price.min(max))
}

/// Returns the rows of the last non-empty blocks.
fn recent_rows(view: &View) -> Result<Vec<FeeRow>, Error> {
    let head = view.number();
    let rows = fee_rows(view, head.saturating_sub(MAX_TIP_BLOCKS_SEARCHED - 1), head)?;
    Ok(rows.into_iter().rev().filter(|row| !row.tips.is_empty()).take(TIP_BLOCKS).collect())
}

/// Returns the lowest price at or below which `percent` of the gas was bought, or `None` without prices.
fn gas_percentile(mut prices: Vec<Tip>, percent: u64) -> Option<u128> {
    prices.sort_unstable();
    let gas: u128 = prices.iter().map(|price| u128::from(price.gas)).sum();
    let mut left = gas * u128::from(percent) / 100;
    for price in &prices {
        match left.checked_sub(u128::from(price.gas)) {
            Some(rest) if rest > 0 => left = rest,
            _ => return Some(price.tip),
        }
    }
    prices.last().map(|price| price.tip)
}

/// Returns the rows of the blocks `first` to `last`, which must not exceed the head.
fn fee_rows(view: &View, first: u64, last: u64) -> Result<Vec<FeeRow>, Error> {
    let blocks = view.blocks()?;
    let rows = blocks.fees_range(first..=last)?;
    rows.map(|row| {
        let (_, row) = row?;
        FeeRow::read(&row).map_err(Error::internal)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GWEI: u128 = 1_000_000_000;

    fn row(gas_used: u64, tips: &[(u128, u64)]) -> FeeRow {
        let tips = tips.iter().map(|(tip, gas)| Tip { tip: *tip, gas: *gas }).collect();
        FeeRow { gas_used, gas_limit: 1000, tips, ..FeeRow::default() }
    }

    #[test]
    fn only_blocks_with_little_space_raise_the_suggested_tip() {
        assert_eq!(tip_of(&[], 7, 7), 7);
        assert_eq!(tip_of(&[row(499, &[(50, 499)])], 7, 7), 7);
        assert_eq!(tip_of(&[row(500, &[(50, 500)])], 7, 7), 50);
        assert_eq!(tip_of(&[row(499, &[(3, 499)])], 7, 7), 3, "a lower fee was enough");
    }

    #[test]
    fn a_client_that_outbids_the_suggestion_does_not_raise_it() {
        let mut tip = GWEI;
        let mut rows = Vec::new();
        for _ in 0..100 {
            rows.push(row(21, &[(tip * 6 / 5, 21)]));
            tip = tip_of(&rows, GWEI, GWEI);
        }
        assert_eq!(tip, GWEI);
    }
}
