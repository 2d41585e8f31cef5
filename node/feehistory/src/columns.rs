//! The rows of recent blocks in memory, in the form in which they are answered: columns of JSON
//! text, so that an answer is a few slices put together.
//!
//! Filled from stored rows, block after block; a block that is not here is read from the chain.
//! Rewards depend on the percentiles: the columns of lists that are asked for are kept and grow with
//! the chain, those of others are written from the tips.

use super::{AnswerWriter, RowReader, Text, put_hex};
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError, RwLock},
};

/// Blocks held: a request for the most blocks at the head, and one that lags as far behind.
pub const RECENT_BLOCKS: usize = 4096;
/// Tips held in all blocks: 24 bytes each, so at most about 100 MB.
const MAX_TIPS: usize = 4 << 20;
/// Lists of percentiles whose rewards are kept as text: wallets and libraries have few forms of the
/// question. With the bound below at most some 30 MB.
const MAX_LISTS: usize = 32;
/// Most percentiles of such a list.
const MAX_LIST_PERCENTILES: usize = 16;

/// One block's row, ready to be written into answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeeEntry {
    /// Base fee as a JSON string.
    pub base_fee: Box<str>,
    /// Base fee of the next block as a JSON string.
    pub next_base_fee: Box<str>,
    /// Gas used over gas limit, as a JSON number.
    pub gas_used_ratio: Box<str>,
    /// Blob base fee as a JSON string.
    pub blob_base_fee: Box<str>,
    /// Blob base fee of the next block as a JSON string.
    pub next_blob_base_fee: Box<str>,
    /// Blob gas used over the most there may be, as a JSON number.
    pub blob_gas_used_ratio: Box<str>,
    gas_used: u64,
    tips: Box<[u128]>,
    gas: Box<[u64]>,
}

impl FeeEntry {
    /// Takes a stored row.
    ///
    /// # Errors
    /// When its scalars cannot be read.
    pub fn new(row: &RowReader<'_>) -> alloy_rlp::Result<Self> {
        let scalars = row.scalars()?;
        let (tips, gas): (Vec<u128>, Vec<u64>) = row.tips().unzip();
        let hex = |value: u128| format!("\"{value:#x}\"").into();
        Ok(Self {
            base_fee: row.text(Text::BaseFee)?.into(),
            next_base_fee: hex(scalars.next_base_fee.into()),
            gas_used_ratio: row.text(Text::GasUsedRatio)?.into(),
            blob_base_fee: row.text(Text::BlobBaseFee)?.into(),
            next_blob_base_fee: hex(scalars.next_blob_base_fee),
            blob_gas_used_ratio: row.text(Text::BlobGasUsedRatio)?.into(),
            gas_used: row.gas_used,
            tips: tips.into(),
            gas: gas.into(),
        })
    }

    /// The effective tip at a percentile, as [`super::FeeRow::rewards`].
    pub fn reward(&self, percentile: f64) -> u128 {
        let Some(last) = self.tips.len().checked_sub(1) else { return 0 };
        let threshold = (self.gas_used as f64 * percentile / 100.0) as u64;
        self.tips[self.gas.partition_point(|gas| *gas < threshold).min(last)]
    }

    fn put_rewards(&self, out: &mut Vec<u8>, percentiles: &[f64]) {
        put_rewards(out, percentiles, |percentile| self.reward(percentile));
    }
}

/// Writes the rewards of a block as a JSON list.
pub(super) fn put_rewards(out: &mut Vec<u8>, percentiles: &[f64], reward: impl Fn(f64) -> u128) {
    out.push(b'[');
    for (index, percentile) in percentiles.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        put_hex(out, reward(*percentile));
    }
    out.push(b']');
}

/// JSON values of consecutive blocks, a comma after each.
#[derive(Debug, Default)]
struct Column {
    text: Vec<u8>,
    /// Where each value ends, behind its comma, counted from the first byte there ever was.
    ends: VecDeque<usize>,
    /// Bytes ever taken off the front: where the first value begins.
    start: usize,
    /// Bytes before the first one still held.
    cut: usize,
}

impl Column {
    fn push(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        put(&mut self.text);
        self.text.push(b',');
        self.ends.push_back(self.cut + self.text.len());
    }

    fn pop(&mut self) {
        let Some(end) = self.ends.pop_front() else { return };
        self.start = end;
        // Moving what is left costs little if it is rare.
        if 2 * (self.start - self.cut) > self.text.len() {
            self.text.drain(..self.start - self.cut);
            self.cut = self.start;
        }
    }

    /// The values of `count` blocks from the one at `first`, commas between them.
    fn slice(&self, first: usize, count: usize) -> &[u8] {
        if count == 0 {
            return &[];
        }
        let from = first.checked_sub(1).map_or(self.start, |before| self.ends[before]);
        let to = self.ends[first + count - 1] - 1;
        &self.text[from - self.cut..to - self.cut]
    }
}

/// The rewards of consecutive blocks for one list of percentiles.
#[derive(Debug)]
struct Rewards {
    percentiles: Vec<f64>,
    first: u64,
    column: Column,
}

