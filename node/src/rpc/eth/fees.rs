//! Prices: what to pay now, and what was paid.

use crate::{
    chain::ChainSpec,
    feehistory::{FeeRow, Tip},
    feemarket::Market,
    rpc::{
        block_id::BlockTag,
        error::Error,
        method::{Answer, Call, json},
        params::{Param, string},
    },
    view::View,
};
use alloy_primitives::U128;
use alloy_rlp::Decodable;
use serde_json::value::RawValue;
use std::fmt::Write;

/// Most percentiles of one request, as geth.
const PERCENTILES_MAX: usize = 100;
/// Non-empty blocks the suggested tip is taken from.
const TIP_BLOCKS: usize = 20;
/// Blocks looked through for them, so that an idle chain costs no more than that.
const TIP_BLOCKS_SEEN_MAX: u64 = 128;
/// The suggested tip is this percentile of the gas.
const TIP_PERCENT: u64 = 60;
/// Where the fee market has no base fee, the price shown is this percentile of the gas.
const MEDIAN_PERCENT: u64 = 50;
/// Without transactions, the tip that a rise of the base fee by one full block would add:
/// `base_fee * (elasticity - 1) / denominator`, on Ethereum with the constants of EIP-1559.
const TIP_FALLBACK_DIVISOR: u128 = 8;

pub(super) fn gas_price(call: &Call) -> Answer {
    call.no_arguments()?;
    let view = &call.view;
    let price = match without_base_fee(view) {
        Some(_) => median_price(view)?,
        None => u128::from(view.head.next_base_fee).saturating_add(suggested_tip(view)?),
    };
    json(&U128::from(price.max(least_price(view))))
}

pub(super) fn max_priority_fee(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&U128::from(suggested_tip(&call.view)?))
}

pub(super) fn base_fee(call: &Call) -> Answer {
    call.no_arguments()?;
    let view = &call.view;
    let base_fee = match without_base_fee(view) {
        Some(_) => median_price(view)?,
        None => u128::from(view.head.next_base_fee),
    };
    json(&U128::from(base_fee))
}

/// The fee market, where it is told to have no base fee.
fn without_base_fee(view: &View) -> Option<&Market> {
    view.head.market.as_deref().filter(|market| market.base_fee().is_none())
}

/// `min_gas_price` in wei, rounded up to what a transaction can pay.
fn least_price(view: &View) -> u128 {
    let least = view.head.market.as_deref().map(Market::min_gas_price_wei).unwrap_or_default();
    u128::try_from(least.ceil()).unwrap_or(u128::MAX)
}

pub(super) fn blob_base_fee(call: &Call) -> Answer {
    call.no_arguments()?;
    let header = &call.view.head.header;
    let params = call.context.spec.blob_params(header.timestamp).zip(header.excess_blob_gas);
    json(&params.map_or(U128::ZERO, |(params, excess)| U128::from(params.calc_blob_fee(excess))))
}

/// The tip that outbids most of the gas of recent blocks.
fn suggested_tip(view: &View) -> Result<u128, Error> {
    let rows = recent_rows(view)?;
    let tips = rows.iter().flat_map(|row| &row.tips).copied().collect();
    Ok(gas_percentile(tips, TIP_PERCENT).unwrap_or_else(|| fallback_tip(view)))
}

/// Without transactions, the tip that a rise of the base fee by one full block would add.
fn fallback_tip(view: &View) -> u128 {
    let base_fee = u128::from(view.head.next_base_fee);
    let Some(market) = view.head.market.as_deref() else { return base_fee / TIP_FALLBACK_DIVISOR };
    let params = market.params();
    let rise = u128::from(params.elasticity_multiplier.saturating_sub(1));
    // 64 by 32 bits; a valid denominator is not zero.
    base_fee * rise / u128::from(params.base_fee_change_denominator.max(1))
}

/// The median price of recent blocks, by gas.
fn median_price(view: &View) -> Result<u128, Error> {
    let rows = recent_rows(view)?;
    let prices = rows.iter().flat_map(|row| {
        let base_fee = u128::from(row.base_fee);
        row.tips.iter().map(move |tip| Tip { tip: tip.tip.saturating_add(base_fee), ..*tip })
    });
    Ok(gas_percentile(prices.collect(), MEDIAN_PERCENT).unwrap_or_else(|| least_price(view)))
}

