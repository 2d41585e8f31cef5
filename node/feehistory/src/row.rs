//! Defines the row of one block, in memory and in its stored form.
//!
//! A stored row begins with the values of `eth_feeHistory` as JSON text, so that a response is assembled by copying:
//!
//! | Bytes | Content |
//! |--:|---|
//! | 8 | gas used |
//! | 4 | lengths of the four texts |
//! | 1 | length of the scalars |
//! | 1 | width of a priority fee |
//! | 1 | width of a gas sum |
//! | 4 | number of priority fees |
//! | | texts of base fee, gas used ratio, blob base fee and blob gas used ratio, with a comma after each |
//! | | RLP list of the scalars except gas used |
//! | | effective priority fees in ascending order |
//! | | for each priority fee, the gas used by transactions with this priority fee or a lower one |
//!
//! Numbers are big-endian. All priority fees have the minimum width that fits the highest one, and so have all gas
//! sums, but at least one byte. A percentile is therefore found by a binary search in the stored bytes.

use alloy_rlp::{Decodable, Encodable, Error, Header};
use std::ops::Range;

/// Number of texts in a row.
const TEXTS: usize = 4;
/// Positions of the lengths, of the two widths, and of the number of priority fees.
const LENGTHS: usize = 8;
const TIP_WIDTH: usize = LENGTHS + TEXTS + 1;
const GAS_WIDTH: usize = TIP_WIDTH + 1;
const COUNT: usize = GAS_WIDTH + 1;
/// Number of bytes before the texts.
const HEAD: usize = COUNT + 4;
/// Number of bytes that [`word`] loads at once.
const WORD_BYTES: usize = 8;
/// Maximum width of a priority fee and of a gas sum.
const MAX_TIP_BYTES: usize = 16;
const MAX_GAS_BYTES: usize = WORD_BYTES;

/// The row of one block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeeRow {
    /// Base fee of the block in wei, or zero before London.
    pub base_fee: u64,
    /// Base fee of the next block in wei.
    pub next_base_fee: u64,
    /// Gas used.
    pub gas_used: u64,
    /// Gas limit.
    pub gas_limit: u64,
    /// Blob gas used (EIP-4844).
    pub blob_gas_used: u64,
    /// Maximum blob gas of a block under its fork, or zero before Cancun.
    pub blob_gas_max: u64,
    /// Blob base fee of the block in wei.
    pub blob_base_fee: u128,
    /// Blob base fee of the next block in wei.
    pub next_blob_base_fee: u128,
    /// The distinct effective priority fees in ascending order, with the gas used at each.
    pub tips: Vec<Tip>,
}

/// Gas used at one effective priority fee.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tip {
    /// Effective priority fee in wei per gas.
    pub tip: u128,
    /// Gas used by the transactions that paid it.
    pub gas: u64,
}

impl FeeRow {
    /// Sorts the priority fees of the transactions of a block and merges equal ones.
    pub fn distribution(mut tips: Vec<Tip>) -> Vec<Tip> {
        tips.sort_unstable();
        tips.dedup_by(|later, earlier| {
            let equal = later.tip == earlier.tip;
            if equal {
                earlier.gas += later.gas;
            }
            equal
        });
        tips
    }

    /// Returns the gas used divided by the gas limit.
    pub fn gas_used_ratio(&self) -> f64 {
        ratio(self.gas_used, self.gas_limit)
    }

    /// Returns the blob gas used divided by its maximum.
    pub fn blob_gas_used_ratio(&self) -> f64 {
        ratio(self.blob_gas_used, self.blob_gas_max)
    }

    /// Returns the effective priority fee at each percentile. As in geth, this is the lowest one at which the gas sum
    /// reaches `gas_used * percentile / 100`, or zero without transactions.
    pub fn rewards(&self, percentiles: &[f64]) -> Vec<u128> {
        let bytes = self.to_bytes();
        let row = RowReader::new(&bytes).expect("the row was just encoded");
        percentiles.iter().map(|percentile| row.reward(*percentile)).collect()
    }

