//! `eth_feeHistory`, which uses the columns of recent blocks or the stored rows of older ones, and `evmd_feeQuantiles`,
//! which summarises long ranges.

use crate::{
    method::{Answer, Call, json},
    services::{ResponseKey, ResponseSubject},
};
use alloy_primitives::{U64, U128};
use chain::ChainSpec;
use feehistory::{RowReader, StoredAnswer};
use rpc_types::{
    PendingDetail,
    block_id::BlockTag,
    error::Error,
    params::{Param, string},
    text::Json,
};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Maximum number of percentiles in one request, as in geth.
const MAX_PERCENTILES: usize = 100;

/// A count in any form that geth accepts: a number, a decimal string, a hex string, or an empty string, which is zero.
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

/// Checks percentiles by geth's rules: at most 100, each between 0 and 100, in strictly ascending order.
pub fn check_percentiles(percentiles: &[f64]) -> Result<(), Error> {
    let invalid = |reason| Error::server(format!("invalid reward percentile: {reason}"));
    if percentiles.len() > MAX_PERCENTILES {
        return Err(invalid(format!("over the query limit {MAX_PERCENTILES}")));
    }
    let mut previous: Option<f64> = None;
    for (index, percentile) in percentiles.iter().enumerate() {
        if !(0.0..=100.0).contains(percentile) {
            return Err(invalid(format!("{percentile:.6}")));
        }
        if let Some(previous) = previous.filter(|previous| percentile <= previous) {
            let last = index - 1;
            return Err(invalid(format!("#{last}:{previous:.6} >= #{index}:{percentile:.6}")));
        }
        previous = Some(*percentile);
    }
    Ok(())
}

/// Maximum number of rewards that are written inline.
const MAX_INLINE_REWARDS: u64 = 8 * 1024;
/// Number of rewards that take as long to write as one row takes to read.
const ROW_REWARDS: u64 = 64;

/// Returns the response if it is cached or takes little time.
pub(super) fn fee_history_inline(call: &Call) -> Result<Option<Json>, Error> {
    fee_history(call, MAX_INLINE_REWARDS)
}

pub(super) fn fee_history_queued(call: &Call) -> Answer {
    let answer = fee_history(call, u64::MAX)?;
    answer.ok_or_else(|| Error::internal("a fee history has too many rewards"))
}

fn fee_history(call: &Call, max_rewards: u64) -> Result<Option<Json>, Error> {
    let mut arguments = call.arguments()?;
    let Count(count) = arguments.required()?;
    let newest: BlockTag = arguments.required()?;
    let percentiles: Vec<f64> = arguments.optional()?.unwrap_or_default();
    if count == 0 {
        let empty = r#"{"oldestBlock":"0x0","baseFeePerGas":[],"gasUsedRatio":[]}"#;
        return Ok(Some(Json::fixed(empty)));
    }
    check_percentiles(&percentiles)?;
    let is_pending = newest == BlockTag::Pending;
    if is_pending {
        call.pending(PendingDetail::State)?;
    }
    let (newest, head) = (newest.number(&call.view), call.view.number());
    check_newest(newest, head)?;
    let count = count.min(call.context.feehistory_cap).min(newest + 1);
    if is_pending {
        // The columns and the cached responses do not contain the pending block.
        let whole = max_rewards == u64::MAX;
        let text = || stored(call, newest + 1 - count, newest, &percentiles);
        return whole.then(text).transpose().map(|text| text.map(Json::from_text));
    }
    let bits = percentiles.iter().map(|percentile| percentile.to_bits()).collect();
    let subject = ResponseSubject::Fees { newest, count, percentiles: bits };
    let key = ResponseKey::new(&call.view, subject);
    let services = &call.services;
    if let Some(answer) = services.responses.get(&key) {
        return Ok(Some(answer));
    }
    let rewards = count * (percentiles.len() as u64 + 1);
    // The first request after the start of the node reads the rows of all recent blocks.
    if rewards + services.fees.missing_rows(&call.view) * ROW_REWARDS > max_rewards {
        return Ok(None);
    }
    services.fees.update(&call.view)?;
    let oldest = newest + 1 - count;
    let branch = call.view.undone;
    let text = match services.fees.columns.answer(branch, oldest, newest, &percentiles) {
        Some(text) => text,
        None => stored(call, oldest, newest, &percentiles)?,
    };
    Ok(Some(services.responses.insert(key, Json::from_text(text))))
}