/// The last blocks with transactions.
fn recent_rows(view: &View) -> Result<Vec<FeeRow>, Error> {
    let head = view.number();
    let rows = fee_rows(view, head.saturating_sub(TIP_BLOCKS_SEEN_MAX - 1), head)?;
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
        FeeRow::decode(&mut row.as_ref()).map_err(Error::internal)
    })
    .collect()
}

/// A count in any form geth takes: number, decimal string, hex string, empty for zero.
struct Count(u64);

impl Param for Count {
    fn read(json: &str, _: &ChainSpec) -> Result<Self, String> {
        let quoted = json.starts_with('"');
        let text = if quoted { string(json)? } else { json.into() };
        let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let parsed = match hex {
            _ if text.is_empty() => Ok(0),
            _ if text.contains('+') => Err(()),
            Some(digits) => u64::from_str_radix(digits, 16).map_err(drop),
            None => text.parse().map_err(drop),
        };
        let shown = || text.chars().take(64).collect::<String>();
        parsed.map(Self).map_err(|()| format!("invalid hex or decimal integer {:?}", shown()))
    }
}

impl Param for Vec<f64> {
    fn read(json: &str, _: &ChainSpec) -> Result<Self, String> {
        serde_json::from_str(json).map_err(|_| "not a list of numbers".to_owned())
    }
}

/// geth's rules: percentiles within 0 to 100 and rising, not too many.
fn check_percentiles(percentiles: &[f64]) -> Result<(), Error> {
    let invalid = |reason| Error::server(format!("invalid reward percentile: {reason}"));
    if percentiles.len() > PERCENTILES_MAX {
        return Err(invalid(format!("over the query limit {PERCENTILES_MAX}")));
    }
    let mut before: Option<f64> = None;
    for (index, percentile) in percentiles.iter().enumerate() {
        if !(0.0..=100.0).contains(percentile) {
            return Err(invalid(format!("{percentile:.6}")));
        }
        if let Some(before) = before.filter(|before| percentile <= before) {
            let (last, this) = (index - 1, index);
            return Err(invalid(format!("#{last}:{before:.6} >= #{this}:{percentile:.6}")));
        }
        before = Some(*percentile);
    }
    Ok(())
}

pub(super) fn fee_history(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let Count(count) = arguments.required()?;
    let newest: BlockTag = arguments.required()?;
    let percentiles: Vec<f64> = arguments.optional()?.unwrap_or_default();
    if count == 0 {
        return raw(r#"{"oldestBlock":"0x0","baseFeePerGas":[],"gasUsedRatio":[]}"#.to_owned());
    }
    check_percentiles(&percentiles)?;
    let (newest, head) = (newest.number(&call.view), call.view.number());
    if newest > head {
        let message = format!("request beyond head block: requested {newest}, head {head}");
        return Err(Error::server(message));
    }
    let count = count.min(call.context.feehistory_cap).min(newest + 1);
    let oldest = newest + 1 - count;
    let rows = fee_rows(&call.view, oldest, newest)?;
    raw(write_fee_history(oldest, &rows, &percentiles))
}

fn raw(text: String) -> Answer {
    RawValue::from_string(text).map_err(Error::internal)
}

/// Bytes of text a block adds beside its rewards: two prices and two ratios.
const ROW_CHARS: usize = 64;
/// Bytes of text of a reward.
const REWARD_CHARS: usize = 16;

/// Writes the answer; by hand, as it is the largest wallets ask for all the time.
fn write_fee_history(oldest: u64, rows: &[FeeRow], percentiles: &[f64]) -> String {
    let chars = rows.len() * (ROW_CHARS + percentiles.len() * REWARD_CHARS);
    let mut out = String::with_capacity(chars + 4 * ROW_CHARS);
    put(&mut out, format_args!("{{\"oldestBlock\":\"{oldest:#x}\""));
    if !percentiles.is_empty() {
        let rewards = rows.iter().map(|row| row.rewards(percentiles));
        put_list(&mut out, "reward", rewards, |out, rewards| {
            put_items(out, rewards.into_iter(), put_hex);
        });
    }
    let fees = rows.iter().map(|row| u128::from(row.base_fee));
    let next = rows.last().map(|row| u128::from(row.next_base_fee));
    put_list(&mut out, "baseFeePerGas", fees.chain(next), put_hex);
    put_list(&mut out, "gasUsedRatio", rows.iter().map(FeeRow::gas_used_ratio), put_ratio);
    let fees = rows.iter().map(|row| row.blob_base_fee);
    let next = rows.last().map(|row| row.next_blob_base_fee);
    put_list(&mut out, "baseFeePerBlobGas", fees.chain(next), put_hex);
    let ratios = rows.iter().map(FeeRow::blob_gas_used_ratio);
    put_list(&mut out, "blobGasUsedRatio", ratios, put_ratio);
    out.push('}');
    out
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes any text");
}

fn put_list<T>(
    out: &mut String,
    name: &str,
    items: impl Iterator<Item = T>,
    put_item: impl Fn(&mut String, T),
) {
    put(out, format_args!(",\"{name}\":"));
    put_items(out, items, put_item);
}

fn put_items<T>(
    out: &mut String,
    items: impl Iterator<Item = T>,
    put_item: impl Fn(&mut String, T),
) {
    out.push('[');
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        put_item(out, item);
    }
    out.push(']');
}

