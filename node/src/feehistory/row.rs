//! One block's row, in memory and as it is stored.
//!
//! Stored, a row is an RLP list of its scalars and one byte string with the tips: a byte with the
//! width of a tip, a byte with the width of a gas sum, the tips ascending, then for each the gas
//! used at it or below; all big-endian in the least width that holds the greatest, tips in one byte at least. So a percentile
//! is a binary search over the stored bytes.

use alloy_primitives::bytes::BufMut;
use alloy_rlp::{Decodable, Encodable, Header};

/// Bytes of the two widths before the tips.
const WIDTHS: usize = 2;
/// Bytes of the widest tip and of the widest gas sum.
const TIP_BYTES_MAX: usize = 16;
const GAS_BYTES_MAX: usize = WORD_BYTES;
/// Bytes that are read at once.
const WORD_BYTES: usize = 8;

/// One block's row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeeRow {
    /// Base fee of the block, in wei; zero before London.
    pub base_fee: u64,
    /// Base fee of the block after it, in wei.
    pub next_base_fee: u64,
    /// Gas used.
    pub gas_used: u64,
    /// Gas limit.
    pub gas_limit: u64,
    /// Blob gas used (EIP-4844).
    pub blob_gas_used: u64,
    /// Most blob gas of a block under its fork; zero before Cancun.
    pub blob_gas_max: u64,
    /// Blob base fee of the block, in wei.
    pub blob_base_fee: u128,
    /// Blob base fee of the block after it, in wei.
    pub next_blob_base_fee: u128,
    /// Effective tips ascending, each once, with the gas used at it.
    pub tips: Vec<Tip>,
}

/// Gas used at one effective tip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tip {
    /// Effective tip, in wei per gas.
    pub tip: u128,
    /// Gas used by the transactions that paid it.
    pub gas: u64,
}

impl FeeRow {
    /// Sorts the tips of a block's transactions and joins equal ones.
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

    /// Gas used over gas limit.
    pub fn gas_used_ratio(&self) -> f64 {
        ratio(self.gas_used, self.gas_limit)
    }

    /// Blob gas used over the most a block may use.
    pub fn blob_gas_used_ratio(&self) -> f64 {
        ratio(self.blob_gas_used, self.blob_gas_max)
    }

    /// The effective tip at each percentile, which must ascend. As geth: the first tip at which
    /// the gas used reaches `gas_used * percentile / 100`, and zero without transactions.
    pub fn rewards(&self, percentiles: &[f64]) -> Vec<u128> {
        let packed = self.pack();
        let tips = Packed::read(&packed, 0).expect("what was packed can be read");
        percentiles.iter().map(|percentile| tips.reward(self.gas_used, *percentile)).collect()
    }

    /// The tips as they are stored.
    fn pack(&self) -> Vec<u8> {
        let gas: u64 = self.tips.iter().map(|tip| tip.gas).sum();
        let greatest = self.tips.last().map_or(0, |tip| tip.tip);
        // At least one byte, so that the number of tips always follows from the length.
        let tip_bytes = (TIP_BYTES_MAX - greatest.leading_zeros() as usize / 8).max(1);
        let gas_bytes = GAS_BYTES_MAX - gas.leading_zeros() as usize / 8;
        let mut out = Vec::with_capacity(WIDTHS + self.tips.len() * (tip_bytes + gas_bytes));
        out.push(tip_bytes as u8);
        out.push(gas_bytes as u8);
        for tip in &self.tips {
            out.extend_from_slice(&tip.tip.to_be_bytes()[TIP_BYTES_MAX - tip_bytes..]);
        }
        let mut sum = 0u64;
        for tip in &self.tips {
            sum += tip.gas;
            out.extend_from_slice(&sum.to_be_bytes()[GAS_BYTES_MAX - gas_bytes..]);
        }
        out
    }

    fn scalars(&self) -> [&dyn Encodable; 8] {
        [
            &self.base_fee,
            &self.next_base_fee,
            &self.gas_used,
            &self.gas_limit,
            &self.blob_gas_used,
            &self.blob_gas_max,
            &self.blob_base_fee,
            &self.next_blob_base_fee,
        ]
    }
}

fn ratio(used: u64, limit: u64) -> f64 {
    if limit == 0 { 0.0 } else { used as f64 / limit as f64 }
}

impl Encodable for FeeRow {
    fn encode(&self, out: &mut dyn BufMut) {
        let packed = self.pack();
        let scalars = self.scalars();
        let payload_length =
            scalars.iter().map(|field| field.length()).sum::<usize>() + packed[..].length();
        Header { list: true, payload_length }.encode(out);
        for field in scalars {
            field.encode(out);
        }
        packed[..].encode(out);
    }
}