    /// Encodes the row for storage.
    pub fn to_bytes(&self) -> Vec<u8> {
        let texts = [
            format!("\"{:#x}\",", self.base_fee),
            format!("{},", self.gas_used_ratio()),
            format!("\"{:#x}\",", self.blob_base_fee),
            format!("{},", self.blob_gas_used_ratio()),
        ];
        let scalars = self.encode_scalars();
        let gas: u64 = self.tips.iter().map(|tip| tip.gas).sum();
        let greatest = self.tips.last().map_or(0, |tip| tip.tip);
        let tip_bytes = MAX_TIP_BYTES - greatest.leading_zeros() as usize / 8;
        // At least one byte, so that the length of a row limits the number of its priority fees.
        let gas_bytes = (MAX_GAS_BYTES - gas.leading_zeros() as usize / 8).max(1);
        let length = |bytes: &[u8]| u8::try_from(bytes.len()).expect("a few numbers are short");
        let count = u32::try_from(self.tips.len()).expect("a block has fewer transactions");

        let mut out = Vec::new();
        out.extend(self.gas_used.to_be_bytes());
        out.extend(texts.iter().map(|text| length(text.as_bytes())));
        out.extend([length(&scalars), tip_bytes as u8, gas_bytes as u8]);
        out.extend(count.to_be_bytes());
        texts.iter().for_each(|text| out.extend(text.as_bytes()));
        out.extend(scalars);
        for tip in &self.tips {
            out.extend(&tip.tip.to_be_bytes()[MAX_TIP_BYTES - tip_bytes..]);
        }
        let mut sum = 0u64;
        for tip in &self.tips {
            sum += tip.gas;
            out.extend(&sum.to_be_bytes()[MAX_GAS_BYTES - gas_bytes..]);
        }
        out
    }

    fn encode_scalars(&self) -> Vec<u8> {
        let scalars = self.scalars();
        let payload_length = scalars.iter().map(|field| field.length()).sum();
        let mut out = Vec::new();
        Header { list: true, payload_length }.encode(&mut out);
        scalars.iter().for_each(|field| field.encode(&mut out));
        out
    }

    /// Returns all scalars except gas used, which is stored before them.
    fn scalars(&self) -> [&dyn Encodable; 7] {
        [
            &self.base_fee,
            &self.next_base_fee,
            &self.gas_limit,
            &self.blob_gas_used,
            &self.blob_gas_max,
            &self.blob_base_fee,
            &self.next_blob_base_fee,
        ]
    }

    /// Decodes a stored row.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a row.
    pub fn read(bytes: &[u8]) -> alloy_rlp::Result<Self> {
        let reader = RowReader::new(bytes)?;
        let mut row = reader.scalars()?;
        let mut before = 0;
        for (tip, sum) in reader.tips() {
            let gas = sum.checked_sub(before);
            let gas = gas.ok_or(Error::Custom("gas sums of a fee row must not decrease"))?;
            row.tips.push(Tip { tip, gas });
            before = sum;
        }
        Ok(row)
    }
}

fn ratio(used: u64, limit: u64) -> f64 {
    if limit == 0 { 0.0 } else { used as f64 / limit as f64 }
}

/// A value that a row contains as text.
#[derive(Clone, Copy, Debug)]
pub enum Text {
    /// Base fee as a JSON string.
    BaseFee,
    /// Gas used divided by the gas limit, as a JSON number.
    GasUsedRatio,
    /// Blob base fee as a JSON string.
    BlobBaseFee,
    /// Blob gas used divided by its maximum, as a JSON number.
    BlobGasUsedRatio,
}

/// Number of bytes that are copied for a text of at most this length.
const TEXT_CHUNK: usize = 32;

/// A stored row that is read without decoding all of it.
#[derive(Clone, Copy, Debug)]
pub struct RowReader<'a> {
    row: &'a [u8],
    /// Gas used.
    pub gas_used: u64,
    /// Position of the priority fees, which precede the gas sums.
    tips: usize,
    gas: usize,
    tip_bytes: usize,
    gas_bytes: usize,
    count: usize,
}