fn put_hex(out: &mut String, value: u128) {
    put(out, format_args!("\"{value:#x}\""));
}

/// Neither infinite nor not a number: see [`FeeRow::gas_used_ratio`].
fn put_ratio(out: &mut String, ratio: f64) {
    put(out, format_args!("{ratio}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{chain::Genesis, feehistory::Tip};

    #[test]
    fn counts_are_read_as_geth_does() {
        let spec = Genesis::native_dev(0).spec;
        let read = |json: &str| Count::read(json, &spec).map(|count| count.0);
        for json in ["16", "\"16\"", "\"0x10\"", "\"0x0010\""] {
            assert_eq!(read(json), Ok(16), "{json}");
        }
        assert_eq!(read("\"\""), Ok(0));
        for json in ["-1", "1.5", "\"0x\"", "\"+5\"", "\"ten\"", "18446744073709551616", "[]"] {
            assert!(read(json).is_err(), "{json}");
        }
    }

    #[test]
    fn percentiles_must_rise_within_a_hundred() {
        let message = |list: &[f64]| match check_percentiles(list) {
            Ok(()) => String::new(),
            Err(error) => format!("{error:?}"),
        };
        assert_eq!(message(&[0.0, 0.5, 100.0]), "");
        assert!(message(&[101.0]).contains("invalid reward percentile: 101.000000"));
        assert!(message(&[-0.1]).contains("invalid reward percentile: -0.100000"));
        assert!(message(&[50.0, 50.0]).contains("#0:50.000000 >= #1:50.000000"));
        assert!(message(&[50.0; 101]).contains("over the query limit 100"));
        assert_eq!(check_percentiles(&[101.0]).expect_err("refused").code(), -32000);
    }

    #[test]
    fn the_text_is_what_serde_would_write() {
        let tips = vec![Tip { tip: 1, gas: 21_000 }, Tip { tip: 17, gas: 79_000 }];
        let row = FeeRow {
            base_fee: 1_000_000_000,
            next_base_fee: 875_000_000,
            gas_used: 100_000,
            gas_limit: 10_000_000,
            blob_base_fee: 1,
            next_blob_base_fee: 2,
            tips,
            ..FeeRow::default()
        };
        let text = write_fee_history(5, &[row, FeeRow::default()], &[10.0, 90.0]);
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let expected = serde_json::json!({
            "oldestBlock": "0x5",
            "reward": [["0x1", "0x11"], ["0x0", "0x0"]],
            "baseFeePerGas": ["0x3b9aca00", "0x0", "0x0"],
            "gasUsedRatio": [0.01, 0],
            "baseFeePerBlobGas": ["0x1", "0x0", "0x0"],
            "blobGasUsedRatio": [0, 0],
        });
        assert_eq!(value, expected);
    }
}
