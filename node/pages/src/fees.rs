//! Renders the page of the fee market: parameters, history, and how long a transaction with a given maximum price would
//! have waited.

use crate::{dashboard, error::PageError, frame::Page, reading::Reading, table::BlockRow, text};
use alloy_primitives::{U256, utils::parse_units};
use chain::Token;
use feehistory::RowReader;
use feemarket::{LegacyDec, Params};
use maud::{Markup, html};

/// Decimals of a price in gwei: 1 gwei is 10^9 wei.
const GWEI_DECIMALS: usize = 9;
/// The numbers of blocks that the page offers for the list. The plots show at most the first of them.
const RANGES: [u64; 3] = [100, 1_000, 5_000];
/// Maximum number of rows of the list. A longer range is shown in buckets of equal length; the last may be shorter.
const MAX_ROWS: u64 = 50;
/// The percentiles of the priority fee.
const PERCENTILES: [f64; 5] = [10.0, 25.0, 50.0, 75.0, 90.0];
/// Gas of a transfer.
const TRANSFER_GAS: u64 = 21_000;

/// The fees of some consecutive blocks.
#[derive(Clone, Debug)]
struct Bucket {
    first: u64,
    last: u64,
    lowest_base_fee: u64,
    highest_base_fee: u64,
    gas_used: u64,
    gas_limit: u64,
    /// Priority fee at each percentile in wei per gas: the mean of the blocks, weighted by gas used.
    rewards: [u128; PERCENTILES.len()],
}

pub(crate) fn page(reading: &Reading) -> Result<Page, PageError> {
    let head = reading.view.number();
    let range = reading.number("blocks")?.unwrap_or(RANGES[0]).clamp(1, RANGES[RANGES.len() - 1]);
    let first = (head + 1).saturating_sub(range);
    let buckets = buckets(reading, first, head)?;
    let contents = html! {
        (next_fee(reading))
        (parameter_section(reading))
        (estimate(reading, first, head)?)
        h2 { "History" }
        (choices(range, reading.parameter("cap")))
        (plots(reading, head, range)?)
        (history(&buckets))
    };
    Ok(Page::new("Fees", contents))
}

fn next_fee(reading: &Reading) -> Markup {
    let base_fee = reading.view.head.next_base_fee;
    let header = &reading.view.head.header;
    html! {
        dl.figures {
            div { dt { "Base fee of the next block" } dd { (text::exact_price(u128::from(base_fee))) } }
            div { dt { "Base fee of the newest block" } dd {
                (text::exact_price(u128::from(header.base_fee_per_gas.unwrap_or_default())))
            } }
            div { dt { "Gas limit used by the newest block" } dd { (text::percent(header.gas_used, header.gas_limit)) } }
            div { dt { "A transfer costs" } dd {
                (text::amount(U256::from(base_fee) * U256::from(TRANSFER_GAS))) " " (reading.symbol())
            } }
        }
    }
}

/// Returns the parameters in the order of `MsgUpdateParams`, with their values as text.
pub(crate) fn parameters(params: &Params, token: Token<'_>) -> [(&'static str, String); 7] {
    let price = |price: LegacyDec| {
        let wei = token.unit.price_to_wei(price).ok().and_then(LegacyDec::truncate_u256);
        let wei = wei.and_then(|wei| u128::try_from(wei).ok());
        let gwei = wei.map_or_else(String::new, |wei| format!(" ({})", text::exact_price(wei)));
        format!("{} {}{gwei}", text::without_zeros(&price.to_string()), token.denom)
    };
    [
        ("no_base_fee", params.no_base_fee.to_string()),
        ("base_fee_change_denominator", params.base_fee_change_denominator.to_string()),
        ("elasticity_multiplier", params.elasticity_multiplier.to_string()),
        ("enable_height", params.enable_height.to_string()),
        ("base_fee", price(params.base_fee)),
        ("min_gas_price", price(params.min_gas_price)),
        (
            "min_gas_multiplier",
            text::without_zeros(&params.min_gas_multiplier.to_string()).to_owned(),
        ),
    ]
}

/// The meaning of each parameter, in the same order.
const MEANINGS: [&str; 7] = [
    "If true, there is no base fee.",
    "An empty block lowers the base fee by one part in this many.",
    "The gas target of a block is its gas limit divided by this.",
    "The base fee changes from this block on.",
    "The base fee of the newest block.",
    "The base fee does not fall below this.",
    "The part of its gas limit that a transaction pays for at least.",
];

fn parameter_section(reading: &Reading) -> Markup {
    let Some(market) = reading.view.head.market() else {
        return html! { p { "The base fee follows EIP-1559 with the constants of Ethereum." } };
    };
    let rows = parameters(market.params(), reading.spec().token(reading.view.number()));
    html! {
        h2 { "Parameters" }
        dl {
            @for ((name, value), meaning) in rows.iter().zip(MEANINGS) {
                div { dt { (name) } dd { strong { (value) } ". " span.soft { (meaning) } } }
            }
        }
    }
}

