//! Prices: what to pay now.

use crate::{
    feehistory::FeeRow,
    rpc::{
        error::Error,
        method::{Answer, Call, json},
    },
    view::View,
};
use alloy_primitives::{U64, U128};
use alloy_rlp::Decodable;

/// Non-empty blocks the suggested tip is taken from.
const TIP_BLOCKS: usize = 20;
/// Blocks looked through for them, so that an idle chain costs no more than that.
const TIP_BLOCKS_SEEN_MAX: u64 = 128;
/// The suggested tip is this percentile of the gas.
const TIP_PERCENT: u64 = 60;
/// Without transactions, the tip that a rise of the base fee by one full block would add:
/// `base_fee * (elasticity - 1) / denominator` with the constants of EIP-1559.
const TIP_FALLBACK_DIVISOR: u128 = 8;

pub(super) fn gas_price(call: &Call) -> Answer {
    call.no_arguments()?;
    let base_fee = u128::from(call.view.head.next_base_fee);
    json(&U128::from(base_fee.saturating_add(suggested_tip(&call.view)?)))
}

pub(super) fn max_priority_fee(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&U128::from(suggested_tip(&call.view)?))
}

pub(super) fn base_fee(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&U64::from(call.view.head.next_base_fee))
}

pub(super) fn blob_base_fee(call: &Call) -> Answer {
    call.no_arguments()?;
    let header = &call.view.head.header;
    let params = call.context.spec.blob_params(header.timestamp).zip(header.excess_blob_gas);
    json(&params.map_or(U128::ZERO, |(params, excess)| U128::from(params.calc_blob_fee(excess))))
}

/// The tip that outbids most of the gas of recent blocks.
fn suggested_tip(view: &View) -> Result<u128, Error> {
    let head = view.number();
    let rows = fee_rows(view, head.saturating_sub(TIP_BLOCKS_SEEN_MAX - 1), head)?;
    let recent = rows.iter().rev().filter(|row| !row.tips.is_empty()).take(TIP_BLOCKS);
    let mut tips: Vec<_> = recent.flat_map(|row| &row.tips).copied().collect();
    if tips.is_empty() {
        return Ok(u128::from(view.head.next_base_fee) / TIP_FALLBACK_DIVISOR);
    }
    tips.sort_unstable();
    let gas: u128 = tips.iter().map(|tip| u128::from(tip.gas)).sum();
    let mut left = gas * u128::from(TIP_PERCENT) / 100;
    for tip in &tips {
        match left.checked_sub(u128::from(tip.gas)) {
            Some(rest) if rest > 0 => left = rest,
            _ => return Ok(tip.tip),
        }
    }
    Ok(tips.last().map_or(0, |tip| tip.tip))
}

/// The rows of the blocks `first` to `last`, all at or below the head.
fn fee_rows(view: &View, first: u64, last: u64) -> Result<Vec<FeeRow>, Error> {
    let blocks = view.blocks()?;
    let rows = blocks.fees_range(first..=last)?;
    rows.map(|row| {
        let (_, row) = row?;
        FeeRow::decode(&mut row.as_ref()).map_err(Error::internal)
    })
    .collect()
}
