//! The rows of recent blocks in memory, in the form in which they are answered: numbers as JSON
//! text, tips beside their gas sums.
//!
//! Filled from stored rows, block after block; a block that is not here is read from the chain.

use super::RowReader;
use std::{collections::VecDeque, fmt::Write, sync::RwLock};

/// Blocks held: a request for the most blocks at the head, and one that lags as far behind.
pub const RECENT_BLOCKS: usize = 4096;
/// Tips held in all blocks: 24 bytes each, so at most about 100 MB.
const TIPS_MAX: usize = 4 << 20;

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
    pub fn new(row: &RowReader<'_>) -> Self {
        let scalars = &row.scalars;
        let (tips, gas): (Vec<u128>, Vec<u64>) = row.tips().unzip();
        let hex = |value: u128| format!("\"{value:#x}\"").into();
        let number = |value: f64| value.to_string().into();
        Self {
            base_fee: hex(scalars.base_fee.into()),
            next_base_fee: hex(scalars.next_base_fee.into()),
            gas_used_ratio: number(scalars.gas_used_ratio()),
            blob_base_fee: hex(scalars.blob_base_fee),
            next_blob_base_fee: hex(scalars.next_blob_base_fee),
            blob_gas_used_ratio: number(scalars.blob_gas_used_ratio()),
            gas_used: scalars.gas_used,
            tips: tips.into(),
            gas: gas.into(),
        }
    }

    /// The effective tip at a percentile, as [`super::FeeRow::rewards`].
    pub fn reward(&self, percentile: f64) -> u128 {
        let Some(last) = self.tips.len().checked_sub(1) else { return 0 };
        let threshold = (self.gas_used as f64 * percentile / 100.0) as u64;
        self.tips[self.gas.partition_point(|gas| *gas < threshold).min(last)]
    }
}

/// Rows of consecutive blocks.
#[derive(Debug, Default)]
struct Recent {
    first: u64,
    rows: VecDeque<FeeEntry>,
    tips: usize,
}

impl Recent {
    /// The block after the last one held.
    fn end(&self) -> u64 {
        self.first + self.rows.len() as u64
    }

    fn push(&mut self, number: u64, entry: FeeEntry) {
        if self.rows.is_empty() || number != self.end() {
            *self = Self { first: number, ..Self::default() };
        }
        self.tips += entry.tips.len();
        self.rows.push_back(entry);
        while self.rows.len() > RECENT_BLOCKS || (self.tips > TIPS_MAX && self.rows.len() > 1) {
            let Some(gone) = self.rows.pop_front() else { break };
            self.first += 1;
            self.tips -= gone.tips.len();
        }
    }
}

/// The rows of recent blocks. Writers are rare and short: one row a block.
#[derive(Debug, Default)]
pub struct FeeColumns(RwLock<Recent>);

impl FeeColumns {
    /// The block to be pushed next so that nothing is left out; `None` while nothing is held.
    pub fn next(&self) -> Option<u64> {
        let recent = self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        (!recent.rows.is_empty()).then(|| recent.end())
    }

    /// Adds the row of a block. One that does not follow the last begins anew.
    pub fn push(&self, number: u64, entry: FeeEntry) {
        self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner).push(number, entry);
    }

    /// Gives `read` the rows of the blocks `first` to `last`, in that order; `None` unless all of
    /// them are held.
    pub fn range<T>(
        &self,
        first: u64,
        last: u64,
        read: impl FnOnce(&mut dyn Iterator<Item = &FeeEntry>) -> T,
    ) -> Option<T> {
        let recent = self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        if first < recent.first || last >= recent.end() || first > last {
            return None;
        }
        let start = usize::try_from(first - recent.first).ok()?;
        let end = usize::try_from(last - recent.first).ok()?;
        Some(read(&mut recent.rows.range(start..=end)))
    }
}

/// Writes a price as a JSON string; by hand, because an answer has thousands of them.
pub(crate) fn put_hex(out: &mut String, value: u128) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let Ok(mut low) = u64::try_from(value) else {
        write!(out, "\"{value:#x}\"").expect("a string takes any text");
        return;
    };
    let mut text = [0; 16];
    let mut start = text.len();
    loop {
        start -= 1;
        text[start] = DIGITS[(low & 0xf) as usize];
        low >>= 4;
        if low == 0 {
            break;
        }
    }
    out.push_str("\"0x");
    out.push_str(std::str::from_utf8(&text[start..]).expect("hex digits are ASCII"));
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::{super::FeeRow, super::Tip, *};

    fn entry(base_fee: u64, tips: usize) -> FeeEntry {
        let tips = (0..tips as u128).map(|tip| Tip { tip, gas: 21_000 }).collect();
        let bytes = alloy_rlp::encode(FeeRow { base_fee, tips, ..FeeRow::default() });
        FeeEntry::new(&RowReader::new(&bytes).expect("a row"))
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
        assert_eq!(columns.range(first, last, |rows| rows.count()), Some(RECENT_BLOCKS));
        assert_eq!(columns.range(first - 1, last, |_| ()), None);
        assert_eq!(columns.range(first, last + 1, |_| ()), None);
        let found = columns.range(last, last, |rows| rows.next().cloned()).flatten();
        assert_eq!(found, Some(entry(last, 1)));
    }

    #[test]
    fn a_gap_begins_anew() {
        let columns = FeeColumns::default();
        columns.push(1, entry(1, 0));
        columns.push(3, entry(3, 0));
        assert_eq!(columns.range(1, 1, |_| ()), None);
        assert_eq!(columns.range(3, 3, |_| ()), Some(()));
    }

    #[test]
    fn hex_is_as_the_formatter_writes_it() {
        for value in [0, 1, 15, 16, 0xdead_beef, u128::from(u64::MAX), u128::from(u64::MAX) + 1] {
            let mut out = String::new();
            put_hex(&mut out, value);
            assert_eq!(out, format!("\"{value:#x}\""));
        }
    }
}
