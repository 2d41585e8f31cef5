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
const GAS_BYTES_MAX: usize = 8;

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
        let tips = Packed::read(&packed).expect("what was packed can be read");
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
    let mut fields = Header::decode_bytes(buf, true)?;
    let fields = &mut fields;
    let row = FeeRow {
        base_fee: Decodable::decode(fields)?,
        next_base_fee: Decodable::decode(fields)?,
        gas_used: Decodable::decode(fields)?,
        gas_limit: Decodable::decode(fields)?,
        blob_gas_used: Decodable::decode(fields)?,
        blob_gas_max: Decodable::decode(fields)?,
        blob_base_fee: Decodable::decode(fields)?,
        next_blob_base_fee: Decodable::decode(fields)?,
        tips: Vec::new(),
    };
    let packed = Header::decode_bytes(fields, false)?;
    let packed = Packed::read(packed).ok_or(alloy_rlp::Error::Custom("tips are not packed"))?;
    Ok((row, packed))
}

/// Tips as they are stored.
#[derive(Clone, Copy, Debug)]
struct Packed<'a> {
    tips: &'a [u8],
    gas: &'a [u8],
    tip_bytes: usize,
    gas_bytes: usize,
    count: usize,
}

impl<'a> Packed<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (widths, rest) = bytes.split_first_chunk::<WIDTHS>()?;
        let [tip_bytes, gas_bytes] = widths.map(usize::from);
        if tip_bytes == 0 || tip_bytes > TIP_BYTES_MAX || gas_bytes > GAS_BYTES_MAX {
            return None;
        }
        let each = tip_bytes + gas_bytes;
        let count = rest.len() / each;
        if count * each != rest.len() {
            return None;
        }
        let (tips, gas) = rest.split_at(count * tip_bytes);
        Some(Self { tips, gas, tip_bytes, gas_bytes, count })
    }

    const fn len(&self) -> usize {
        self.count
    }

    fn tip(&self, index: usize) -> u128 {
        if self.tip_bytes <= GAS_BYTES_MAX {
            return word(self.tips, index, self.tip_bytes).into();
        }
        let mut word = [0; TIP_BYTES_MAX];
        let start = index * self.tip_bytes;
        word[TIP_BYTES_MAX - self.tip_bytes..]
            .copy_from_slice(&self.tips[start..start + self.tip_bytes]);
        u128::from_be_bytes(word)
    }

    /// Gas used at this tip and those below.
    fn gas(&self, index: usize) -> u64 {
        word(self.gas, index, self.gas_bytes)
    }

    fn reward(&self, gas_used: u64, percentile: f64) -> u128 {
        let Some(last) = self.count.checked_sub(1) else { return 0 };
        // Truncated like geth's `uint64(float64)`.
        let threshold = (gas_used as f64 * percentile / 100.0) as u64;
        let (mut low, mut high) = (0, last);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.gas(middle) >= threshold {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        self.tip(low)
    }
}

/// The big-endian number at `index` of a list of numbers of `width` bytes, at most eight.
fn word(list: &[u8], index: usize, width: usize) -> u64 {
    let start = index * width;
    let unused = 8 * (GAS_BYTES_MAX - width) as u32;
    // One load and a shift, but for the last few: a copy of `width` bytes costs ten times that.
    if let Some(bytes) = list[start..].first_chunk() {
        return u64::from_be_bytes(*bytes).checked_shr(unused).unwrap_or(0);
    }
    let mut bytes = [0; GAS_BYTES_MAX];
    bytes[GAS_BYTES_MAX - width..].copy_from_slice(&list[start..start + width]);
    u64::from_be_bytes(bytes)
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
    fn equal_tips_are_joined() {
        assert_eq!(row(&[(1, 7), (2, 7)]).tips, [Tip { tip: 7, gas: 3 }]);
    }
}