/// Returns geth's error for a block above the head.
fn check_newest(newest: u64, head: u64) -> Result<(), Error> {
    if newest > head {
        let message = format!("request beyond head block: requested {newest}, head {head}");
        return Err(Error::server(message));
    }
    Ok(())
}

/// Builds the response from the stored rows. The last row is the pending block's if the call has a pending block.
fn stored(call: &Call, first: u64, last: u64, percentiles: &[f64]) -> Result<Vec<u8>, Error> {
    let mut answer = StoredAnswer::new(first, last, percentiles);
    let mut push = |number, bytes: &[u8]| {
        let row = RowReader::new(bytes).map_err(Error::internal)?;
        answer.push(number, &row).map_err(Error::internal)
    };
    match &call.pending {
        None => call.view.blocks()?.each_fee_row(first..=last, push)?,
        Some(pending) => {
            if first < last {
                call.view.blocks()?.each_fee_row(first..=last - 1, &mut push)?;
            }
            push(last, pending.fee_row())?;
        }
    }
    Ok(answer.finish())
}

/// Maximum number of blocks in one call of `evmd_feeQuantiles`: about two weeks of Ethereum.
const MAX_QUANTILE_BLOCKS: u64 = 100_000;
/// Maximum number of buckets in a response, which is more than a chart has pixels.
const MAX_BUCKETS: u64 = 2048;
/// Maximum duration of one request.
const MAX_QUANTILES_TIME: Duration = Duration::from_secs(5);

/// Consecutive blocks that are summarised together.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bucket {
    from_block: U64,
    to_block: U64,
    base_fee_min: U64,
    base_fee_max: U64,
    gas_used: U64,
    gas_used_ratio: f64,
    reward: Vec<U128>,
}

/// Returns the quantiles of effective priority fees, weighted by gas, for each bucket of blocks.
pub fn fee_quantiles(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let (first, last): (BlockTag, BlockTag) = (arguments.required()?, arguments.required()?);
    let Count(bucket) = arguments.required()?;
    let percentiles: Vec<f64> = arguments.optional()?.unwrap_or_default();
    check_percentiles(&percentiles)?;
    let (first, last) = (first.number(&call.view), last.number(&call.view));
    check_buckets((first, last), bucket, call.view.number())?;
    let deadline = Instant::now() + MAX_QUANTILES_TIME;
    let reader = call.view.blocks()?;
    let mut buckets = Vec::new();
    let mut start = first;
    while start <= last {
        let end = last.min(start.saturating_add(bucket - 1));
        if Instant::now() > deadline && start > first {
            let seconds = MAX_QUANTILES_TIME.as_secs();
            let message = format!("query took more than {seconds} seconds");
            return Err(Error::limit(
                message,
                seconds,
                Some(super::suggested_range(first, start - 1)),
            ));
        }
        buckets.push(summarise(&reader, start, end, &percentiles)?);
        start = end.saturating_add(1);
    }
    json(&buckets)
}

/// Returns an error if the range exceeds the head, or the maximum number of blocks or buckets.
fn check_buckets((first, last): (u64, u64), bucket: u64, head: u64) -> Result<(), Error> {
    if first > last || last > head {
        return Err(Error::invalid_params("invalid block range params"));
    }
    if bucket == 0 {
        return Err(Error::invalid_params("a bucket needs at least one block"));
    }
    let max = MAX_QUANTILE_BLOCKS.min(bucket.saturating_mul(MAX_BUCKETS));
    if last - first >= max {
        let message = format!("exceed maximum block range: {max}");
        return Err(Error::limit(
            message,
            max,
            Some(super::suggested_range(first, first + max - 1)),
        ));
    }
    Ok(())
}

