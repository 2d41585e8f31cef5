//! Holds the fee row of one block in memory.

use super::{RowReader, Text, put_hex};

/// The row of one block, with the JSON text of its scalars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeeEntry {
    /// Base fee as a JSON string.
    pub base_fee: Box<str>,
    /// Base fee of the next block as a JSON string.
    pub next_base_fee: Box<str>,
    /// Gas used divided by the gas limit, as a JSON number.
    pub gas_used_ratio: Box<str>,
    /// Blob base fee as a JSON string.
    pub blob_base_fee: Box<str>,
    /// Blob base fee of the next block as a JSON string.
    pub next_blob_base_fee: Box<str>,
    /// Blob gas used divided by its maximum, as a JSON number.
    pub blob_gas_used_ratio: Box<str>,
    gas_used: u64,
    tips: Box<[u128]>,
    gas: Box<[u64]>,
}

impl FeeEntry {
    /// Decodes a stored row.
    ///
    /// # Errors
    /// Returns an error if the scalars cannot be decoded.
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

    /// Returns the effective priority fee at a percentile, like [`super::FeeRow::rewards`].
    pub fn reward(&self, percentile: f64) -> u128 {
        let Some(last) = self.tips.len().checked_sub(1) else { return 0 };
        let threshold = (self.gas_used as f64 * percentile / 100.0) as u64;
        self.tips[self.gas.partition_point(|gas| *gas < threshold).min(last)]
    }

    /// Returns the number of distinct priority fees.
    pub(super) const fn tips(&self) -> usize {
        self.tips.len()
    }

    /// Appends the rewards at these percentiles as a JSON list.
    pub(super) fn put_rewards(&self, out: &mut Vec<u8>, percentiles: &[f64]) {
        put_rewards(out, percentiles, |percentile| self.reward(percentile));
    }
}

/// Appends the rewards of a block as a JSON list.
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