impl Rewards {
    fn end(&self) -> u64 {
        self.first + self.column.ends.len() as u64
    }

    /// Makes the column reach from `first` to `last` at least, of what `recent` holds.
    fn reach(&mut self, recent: &Recent, first: u64, last: u64) {
        while self.first < recent.first && !self.column.ends.is_empty() {
            self.column.pop();
            self.first += 1;
        }
        if self.column.ends.is_empty() || first < self.first {
            // What is asked for in several places is soon held from the lowest of them on.
            let end = if self.column.ends.is_empty() { last + 1 } else { self.end() };
            *self = Self {
                percentiles: std::mem::take(&mut self.percentiles),
                first,
                column: Column::default(),
            };
            self.extend(recent, end.max(last + 1));
        } else {
            self.extend(recent, last + 1);
        }
    }

    fn extend(&mut self, recent: &Recent, end: u64) {
        while self.end() < end {
            let row = &recent.rows[recent.index(self.end())];
            self.column.push(|out| row.put_rewards(out, &self.percentiles));
        }
    }
}

/// Rows of consecutive blocks.
#[derive(Debug, Default)]
struct Recent {
    first: u64,
    rows: VecDeque<FeeEntry>,
    tips: usize,
    base_fee: Column,
    ratio: Column,
    blob_fee: Column,
    blob_ratio: Column,
}

impl Recent {
    /// The block after the last one held.
    fn end(&self) -> u64 {
        self.first + self.rows.len() as u64
    }

    /// Where a block that is held is.
    fn index(&self, number: u64) -> usize {
        usize::try_from(number - self.first).expect("some thousand rows are held")
    }

    fn columns(&mut self) -> [&mut Column; 4] {
        [&mut self.base_fee, &mut self.ratio, &mut self.blob_fee, &mut self.blob_ratio]
    }

    fn push(&mut self, number: u64, entry: FeeEntry) {
        if self.rows.is_empty() || number != self.end() {
            *self = Self { first: number, ..Self::default() };
        }
        let texts = [
            &entry.base_fee,
            &entry.gas_used_ratio,
            &entry.blob_base_fee,
            &entry.blob_gas_used_ratio,
        ];
        for (column, text) in self.columns().into_iter().zip(texts) {
            column.push(|out| out.extend_from_slice(text.as_bytes()));
        }
        self.tips += entry.tips.len();
        self.rows.push_back(entry);
        while self.rows.len() > RECENT_BLOCKS || (self.tips > MAX_TIPS && self.rows.len() > 1) {
            let Some(gone) = self.rows.pop_front() else { break };
            self.first += 1;
            self.tips -= gone.tips.len();
            for column in self.columns() {
                column.pop();
            }
        }
    }

    fn holds(&self, first: u64, last: u64) -> bool {
        self.first <= first && first <= last && last < self.end()
    }
}

/// The rows of recent blocks. Writers are rare and short: one row a block.
#[derive(Debug, Default)]
pub struct FeeColumns {
    recent: RwLock<Recent>,
    /// The last one used is the last. Locked after `recent`.
    lists: Mutex<Vec<Rewards>>,
}

impl FeeColumns {
    fn read(&self) -> std::sync::RwLockReadGuard<'_, Recent> {
        self.recent.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The block to be pushed next so that nothing is left out; `None` while nothing is held.
    pub fn next(&self) -> Option<u64> {
        let recent = self.read();
        (!recent.rows.is_empty()).then(|| recent.end())
    }

    /// Adds the row of a block. One that does not follow the last begins anew.
    pub fn push(&self, number: u64, entry: FeeEntry) {
        self.recent.write().unwrap_or_else(PoisonError::into_inner).push(number, entry);
    }

    /// Whether the blocks `first` to `last` are all held.
    pub fn holds(&self, first: u64, last: u64) -> bool {
        self.read().holds(first, last)
    }

    /// The answer of `eth_feeHistory` for the blocks `first` to `last` as JSON text; `None` unless
    /// all of them are held.
    pub fn answer(&self, first: u64, last: u64, percentiles: &[f64]) -> Option<Vec<u8>> {
        let recent = self.read();
        if !recent.holds(first, last) {
            return None;
        }
        let (at, count) = (recent.index(first), recent.index(last) + 1 - recent.index(first));
        let newest = &recent.rows[at + count - 1];
        let columns = |reward: &[u8]| {
            AnswerWriter {
                reward,
                base_fee: recent.base_fee.slice(at, count),
                next_base_fee: &newest.next_base_fee,
                ratio: recent.ratio.slice(at, count),
                blob_fee: recent.blob_fee.slice(at, count),
                next_blob_fee: &newest.next_blob_base_fee,
                blob_ratio: recent.blob_ratio.slice(at, count),
            }
            .write(first, !percentiles.is_empty())
        };
        if percentiles.is_empty() {
            return Some(columns(&[]));
        }
        if percentiles.len() > MAX_LIST_PERCENTILES {
            let mut rewards = Column::default();
            for row in recent.rows.range(at..at + count) {
                rewards.push(|out| row.put_rewards(out, percentiles));
            }
            return Some(columns(rewards.slice(0, count)));
        }
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = match lists.iter().position(|list| list.percentiles == percentiles) {
            Some(known) => lists.remove(known),
            None => {
                let percentiles = percentiles.to_vec();
                Rewards { percentiles, first, column: Column::default() }
            }
        };
        if lists.len() >= MAX_LISTS {
            lists.remove(0);
        }
        // The rows may have begun anew, somewhere else.
        if list.end() > recent.end() {
            list.column = Column::default();
        }
        list.reach(&recent, first, last);
        let from = usize::try_from(first - list.first).ok()?;
        let answer = columns(list.column.slice(from, count));
        lists.push(list);
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::FeeRow, super::Tip, *};