/// Reads the fee rows of blocks in buckets of equal length, except for the last one.
fn buckets(reading: &Reading, first: u64, last: u64) -> Result<Vec<Bucket>, PageError> {
    let blocks = reading.view.blocks()?;
    let length = (last - first + 1).div_ceil(MAX_ROWS).max(1);
    let mut buckets = Vec::new();
    let mut start = first;
    while start <= last {
        let end = (start + length - 1).min(last);
        let mut bucket = Bucket::empty(start, end);
        let mut weighted = [0_u128; PERCENTILES.len()];
        for number in start..=end {
            let row = blocks.fees(number)?;
            let row =
                row.ok_or_else(|| PageError::failed(format!("block {number} has no fee row")))?;
            let row = RowReader::new(&row).map_err(PageError::failed)?;
            bucket.add(&row, &mut weighted)?;
        }
        bucket.finish(&weighted);
        buckets.push(bucket);
        start = end + 1;
    }
    Ok(buckets)
}

impl Bucket {
    const fn empty(first: u64, last: u64) -> Self {
        Self {
            first,
            last,
            lowest_base_fee: u64::MAX,
            highest_base_fee: 0,
            gas_used: 0,
            gas_limit: 0,
            rewards: [0; PERCENTILES.len()],
        }
    }

    fn add(
        &mut self,
        row: &RowReader<'_>,
        weighted: &mut [u128; PERCENTILES.len()],
    ) -> Result<(), PageError> {
        let scalars = row.scalars().map_err(PageError::failed)?;
        self.lowest_base_fee = self.lowest_base_fee.min(scalars.base_fee);
        self.highest_base_fee = self.highest_base_fee.max(scalars.base_fee);
        self.gas_used = self.gas_used.saturating_add(scalars.gas_used);
        self.gas_limit = self.gas_limit.saturating_add(scalars.gas_limit);
        for (sum, percentile) in weighted.iter_mut().zip(PERCENTILES) {
            let part = row.reward(percentile).saturating_mul(u128::from(scalars.gas_used));
            *sum = sum.saturating_add(part);
        }
        Ok(())
    }

    fn finish(&mut self, weighted: &[u128; PERCENTILES.len()]) {
        for (reward, sum) in self.rewards.iter_mut().zip(weighted) {
            *reward = sum / u128::from(self.gas_used.max(1));
        }
    }
}

fn choices(range: u64, cap: Option<&str>) -> Markup {
    let cap = cap.map(|cap| format!("&cap={cap}")).unwrap_or_default();
    html! {
        nav.pages aria-label="Length of the history" {
            @for blocks in RANGES {
                a href={ "/fees?blocks=" (blocks) (cap) } aria-current=[(blocks == range).then_some("true")] {
                    "Last " (text::grouped(blocks)) " blocks"
                }
            }
        }
    }
}

fn plots(reading: &Reading, head: u64, range: u64) -> Result<Markup, PageError> {
    let rows = BlockRow::up_to(&reading.view.blocks()?, head, range.min(RANGES[0]))?;
    Ok(dashboard::plots(&rows))
}

fn history(buckets: &[Bucket]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="History of fees" {
            table {
                caption { "Priority fees are those below which this part of the gas was, weighted by gas." }
                thead { tr {
                    th scope="col" { "Blocks" } th.number scope="col" { "Base fee" }
                    th.number scope="col" { "Gas limit used" }
                    @for percentile in PERCENTILES { th.number scope="col" { (percentile) " %" } }
                } }
                tbody { @for bucket in buckets.iter().rev() { (bucket_row(bucket)) } }
            }
        }
    }
}

fn bucket_row(bucket: &Bucket) -> Markup {
    let price = |wei: u128| text::price(u64::try_from(wei).unwrap_or(u64::MAX));
    html! {
        tr {
            td {
                @if bucket.first == bucket.last { (text::grouped(bucket.first)) }
                @else { (text::grouped(bucket.first)) " to " (text::grouped(bucket.last)) }
            }
            td.number {
                (text::price(bucket.lowest_base_fee))
                @if bucket.lowest_base_fee != bucket.highest_base_fee {
                    " to " (text::price(bucket.highest_base_fee))
                }
            }
            td.number { (text::percent(bucket.gas_used, bucket.gas_limit)) }
            @for reward in bucket.rewards { td.number { (price(reward)) } }
        }
    }
}