impl Decodable for FeeRow {
    fn decode(buf: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let (mut row, packed) = decode_scalars(buf)?;
        let mut before = 0;
        for index in 0..packed.len() {
            let gas = packed.gas(index);
            let gas_at = gas.checked_sub(before);
            let gas_at = gas_at.ok_or(alloy_rlp::Error::Custom("gas sums of tips must rise"))?;
            row.tips.push(Tip { tip: packed.tip(index), gas: gas_at });
            before = gas;
        }
        Ok(row)
    }
}

/// All but the tips, and those as they are stored.
#[inline]
fn decode_scalars<'a>(buf: &mut &'a [u8]) -> alloy_rlp::Result<(FeeRow, Packed<'a>)> {
    let whole = *buf;
    let mut fields = Header::decode_bytes(buf, true)?;
    let fields = &mut fields;
    let row = FeeRow {
        base_fee: scalar(fields)?,
        next_base_fee: scalar(fields)?,
        gas_used: scalar(fields)?,
        gas_limit: scalar(fields)?,
        blob_gas_used: scalar(fields)?,
        blob_gas_max: scalar(fields)?,
        blob_base_fee: scalar(fields)?,
        next_blob_base_fee: scalar(fields)?,
        tips: Vec::new(),
    };
    let packed = Header::decode_bytes(fields, false)?;
    let end = whole.len() - buf.len() - fields.len();
    let packed = Packed::read(&whole[..end], end - packed.len());
    Ok((row, packed.ok_or(alloy_rlp::Error::Custom("tips are not packed"))?))
}

/// The next integer of a list. Nearly all are of at most eight bytes and not the last of the row:
/// one load and a shift, where the general way takes a copy of unknown length.
#[inline]
fn scalar<T: Decodable + From<u64>>(fields: &mut &[u8]) -> alloy_rlp::Result<T> {
    let Some((value, length)) = fields.first_chunk().and_then(short_scalar) else {
        return T::decode(fields);
    };
    *fields = &fields[length..];
    Ok(value.into())
}

/// The integer that begins here, and the bytes it takes. `None` when it is longer, or not as RLP has
/// it.
#[inline]
fn short_scalar(bytes: &[u8; 1 + WORD_BYTES]) -> Option<(u64, usize)> {
    let [first, word @ ..] = *bytes;
    match first {
        1..=0x7f => Some((first.into(), 1)),
        0x80 => Some((0, 1)),
        0x81..=0x88 => {
            let length = usize::from(first - 0x80);
            let value = u64::from_be_bytes(word) >> (8 * (WORD_BYTES - length));
            let least = if length == 1 { 0x80 } else { 1 << (8 * (length - 1)) };
            (value >= least).then_some((value, 1 + length))
        }
        _ => None,
    }
}

/// Tips as they are stored, at the end of their row.
#[derive(Clone, Copy, Debug)]
struct Packed<'a> {
    row: &'a [u8],
    /// Where the tips and the gas sums begin.
    tips: usize,
    gas: usize,
    tip_bytes: usize,
    gas_bytes: usize,
    count: usize,
}

impl<'a> Packed<'a> {
    /// Those from `start` to the end of `row`.
    #[inline]
    fn read(row: &'a [u8], start: usize) -> Option<Self> {
        let (widths, rest) = row[start..].split_first_chunk::<WIDTHS>()?;
        let [tip_bytes, gas_bytes] = widths.map(usize::from);
        if tip_bytes == 0 || tip_bytes > TIP_BYTES_MAX || gas_bytes > GAS_BYTES_MAX {
            return None;
        }
        let each = tip_bytes + gas_bytes;
        let count = rest.len() / each;
        if count * each != rest.len() {
            return None;
        }
        let tips = start + WIDTHS;
        Some(Self { row, tips, gas: tips + count * tip_bytes, tip_bytes, gas_bytes, count })
    }

    const fn len(&self) -> usize {
        self.count
    }

    fn tip(&self, index: usize) -> u128 {
        let end = self.tips + (index + 1) * self.tip_bytes;
        if self.tip_bytes <= WORD_BYTES {
            return word(self.row, end, self.tip_bytes).into();
        }
        let low = word(self.row, end, WORD_BYTES);
        let high = word(self.row, end - WORD_BYTES, self.tip_bytes - WORD_BYTES);
        u128::from(high) << (8 * WORD_BYTES) | u128::from(low)
    }

    /// Gas used at this tip and those below.
    #[inline]
    fn gas(&self, index: usize) -> u64 {
        word(self.row, self.gas + (index + 1) * self.gas_bytes, self.gas_bytes)
    }

    /// The first tip at which the gas reaches a percentile. No step depends on how a comparison
    /// ends, which nobody could predict.
    #[inline]
    fn reward(&self, gas_used: u64, percentile: f64) -> u128 {
        if self.count == 0 {
            return 0;
        }
        // Truncated like geth's `uint64(float64)`.
        let threshold = (gas_used as f64 * percentile / 100.0) as u64;
        let (mut low, mut size) = (0, self.count);
        while size > 1 {
            let half = size / 2;
            low += if self.gas(low + half - 1) < threshold { half } else { 0 };
            size -= half;
        }
        self.tip(low)
    }
}

