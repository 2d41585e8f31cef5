//! Prints the lines about blocks.

use super::{BLOCK, rate::Summary};
use alloy_primitives::B256;
use anyhow::Context;
use feehistory::RowReader;
use pages::text::{count, now, percent, price, short_hash, time};
use state::{View, stored};

/// The percentile, weighted by gas as in `eth_feeHistory`, of the priority fee that a line shows.
const MEDIAN: f64 = 50.0;
/// Seconds of a day.
const DAY_SECONDS: u64 = 86_400;

/// The figures of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockFigures {
    pub(super) number: u64,
    pub(super) hash: B256,
    pub(super) txs: u64,
    pub(super) gas_used: u64,
    pub(super) gas_limit: u64,
    /// In wei; zero before London.
    pub(super) base_fee: u64,
    /// In wei.
    pub(super) priority_fee: u64,
    /// In seconds.
    pub(super) timestamp: u64,
}

impl BlockFigures {
    pub(super) fn read(view: &View, number: u64) -> anyhow::Result<Self> {
        let blocks = view.blocks()?;
        let (hash, header) = stored::header(&blocks, number)?;
        let fees = blocks.fees(number)?;
        let fees = fees.with_context(|| format!("block {number} has no fee row"))?;
        let priority_fee = RowReader::new(&fees)?.reward(MEDIAN);
        Ok(Self {
            number,
            hash,
            txs: blocks.tx_count(number)? as u64,
            gas_used: header.gas_used,
            gas_limit: header.gas_limit,
            base_fee: header.base_fee_per_gas.unwrap_or_default(),
            priority_fee: u64::try_from(priority_fee).unwrap_or(u64::MAX),
            timestamp: header.timestamp,
        })
    }

    pub(super) fn print(&self) {
        let Self { number, hash, txs, gas_used, gas_limit, base_fee, priority_fee, timestamp } =
            *self;
        tracing::info!(
            target: BLOCK,
            number,
            %hash,
            txs,
            gas_used,
            gas_limit,
            base_fee_wei = base_fee,
            priority_fee_wei = priority_fee,
            block_timestamp = timestamp,
            "{}",
            self.text(now())
        );
    }

    /// Returns the text line. Its hash is shortened to fit a terminal; the JSON log has the full hash.
    fn text(&self, now: u64) -> String {
        let Self { number, hash, gas_used, .. } = self;
        format!(
            "{number} {} {}, gas {gas_used} ({}), base fee {}, priority fee {}, {}",
            short_hash(*hash),
            count(self.txs, "tx"),
            percent(*gas_used, self.gas_limit),
            price(self.base_fee),
            price(self.priority_fee),
            moment(self.timestamp, now)
        )
    }
}

/// Returns the time of day in UTC, with the date if it is not today.
fn moment(timestamp: u64, now: u64) -> String {
    let time = time(timestamp);
    match time.split_once('T') {
        Some((_, of_day)) if timestamp / DAY_SECONDS == now / DAY_SECONDS => of_day.to_owned(),
        _ => time,
    }
}

/// Prints the blocks that have no lines of their own.
pub(super) fn print_summary(summary: &Summary) {
    let Summary { first, last, blocks, txs, gas_used, time } = *summary;
    let rate = |number: u64| number as f64 / time.as_secs_f64().max(0.001);
    tracing::info!(
        target: BLOCK,
        first,
        last,
        blocks,
        txs,
        gas_used,
        seconds = time.as_secs_f64(),
        "{first} to {last}: {}, {}, {:.0} tx/s, gas {gas_used}, {:.1} Mgas/s",
        count(blocks, "block"),
        count(txs, "tx"),
        rate(txs),
        rate(gas_used) / 1e6
    );
}

/// Prints that blocks were removed from the chain.
pub(super) fn print_undone(blocks: usize, ancestor: u64) {
    tracing::info!(
        target: BLOCK,
        blocks,
        head = ancestor,
        "{} undone, the head is block {ancestor}",
        count(blocks as u64, "block")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_all_figures() {
        let block = BlockFigures {
            number: 12,
            hash: B256::repeat_byte(0xab),
            txs: 3,
            gas_used: 63_000,
            gas_limit: 30_000_000,
            base_fee: 1_000_000,
            priority_fee: 1_000_000_000,
            timestamp: 1_795_859_162,
        };
        let figures = "12 0xabababab…abababab 3 txs, gas 63000 (0.21%), base fee 0.001 gwei, priority fee 1 gwei";
        for (now, time) in [
            (1_795_859_162, "09:46:02Z"),
            (1_795_859_162 + DAY_SECONDS, "2026-11-28T09:46:02Z"),
            (0, "2026-11-28T09:46:02Z"),
        ] {
            assert_eq!(block.text(now), format!("{figures}, {time}"));
        }
    }
}