fn summarise(
    reader: &storage::ChainReader,
    first: u64,
    last: u64,
    percentiles: &[f64],
) -> Result<Bucket, Error> {
    let mut fees: Vec<(u128, u64)> = Vec::new();
    let (mut min, mut max, mut used, mut limit) = (u64::MAX, 0, 0u64, 0u64);
    reader.each_fee_row(first..=last, |_, bytes| {
        let row = RowReader::new(bytes).map_err(Error::internal)?;
        let scalars = row.scalars().map_err(Error::internal)?;
        min = min.min(scalars.base_fee);
        max = max.max(scalars.base_fee);
        used = used.saturating_add(scalars.gas_used);
        limit = limit.saturating_add(scalars.gas_limit);
        // The gas in a row is cumulative.
        let mut before = 0;
        fees.extend(row.tips().map(|(fee, gas)| {
            let own = gas.saturating_sub(before);
            before = gas;
            (fee, own)
        }));
        Ok::<(), Error>(())
    })?;
    fees.sort_unstable();
    let total: u64 = fees.iter().map(|(_, gas)| gas).sum();
    let mut sum = 0;
    for (_, gas) in &mut fees {
        sum += *gas;
        *gas = sum;
    }
    let reward = percentiles.iter().map(|percentile| {
        let threshold = (total as f64 * percentile / 100.0) as u64;
        let at = fees.partition_point(|(_, gas)| *gas < threshold);
        fees.get(at).or(fees.last()).map_or(U128::ZERO, |(fee, _)| U128::from(*fee))
    });
    Ok(Bucket {
        from_block: U64::from(first),
        to_block: U64::from(last),
        base_fee_min: U64::from(min.min(max)),
        base_fee_max: U64::from(max),
        gas_used: U64::from(used),
        gas_used_ratio: if limit == 0 { 0.0 } else { used as f64 / limit as f64 },
        reward: reward.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use chain::Genesis;

    #[test]
    fn counts_are_parsed_as_in_geth() {
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
    fn buckets_are_bounded_in_number_and_blocks() {
        let head = 10 * MAX_QUANTILE_BLOCKS;
        let check = |first, last, bucket| check_buckets((first, last), bucket, head);
        for (first, last, bucket) in [
            (7, 6 + MAX_BUCKETS, 1),
            (7, 6 + MAX_QUANTILE_BLOCKS, 49),
            (0, MAX_QUANTILE_BLOCKS - 1, u64::MAX),
            (head, head, 1),
        ] {
            assert!(check(first, last, bucket).is_ok(), "{first} to {last} by {bucket}");
        }
        for (first, last, bucket, max) in [
            (7, 7 + MAX_BUCKETS, 1, MAX_BUCKETS),
            (7, 7 + MAX_QUANTILE_BLOCKS, 49, MAX_QUANTILE_BLOCKS),
            (0, head, u64::MAX, MAX_QUANTILE_BLOCKS),
        ] {
            let error = check(first, last, bucket).expect_err("too many");
            assert_eq!(error.code(), -32005);
            let last = first + max - 1;
            let data = format!(
                "{{\"limit\":{max},\"suggested\":{{\"fromBlock\":\"{first:#x}\",\"toBlock\":\"{last:#x}\"}}}}"
            );
            assert_eq!(error.data().map(|data| data.get()), Some(data.as_str()));
            assert!(check(first, last, bucket).is_ok(), "the suggested range is accepted");
        }
        for (first, last, bucket) in
            [(2, 1, 1), (0, head + 1, 1), (head + 1, head + 1, 1), (0, 0, 0)]
        {
            assert_eq!(check(first, last, bucket).expect_err("no range").code(), -32602);
        }
    }

    #[test]
    fn percentiles_must_ascend_from_0_to_100() {
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
    fn newest_block_of_a_fee_history_is_at_most_the_head() {
        for newest in [0, 6, 7] {
            assert!(check_newest(newest, 7).is_ok(), "block {newest}");
        }
        let error = check_newest(8, 7).expect_err("beyond the head");
        assert_eq!(error.code(), -32000);
        let text = "request beyond head block: requested 8, head 7";
        assert!(format!("{error:?}").contains(text), "{error:?}");
    }
}
