//! Prices: what to pay now.

use crate::{
    method::{Answer, Call, put},
    services::Prices,
};
use alloy_primitives::U128;
use feehistory::{FeeRow, Tip};
use feemarket::Market;
use rpc_types::error::Error;
use state::View;

/// Non-empty blocks the suggested tip is taken from.
const TIP_BLOCKS: usize = 20;
/// Blocks looked through for them, so that an idle chain costs no more than that.
const MAX_TIP_BLOCKS_SEEN: u64 = 128;
/// The suggested tip is this percentile of the gas.
const TIP_PERCENT: u64 = 60;
/// Where the fee market has no base fee, the price shown is this percentile of the gas.
const MEDIAN_PERCENT: u64 = 50;
/// Maximum suggested tip in wei, 500 gwei: the default of geth and reth.
const MAX_SUGGESTED_TIP: u128 = 500_000_000_000;
/// A block with less gas used than this share of its limit had room for every transaction, so what was paid in it
/// does not show what is needed.
const FULL_PERCENT: u64 = 50;
/// Without transactions, the tip that a rise of the base fee by one full block would add:
/// `base_fee * (elasticity - 1) / denominator`, on Ethereum with the constants of EIP-1559.
const TIP_FALLBACK_DIVISOR: u128 = 8;

pub(super) fn gas_price(call: &Call) -> Answer {
    call.no_arguments()?;
    let view = &call.view;
    let price = match without_base_fee(view) {
        Some(_) => prices(call)?.median,
        None => u128::from(view.head.next_base_fee).saturating_add(suggested_tip(call)?),
    };
    // The pool must accept what is suggested.
    put(&U128::from(price.max(least_price(view)).max(call.context.pool_limits.price_limit)))
}

pub(super) fn max_priority_fee(call: &Call) -> Answer {
    call.no_arguments()?;
    put(&U128::from(suggested_tip(call)?))
}

pub(super) fn base_fee(call: &Call) -> Answer {
    call.no_arguments()?;
    let view = &call.view;
    let base_fee = match without_base_fee(view) {
        Some(_) => prices(call)?.median,
        None => u128::from(view.head.next_base_fee),
    };
    put(&U128::from(base_fee))
}

/// The fee market, if its parameters switch the base fee off.
fn without_base_fee(view: &View) -> Option<&Market> {
    view.head.market().filter(|market| market.base_fee().is_none())
}

/// `min_gas_price` in wei, rounded up to what a transaction can pay.
fn least_price(view: &View) -> u128 {
    let least = view.head.market().map(Market::min_gas_price_wei).unwrap_or_default();
    u128::try_from(least.ceil()).unwrap_or(u128::MAX)
}

pub(super) fn blob_base_fee(call: &Call) -> Answer {
    call.no_arguments()?;
    let header = &call.view.head.header;
    let params = call.context.spec.blob_params(header.timestamp).zip(header.excess_blob_gas);
    put(&params.map_or(U128::ZERO, |(params, excess)| U128::from(params.calc_blob_fee(excess))))
}

/// The tip that outbids most of the gas of recent blocks.
pub(super) fn suggested_tip(call: &Call) -> Result<u128, Error> {
    Ok(prices(call)?.tip.max(least_tip(call)))
}

/// What the last blocks with transactions say, worked out once a block.
fn prices(call: &Call) -> Result<std::sync::Arc<Prices>, Error> {
    let view = &call.view;
    call.services.prices(view, || {
        let rows = recent_rows(view)?;
        let fallback = fallback_tip(view);
        // Without a base fee the tip is the whole price, and no block says that less would be enough.
        let most_of_room = without_base_fee(view).map_or(fallback, |_| MAX_SUGGESTED_TIP);
        Ok(Prices {
            head: view.head.hash,
            tip: tip_of(&rows, fallback, most_of_room).min(MAX_SUGGESTED_TIP),
            median: median_price(view, &rows),
        })
    })
}

/// The tip that outbids most of the gas of `rows`, or `fallback` without any. Tips of blocks that are far from full
/// count as `most_of_room` at most: otherwise one client that always bids more than the suggestion raises it without
/// end.
fn tip_of(rows: &[FeeRow], fallback: u128, most_of_room: u128) -> u128 {
    let tips = rows.iter().flat_map(|row| {
        let most = if is_far_from_full(row) { most_of_room } else { u128::MAX };
        row.tips.iter().map(move |tip| Tip { tip: tip.tip.min(most), ..*tip })
    });
    gas_percentile(tips.collect(), TIP_PERCENT).unwrap_or(fallback)
}

fn is_far_from_full(row: &FeeRow) -> bool {
    u128::from(row.gas_used) * 100 < u128::from(row.gas_limit) * u128::from(FULL_PERCENT)
}

/// The tip that this node's own mempool asks for at the next base fee.
fn least_tip(call: &Call) -> u128 {
    let limits = &call.context.pool_limits;
    let base_fee = u128::from(call.view.head.next_base_fee);
    limits.min_tip.max(limits.price_limit.saturating_sub(base_fee))
}

/// Without transactions, the tip that a rise of the base fee by one full block would add.
fn fallback_tip(view: &View) -> u128 {
    let base_fee = u128::from(view.head.next_base_fee);
    let Some(market) = view.head.market() else { return base_fee / TIP_FALLBACK_DIVISOR };
    let params = market.params();
    let rise = u128::from(params.elasticity_multiplier.saturating_sub(1));
    // 64 by 32 bits; a valid denominator is not zero.
    base_fee * rise / u128::from(params.base_fee_change_denominator.max(1))
}

/// The median price of recent blocks, by gas; at most [`MAX_SUGGESTED_TIP`] above the least price.
fn median_price(view: &View, rows: &[FeeRow]) -> u128 {
    let prices = rows.iter().flat_map(|row| {
        let base_fee = u128::from(row.base_fee);
        row.tips.iter().map(move |tip| Tip { tip: tip.tip.saturating_add(base_fee), ..*tip })
    });
    let least = least_price(view);
    let most = least.saturating_add(MAX_SUGGESTED_TIP);
    gas_percentile(prices.collect(), MEDIAN_PERCENT).map_or(least, |price| price.min(most))
}

/// The last blocks with transactions.
fn recent_rows(view: &View) -> Result<Vec<FeeRow>, Error> {
    let head = view.number();
    let rows = fee_rows(view, head.saturating_sub(MAX_TIP_BLOCKS_SEEN - 1), head)?;
    Ok(rows.into_iter().rev().filter(|row| !row.tips.is_empty()).take(TIP_BLOCKS).collect())
}

/// The first price at which `percent` of the gas is reached; `None` without any.
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

/// The rows of the blocks `first` to `last`, all at or below the head.
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
    fn only_blocks_with_little_room_raise_the_suggested_tip() {
        assert_eq!(tip_of(&[], 7, 7), 7);
        assert_eq!(tip_of(&[row(499, &[(50, 499)])], 7, 7), 7);
        assert_eq!(tip_of(&[row(500, &[(50, 500)])], 7, 7), 50);
        assert_eq!(tip_of(&[row(499, &[(3, 499)])], 7, 7), 3, "a lower tip was enough");
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