impl<'a> RowReader<'a> {
    /// Locates the parts of a stored row.
    ///
    /// # Errors
    /// Returns an error if the lengths in the row do not add up. Checks neither the texts nor the scalars.
    #[inline]
    pub fn new(row: &'a [u8]) -> alloy_rlp::Result<Self> {
        let head = row.first_chunk::<HEAD>().ok_or(Error::InputTooShort)?;
        let gas_used = u64::from_be_bytes(*head.first_chunk().expect("the head is longer"));
        let count = u32::from_be_bytes(*head.last_chunk().expect("the head is longer")) as usize;
        let (tip_bytes, gas_bytes) = (head[TIP_WIDTH].into(), head[GAS_WIDTH].into());
        let tips = start(head, TEXTS + 1);
        let gas = tips + count * tip_bytes;
        let fits = tip_bytes <= MAX_TIP_BYTES && (1..=MAX_GAS_BYTES).contains(&gas_bytes);
        if !fits || gas + count * gas_bytes != row.len() {
            return Err(Error::Custom("the length of a fee row does not match its head"));
        }
        Ok(Self { row, gas_used, tips, gas, tip_bytes, gas_bytes, count })
    }

    /// Returns the range of a text with the comma after it.
    #[inline]
    fn range(&self, text: Text) -> Range<usize> {
        start(self.row, text as usize)..start(self.row, text as usize + 1)
    }

    /// Returns a value as JSON text.
    ///
    /// # Errors
    /// Returns an error if it is not UTF-8 or no comma follows it.
    pub fn text(&self, text: Text) -> alloy_rlp::Result<&'a str> {
        let bytes = &self.row[self.range(text)];
        let text = bytes.strip_suffix(b",").and_then(|bytes| str::from_utf8(bytes).ok());
        text.ok_or(Error::Custom("a text of a fee row is not UTF-8 followed by a comma"))
    }

    /// Appends a text and the comma after it.
    #[inline]
    pub(super) fn put(&self, out: &mut Vec<u8>, text: Text) {
        let range = self.range(text);
        let chunk = self.row[range.start..].first_chunk::<TEXT_CHUNK>();
        match chunk.filter(|_| range.len() <= TEXT_CHUNK) {
            // A copy of a constant length is two moves. The surplus is removed afterwards.
            Some(chunk) => {
                let end = out.len() + range.len();
                out.extend_from_slice(chunk);
                out.truncate(end);
            }
            None => out.extend_from_slice(&self.row[range]),
        }
    }

    /// Decodes the row without its priority fees.
    ///
    /// # Errors
    /// Returns an error if the scalars are not valid RLP.
    pub fn scalars(&self) -> alloy_rlp::Result<FeeRow> {
        let mut rlp = &self.row[start(self.row, TEXTS)..self.tips];
        let fields = &mut Header::decode_bytes(&mut rlp, true)?;
        Ok(FeeRow {
            base_fee: u64::decode(fields)?,
            next_base_fee: u64::decode(fields)?,
            gas_used: self.gas_used,
            gas_limit: u64::decode(fields)?,
            blob_gas_used: u64::decode(fields)?,
            blob_gas_max: u64::decode(fields)?,
            blob_base_fee: u128::decode(fields)?,
            next_blob_base_fee: u128::decode(fields)?,
            tips: Vec::new(),
        })
    }

    /// Does the same as [`FeeRow::rewards`] for one percentile. No branch of the search depends on the result of a
    /// comparison, because such branches are often mispredicted.
    #[inline]
    pub fn reward(&self, percentile: f64) -> u128 {
        if self.count == 0 {
            return 0;
        }
        // Truncated like geth's `uint64(float64)`.
        let threshold = (self.gas_used as f64 * percentile / 100.0) as u64;
        let (mut low, mut size) = (0, self.count);
        while size > 1 {
            let half = size / 2;
            low += if self.gas(low + half - 1) < threshold { half } else { 0 };
            size -= half;
        }
        self.tip(low)
    }

    /// Returns the priority fees in ascending order, each with the gas used by transactions with this or a lower one.
    pub fn tips(&self) -> impl Iterator<Item = (u128, u64)> + '_ {
        (0..self.count).map(|index| (self.tip(index), self.gas(index)))
    }

    #[inline]
    fn tip(&self, index: usize) -> u128 {
        let end = self.tips + (index + 1) * self.tip_bytes;
        if self.tip_bytes <= WORD_BYTES {
            return word(self.row, end, self.tip_bytes).into();
        }
        let low = word(self.row, end, WORD_BYTES);
        let high = word(self.row, end - WORD_BYTES, self.tip_bytes - WORD_BYTES);
        u128::from(high) << (8 * WORD_BYTES) | u128::from(low)
    }

    /// Returns the gas used at this priority fee and at lower ones.
    #[inline]
    fn gas(&self, index: usize) -> u64 {
        word(self.row, self.gas + (index + 1) * self.gas_bytes, self.gas_bytes)
    }
}

