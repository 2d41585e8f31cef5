//! Writes the response about blocks that are not in memory, row by row.

use super::{ResponseWriter, RowReader, Text, entry::put_rewards};

/// Typical length of the text of a reward, and of a price or ratio.
const REWARD_CHARS: usize = 14;
const SCALAR_CHARS: usize = 16;

/// Collects the rows of consecutive blocks, in columns with a comma after each value.
#[derive(Clone, Debug)]
pub struct StoredAnswer<'p> {
    first: u64,
    last: u64,
    percentiles: &'p [f64],
    reward: Vec<u8>,
    base_fee: Vec<u8>,
    ratio: Vec<u8>,
    blob_fee: Vec<u8>,
    blob_ratio: Vec<u8>,
    next_base_fee: u64,
    next_blob_fee: u128,
}

impl<'p> StoredAnswer<'p> {
    /// Starts the response for the blocks `first` to `last`.
    pub fn new(first: u64, last: u64, percentiles: &'p [f64]) -> Self {
        let blocks = usize::try_from(last + 1 - first).unwrap_or(0);
        let scalars = || Vec::with_capacity(blocks * SCALAR_CHARS);
        Self {
            first,
            last,
            percentiles,
            reward: Vec::with_capacity(blocks * (percentiles.len() * REWARD_CHARS + 3)),
            base_fee: scalars(),
            ratio: scalars(),
            blob_fee: scalars(),
            blob_ratio: scalars(),
            next_base_fee: 0,
            next_blob_fee: 0,
        }
    }

    /// Adds the row of the next block, which is `number`.
    ///
    /// # Errors
    /// Returns an error if it is the last row and cannot be decoded.
    pub fn push(&mut self, number: u64, row: &RowReader<'_>) -> alloy_rlp::Result<()> {
        row.put(&mut self.base_fee, Text::BaseFee);
        row.put(&mut self.ratio, Text::GasUsedRatio);
        row.put(&mut self.blob_fee, Text::BlobBaseFee);
        row.put(&mut self.blob_ratio, Text::BlobGasUsedRatio);
        put_rewards(&mut self.reward, self.percentiles, |percentile| row.reward(percentile));
        self.reward.push(b',');
        if number == self.last {
            let newest = row.scalars()?;
            self.next_base_fee = newest.next_base_fee;
            self.next_blob_fee = newest.next_blob_base_fee;
        }
        Ok(())
    }

    /// Returns the response as JSON text.
    pub fn finish(self) -> Vec<u8> {
        ResponseWriter {
            reward: &[&self.reward],
            base_fee: &[&self.base_fee],
            next_base_fee: &format!("\"{:#x}\"", self.next_base_fee),
            ratio: &[&self.ratio],
            blob_fee: &[&self.blob_fee],
            next_blob_fee: &format!("\"{:#x}\"", self.next_blob_fee),
            blob_ratio: &[&self.blob_ratio],
        }
        .write(self.first, !self.percentiles.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FeeColumns, FeeEntry, FeeRow, Tip};

    #[test]
    fn both_writers_write_the_same_valid_json() {
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
        let rows = [row, FeeRow::default()].map(|row| row.to_bytes());
        let columns = FeeColumns::default();
        let mut stored = StoredAnswer::new(5, 6, &[10.0, 90.0]);
        for (number, row) in (5..).zip(&rows) {
            let row = RowReader::new(row).expect("a row");
            columns.push(0, number, FeeEntry::new(&row).expect("a row"));
            stored.push(number, &row).expect("a row");
        }
        let text = stored.finish();
        assert_eq!(columns.answer(0, 5, 6, &[10.0, 90.0]), Some(text.clone()));
        let value: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
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

    #[test]
    fn last_fees_of_a_response_are_those_of_the_next_block() {
        let row = |n: u64| FeeRow {
            base_fee: 0x10 + n,
            next_base_fee: 0x11 + n,
            blob_base_fee: 0xb0 + u128::from(n),
            next_blob_base_fee: 0xb1 + u128::from(n),
            gas_limit: 1,
            ..FeeRow::default()
        };
        let columns = FeeColumns::default();
        let rows: Vec<_> = (0..3).map(|n| row(n).to_bytes()).collect();
        for (number, bytes) in (0..).zip(&rows) {
            let row = RowReader::new(bytes).expect("a row");
            columns.push(0, number, FeeEntry::new(&row).expect("a row"));
        }
        for (first, last) in [(0, 0), (0, 1), (1, 1), (0, 2), (2, 2)] {
            let mut stored = StoredAnswer::new(first, last, &[]);
            for number in first..=last {
                let row = RowReader::new(&rows[number as usize]).expect("a row");
                stored.push(number, &row).expect("a row");
            }
            let fees = |from: u64| (first..=last + 1).map(move |n| format!("{:#x}", from + n));
            let expected = [fees(0x10), fees(0xb0)].map(Iterator::collect::<Vec<_>>);
            for text in [stored.finish(), columns.answer(0, first, last, &[]).expect("held")] {
                let answer: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
                assert_eq!(answer["baseFeePerGas"], serde_json::json!(expected[0]));
                assert_eq!(answer["baseFeePerBlobGas"], serde_json::json!(expected[1]));
            }
        }
    }
}