/// Statistics of transactions with the same maximum price, of which one is sent before each of the last blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Waits {
    sent: u64,
    /// Number of sent transactions that a block could include.
    mined: u64,
    total_blocks: u64,
    longest: u64,
    lowest_base_fee: u64,
    highest_base_fee: u64,
}

fn estimate(reading: &Reading, first: u64, last: u64) -> Result<Markup, PageError> {
    let next = reading.view.head.next_base_fee;
    let cap = match reading.parameter("cap") {
        None => u128::from(next),
        Some(text) => gwei(text).ok_or_else(|| {
            PageError::Invalid(
                "cap must be a price in gwei with at most nine decimals, such as 1.5.".to_owned(),
            )
        })?,
    };
    let fees = base_fees(reading, first, last)?;
    let waits = waits(&fees, cap);
    Ok(html! {
        h2 { "A transaction with a maximum price" }
        form action="/fees" {
            @if let Some(blocks) = reading.parameter("blocks") { input type="hidden" name="blocks" value=(blocks); }
            label for="cap" { "Maximum price in gwei " }
            input #cap name="cap" inputmode="decimal" maxlength="30" value=(text::exact_price(cap).trim_end_matches(" gwei"));
            " " button { "Compute" }
        }
        (wait_text(&waits, cap, last - first + 1))
    })
}

fn base_fees(reading: &Reading, first: u64, last: u64) -> Result<Vec<u64>, PageError> {
    let blocks = reading.view.blocks()?;
    let fee = |number| {
        let (_, header) = state::stored::header(&blocks, number)?;
        Ok(header.base_fee_per_gas.unwrap_or_default())
    };
    (first..=last).map(fee).collect()
}

/// Assumes that a transaction is in the first block after it was sent whose base fee is at most `cap` wei per gas.
fn waits(fees: &[u64], cap: u128) -> Waits {
    let mut found =
        Waits { sent: fees.len() as u64, lowest_base_fee: u64::MAX, ..Waits::default() };
    let mut next: Option<usize> = None;
    for (position, fee) in fees.iter().enumerate().rev() {
        if u128::from(*fee) <= cap {
            next = Some(position);
            found.lowest_base_fee = found.lowest_base_fee.min(*fee);
            found.highest_base_fee = found.highest_base_fee.max(*fee);
        }
        if let Some(mined) = next {
            let blocks = (mined - position) as u64 + 1;
            found.mined += 1;
            found.total_blocks += blocks;
            found.longest = found.longest.max(blocks);
        }
    }
    found
}

fn wait_text(waits: &Waits, cap: u128, range: u64) -> Markup {
    let Waits { sent, mined, total_blocks, longest, lowest_base_fee, highest_base_fee } = *waits;
    let cap = text::exact_price(cap);
    html! {
        @if mined == 0 {
            p { "In the last " (text::count(range, "block")) ", no block had a base fee of at most " (cap) "." }
        } @else {
            p {
                "Of " (text::count(sent, "moment")) " in the last " (text::count(range, "block")) ", a transaction with a maximum price of " (cap)
                " could have been mined after " (text::grouped(mined)) ": after "
                (format!("{:.1}", total_blocks as f64 / mined as f64)) " blocks in the mean and "
                (text::grouped(longest)) " at most, at a base fee of "
                (text::price(lowest_base_fee)) " to " (text::price(highest_base_fee)) ". Competition for the gas of a block is not considered."
            }
        }
    }
}

/// Converts a price in gwei to wei; `None` if it is not a decimal or has more than [`GWEI_DECIMALS`] decimals.
fn gwei(text: &str) -> Option<u128> {
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    if decimals > GWEI_DECIMALS {
        return None;
    }
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !is_decimal || !text.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let parsed = parse_units(text, "gwei").ok()?;
    u128::try_from(parsed.get_absolute()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_counted_from_each_block() {
        let fees = [5, 9, 9, 4, 7];
        let found = waits(&fees, 5);
        // Sent before block 0: 1; before 1: 3; before 2: 2; before 3: 1; before 4: not mined.
        let expected = Waits {
            sent: 5,
            mined: 4,
            total_blocks: 7,
            longest: 3,
            lowest_base_fee: 4,
            highest_base_fee: 5,
        };
        assert_eq!(found, expected);
        assert_eq!(waits(&fees, 3).mined, 0);
        assert_eq!(waits(&fees, 9).total_blocks, 5);
        assert_eq!(waits(&[], 9).sent, 0);
    }

    #[test]
    fn prices_in_gwei_are_parsed() {
        assert_eq!(gwei("1.5"), Some(1_500_000_000));
        assert_eq!(gwei("0"), Some(0));
        for invalid in
            ["", ".", "-1", "x", "1e3", "1e400", "99999999999999999999999999999999999999999999"]
        {
            assert_eq!(gwei(invalid), None, "{invalid}");
        }
    }
}