/// The big-endian number of `width` bytes, at most eight, that ends at `end`.
#[inline]
fn word(bytes: &[u8], end: usize, width: usize) -> u64 {
    let unused = 8 * (WORD_BYTES - width) as u32;
    // One load and a mask, but at the very beginning: a copy of `width` bytes costs ten times that.
    if let Some(word) = bytes[..end].last_chunk() {
        return u64::from_be_bytes(*word) & u64::MAX.checked_shr(unused).unwrap_or(0);
    }
    let mut word = [0; WORD_BYTES];
    word[WORD_BYTES - width..].copy_from_slice(&bytes[end - width..end]);
    u64::from_be_bytes(word)
}

/// A stored row whose tips stay as they are.
#[derive(Clone, Debug)]
pub struct RowReader<'a> {
    /// The row without tips.
    pub scalars: FeeRow,
    tips: Packed<'a>,
}

impl<'a> RowReader<'a> {
    /// Reads a stored row.
    ///
    /// # Errors
    /// When the bytes are no row.
    #[inline]
    pub fn new(mut bytes: &'a [u8]) -> alloy_rlp::Result<Self> {
        let (scalars, tips) = decode_scalars(&mut bytes)?;
        Ok(Self { scalars, tips })
    }

    /// As [`FeeRow::rewards`] for one percentile.
    pub fn reward(&self, percentile: f64) -> u128 {
        self.tips.reward(self.scalars.gas_used, percentile)
    }

    /// The tips ascending, with the gas used at each or below.
    pub fn tips(&self) -> impl Iterator<Item = (u128, u64)> + '_ {
        (0..self.tips.len()).map(|index| (self.tips.tip(index), self.tips.gas(index)))
    }
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
    fn rewards_follow_the_gas() {
        let row = row(&[(21_000, 5), (50_000, 1), (100_000, 3), (29_000, 10)]);
        let percentiles = [0.0, 25.0, 26.0, 50.0, 75.0, 76.0, 86.0, 90.0, 100.0];
        assert_eq!(row.rewards(&percentiles), [1, 1, 3, 3, 3, 5, 10, 10, 10]);
    }

    #[test]
    fn a_block_without_transactions_rewards_nothing() {
        assert_eq!(FeeRow::default().rewards(&[0.0, 100.0]), [0, 0]);
    }

    #[test]
    fn a_row_survives_its_encoding() {
        let greatest = Tip { tip: u128::MAX, gas: 21_000 };
        for tips in [vec![], vec![Tip { tip: 0, gas: 1 }], vec![Tip { tip: 7, gas: 1 }, greatest]] {
            let row = FeeRow { gas_used: 9, blob_base_fee: u128::MAX, tips, ..FeeRow::default() };
            let bytes = alloy_rlp::encode(&row);
            assert_eq!(FeeRow::decode(&mut &bytes[..]).as_ref(), Ok(&row));
            for length in 0..bytes.len() {
                assert!(RowReader::new(&bytes[..length]).is_err(), "{length} bytes");
            }
        }
    }

    #[test]
    fn scalars_are_read_as_alloy_reads_them() {
        let values = (0..64).map(|bits| 1_u64 << bits).flat_map(|value| [value - 1, value, !value]);
        for value in values.chain([0x7f, 0x80, 0xff, u64::MAX]) {
            let mut bytes = alloy_rlp::encode(value);
            let length = bytes.len();
            bytes.extend([0xaa; WORD_BYTES]);
            let mut rest = &bytes[..];
            assert_eq!(scalar::<u64>(&mut rest), Ok(value));
            assert_eq!(rest.len(), bytes.len() - length, "{value:#x}");
        }
        for wrong in [[0x00, 1, 1], [0x81, 0x7f, 1], [0x82, 0, 1], [0x89, 1, 1], [0xb8, 1, 1]] {
            let mut bytes = wrong.to_vec();
            bytes.extend([0xaa; WORD_BYTES]);
            let (mut ours, mut theirs) = (&bytes[..], &bytes[..]);
            assert_eq!(scalar::<u64>(&mut ours), u64::decode(&mut theirs), "{wrong:x?}");
        }
    }

    #[test]
    fn a_reward_is_the_first_tip_that_reaches_its_percentile() {
        for count in 0..40_u64 {
            let tips = (0..count).map(|n| (1 + n * n % 7, u128::from(n) << (n % 4 * 30)));
            let row = row(&tips.collect::<Vec<_>>());
            let bytes = alloy_rlp::encode(&row);
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
    fn equal_tips_are_joined() {
        assert_eq!(row(&[(1, 7), (2, 7)]).tips, [Tip { tip: 7, gas: 3 }]);
    }
}