    fn entry(base_fee: u64, tips: usize) -> FeeEntry {
        let gas_used = 21_000 * tips as u64;
        let tips = (0..tips as u128).map(|tip| Tip { tip, gas: 21_000 }).collect();
        let row = FeeRow { base_fee, gas_used, gas_limit: 1 << 30, tips, ..FeeRow::default() };
        FeeEntry::new(&RowReader::new(&row.to_bytes()).expect("a row")).expect("a row")
    }

    fn rewards(columns: &FeeColumns, first: u64, last: u64, list: &[f64]) -> serde_json::Value {
        let text = columns.answer(first, last, list).expect("held");
        let mut answer: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        answer["reward"].take()
    }

    #[test]
    fn the_oldest_give_way() {
        let columns = FeeColumns::default();
        assert_eq!(columns.next(), None);
        for number in 7..7 + 2 * RECENT_BLOCKS as u64 {
            columns.push(number, entry(number, 1));
        }
        let last = 6 + 2 * RECENT_BLOCKS as u64;
        let first = last + 1 - RECENT_BLOCKS as u64;
        assert_eq!(columns.next(), Some(last + 1));
        assert!(columns.holds(first, last));
        assert!(!columns.holds(first - 1, last) && !columns.holds(first, last + 1));
        let text = columns.answer(first, last, &[]).expect("held");
        let answer: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let fees = answer["baseFeePerGas"].as_array().expect("a list");
        assert_eq!(fees.len(), RECENT_BLOCKS + 1);
        assert_eq!(fees[0], format!("{first:#x}"));
        assert_eq!(fees[RECENT_BLOCKS - 1], format!("{last:#x}"));
    }

    #[test]
    fn a_gap_begins_anew() {
        let columns = FeeColumns::default();
        columns.push(10, entry(1, 3));
        assert_eq!(rewards(&columns, 10, 10, &[100.0]), serde_json::json!([["0x2"]]));
        columns.push(3, entry(3, 2));
        assert!(!columns.holds(10, 10));
        assert_eq!(rewards(&columns, 3, 3, &[100.0]), serde_json::json!([["0x1"]]));
    }

    #[test]
    fn kept_rewards_are_those_of_the_tips() {
        let columns = FeeColumns::default();
        let mut lists: Vec<Vec<f64>> = (0..40).map(|list| vec![f64::from(list), 77.5]).collect();
        lists.push((0..MAX_LIST_PERCENTILES as u32 + 1).map(f64::from).collect());
        let mut held = VecDeque::new();
        for number in 0..RECENT_BLOCKS as u64 + 500 {
            let row = entry(number, (number % 7) as usize);
            columns.push(number, row.clone());
            held.push_back((number, row));
            if held.len() > RECENT_BLOCKS {
                held.pop_front();
            }
            if number % 97 != 5 {
                continue;
            }
            // From anywhere to anywhere, by a list that is known, or was, or is new.
            let list = &lists[(number % 41) as usize];
            let from = (number.wrapping_mul(0x9e37_79b9) % held.len() as u64) as usize;
            let to = from + (number.wrapping_mul(31) as usize % (held.len() - from));
            let expected: Vec<Vec<String>> = held
                .range(from..=to)
                .map(|(_, row)| list.iter().map(|p| format!("{:#x}", row.reward(*p))).collect())
                .collect();
            let found = rewards(&columns, held[from].0, held[to].0, list);
            assert_eq!(found, serde_json::json!(expected), "{from} to {to} at {number}");
        }
        assert!(columns.lists.lock().unwrap().len() <= MAX_LISTS);
    }

    #[test]
    fn kept_rewards_are_extended_to_blocks_before_their_start() {
        for start in 1..5 {
            let columns = FeeColumns::default();
            for number in 0..6 {
                columns.push(number, entry(number, number as usize + 1));
            }
            // The first question makes the column start at `start`; its tips are 0 to `number`.
            for first in [start, start - 1, start + 1, start] {
                let expected: Vec<_> = (first..6).map(|number| [format!("{number:#x}")]).collect();
                let found = rewards(&columns, first, 5, &[100.0]);
                assert_eq!(found, serde_json::json!(expected), "{first} after {start}");
            }
        }
    }
}