/// Returns the position of a text, or of the scalars or priority fees after the last text.
#[inline]
fn start(row: &[u8], part: usize) -> usize {
    let lengths = &row[LENGTHS..TIP_WIDTH];
    HEAD + lengths[..part].iter().map(|length| usize::from(*length)).sum::<usize>()
}

/// Reads the big-endian number of `width` bytes, at most eight, that ends at `end`, which is after the head. It takes
/// one load and a mask. A copy of `width` bytes takes ten times as long.
#[inline]
fn word(row: &[u8], end: usize, width: usize) -> u64 {
    let unused = 8 * (WORD_BYTES - width) as u32;
    let word = row[..end].last_chunk().expect("the head is longer than a word");
    u64::from_be_bytes(*word) & u64::MAX.checked_shr(unused).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tips: &[(u64, u128)]) -> FeeRow {
        let gas_used = tips.iter().map(|(gas, _)| gas).sum();
        let tips = tips.iter().map(|(gas, tip)| Tip { tip: *tip, gas: *gas }).collect();
        FeeRow { gas_used, tips: FeeRow::distribution(tips), ..FeeRow::default() }
    }

    #[test]
    fn rewards_are_weighted_by_gas() {
        let row = row(&[(21_000, 5), (50_000, 1), (100_000, 3), (29_000, 10)]);
        let percentiles = [0.0, 25.0, 26.0, 50.0, 75.0, 76.0, 86.0, 90.0, 100.0];
        assert_eq!(row.rewards(&percentiles), [1, 1, 3, 3, 3, 5, 10, 10, 10]);
    }

    #[test]
    fn rewards_of_a_block_without_transactions_are_zero() {
        assert_eq!(FeeRow::default().rewards(&[0.0, 100.0]), [0, 0]);
    }

    #[test]
    fn row_survives_its_encoding() {
        let greatest = Tip { tip: u128::MAX, gas: 21_000 };
        for tips in [vec![], vec![Tip { tip: 0, gas: 1 }], vec![Tip { tip: 7, gas: 1 }, greatest]] {
            let row = FeeRow { gas_used: 9, blob_base_fee: u128::MAX, tips, ..FeeRow::default() };
            let bytes = row.to_bytes();
            assert_eq!(FeeRow::read(&bytes).as_ref(), Ok(&row));
            for length in 0..bytes.len() {
                assert!(RowReader::new(&bytes[..length]).is_err(), "{length} bytes");
            }
        }
    }

    #[test]
    fn reward_is_the_lowest_priority_fee_that_reaches_its_percentile() {
        for count in 0..40_u64 {
            let tips = (0..count).map(|n| (1 + n * n % 7, u128::from(n) << (n % 4 * 30)));
            let row = row(&tips.collect::<Vec<_>>());
            let bytes = row.to_bytes();
            let stored = RowReader::new(&bytes).unwrap();
            for percentile in (0..=100).map(f64::from) {
                let threshold = (row.gas_used as f64 * percentile / 100.0) as u64;
                let mut sum = 0;
                let mut reached = row.tips.iter().filter(|tip| {
                    sum += tip.gas;
                    sum >= threshold
                });
                let tip = reached.next().or(row.tips.last()).map_or(0, |tip| tip.tip);
                assert_eq!(stored.reward(percentile), tip, "{count} tips at {percentile}");
                assert_eq!(row.rewards(&[percentile]), [tip]);
            }
        }
    }

    #[test]
    fn gas_sums_of_zero_width_are_rejected() {
        let free = FeeRow { tips: vec![Tip { tip: 0, gas: 0 }], ..FeeRow::default() };
        let mut bytes = free.to_bytes();
        assert_eq!(FeeRow::read(&bytes), Ok(free));
        bytes.pop();
        bytes[GAS_WIDTH] = 0;
        assert!(RowReader::new(&bytes).is_err());
    }

    #[test]
    fn equal_priority_fees_are_merged() {
        assert_eq!(row(&[(1, 7), (2, 7)]).tips, [Tip { tip: 7, gas: 3 }]);
    }
}
