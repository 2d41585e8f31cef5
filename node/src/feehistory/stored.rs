//! The answer about blocks that are not held in memory, written row by row as they are read.

use super::{AnswerWriter, FeeRow, RowReader, columns::put_rewards, put_hex, put_ratio};

/// Bytes of text of a reward, and of a price or ratio.
const REWARD_CHARS: usize = 14;
const SCALAR_CHARS: usize = 16;

/// Collects the rows of consecutive blocks, in columns with a comma behind each value.
#[derive(Clone, Debug)]
pub struct StoredAnswer<'p> {
    percentiles: &'p [f64],
    reward: Vec<u8>,
    base_fee: Vec<u8>,
    ratio: Vec<u8>,
    blob_fee: Vec<u8>,
    blob_ratio: Vec<u8>,
    newest: FeeRow,
}

impl<'p> StoredAnswer<'p> {
    /// For about `blocks` blocks.
    pub fn new(blocks: usize, percentiles: &'p [f64]) -> Self {
        let scalars = || Vec::with_capacity(blocks * SCALAR_CHARS);
        Self {
            percentiles,
            reward: Vec::with_capacity(blocks * (percentiles.len() * REWARD_CHARS + 3)),
            base_fee: scalars(),
            ratio: scalars(),
            blob_fee: scalars(),
            blob_ratio: scalars(),
            newest: FeeRow::default(),
        }
    }

    /// Adds the row of the next block.
    pub fn push(&mut self, row: &RowReader<'_>) {
        let scalars = &row.scalars;
        put_hex(&mut self.base_fee, scalars.base_fee.into());
        self.base_fee.push(b',');
        put_ratio(&mut self.ratio, scalars.gas_used_ratio());
        self.ratio.push(b',');
        if scalars.blob_gas_max == 0 && scalars.blob_base_fee == 0 {
            // A chain without blobs.
            self.blob_fee.extend_from_slice(b"\"0x0\",");
            self.blob_ratio.extend_from_slice(b"0,");
        } else {
            put_hex(&mut self.blob_fee, scalars.blob_base_fee);
            self.blob_fee.push(b',');
            put_ratio(&mut self.blob_ratio, scalars.blob_gas_used_ratio());
            self.blob_ratio.push(b',');
        }
        put_rewards(&mut self.reward, self.percentiles, |percentile| row.reward(percentile));
        self.reward.push(b',');
        self.newest.next_base_fee = scalars.next_base_fee;
        self.newest.next_blob_base_fee = scalars.next_blob_base_fee;
    }

    /// The answer as JSON text; `oldest` is the number of the first block pushed.
    pub fn finish(self, oldest: u64) -> Vec<u8> {
        let text = |value: u128| format!("\"{value:#x}\"");
        AnswerWriter {
            reward: without_comma(&self.reward),
            base_fee: without_comma(&self.base_fee),
            next_base_fee: &text(self.newest.next_base_fee.into()),
            ratio: without_comma(&self.ratio),
            blob_fee: without_comma(&self.blob_fee),
            next_blob_fee: &text(self.newest.next_blob_base_fee),
            blob_ratio: without_comma(&self.blob_ratio),
        }
        .write(oldest, !self.percentiles.is_empty())
    }
}

/// A column without the comma behind its last value.
fn without_comma(column: &[u8]) -> &[u8] {
    column.strip_suffix(b",").unwrap_or(column)
}

#[cfg(test)]
mod tests {
    use super::{super::Tip, *};
    use crate::feehistory::{FeeColumns, FeeEntry};

    #[test]
    fn both_writers_write_what_serde_reads() {
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
        let rows = [alloy_rlp::encode(row), alloy_rlp::encode(FeeRow::default())];
        let (columns, mut stored) = (FeeColumns::default(), StoredAnswer::new(2, &[10.0, 90.0]));
        for (number, row) in rows.iter().enumerate() {
            let row = RowReader::new(row).expect("a row");
            columns.push(5 + number as u64, FeeEntry::new(&row));
            stored.push(&row);
        }
        let text = stored.finish(5);
        assert_eq!(columns.answer(5, 6, &[10.0, 90.0]), Some(text.clone()));
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
}
