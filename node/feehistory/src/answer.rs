//! Writes the JSON text of `eth_feeHistory` without a serializer, because wallets often request large responses.

use std::io::Write;

/// Bytes before the digits: the quotation mark and `0x`.
const PREFIX: usize = 3;
/// Maximum number of digits of a 64-bit number.
const MAX_HEX_DIGITS: usize = 16;

/// Appends a number as a JSON string in hex.
pub(super) fn put_hex(out: &mut Vec<u8>, value: u128) {
    let Ok(low) = u64::try_from(value) else {
        write!(out, "\"{value:#x}\"").expect("writing to a Vec does not fail");
        return;
    };
    let digits = (64 - (low | 1).leading_zeros() as usize).div_ceil(4);
    let first = low << (4 * (MAX_HEX_DIGITS - digits));
    let mut text = *b"\"0x................\"";
    text[PREFIX..PREFIX + 8].copy_from_slice(&hex_digits((first >> 32) as u32));
    text[PREFIX + 8..PREFIX + MAX_HEX_DIGITS].copy_from_slice(&hex_digits(first as u32));
    text[PREFIX + digits] = b'"';
    // A copy of a known length is two moves; the surplus is removed.
    let end = out.len() + PREFIX + digits + 1;
    out.extend_from_slice(&text);
    out.truncate(end);
}

/// Returns the eight hexadecimal digits of a number, one byte each, computed together.
const fn hex_digits(value: u32) -> [u8; 8] {
    let mut nibbles = value as u64;
    nibbles = (nibbles | nibbles << 16) & 0x0000_ffff_0000_ffff;
    nibbles = (nibbles | nibbles << 8) & 0x00ff_00ff_00ff_00ff;
    nibbles = (nibbles | nibbles << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // A one in each byte above nine, for which the digit is a letter.
    let letters = ((nibbles + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    (nibbles + 0x3030_3030_3030_3030 + letters * 0x27).to_be_bytes()
}

/// The columns of a response. Each column consists of pieces of text: JSON values with a comma after each.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseWriter<'a> {
    pub(super) reward: &'a [&'a [u8]],
    pub(super) base_fee: &'a [&'a [u8]],
    pub(super) next_base_fee: &'a str,
    pub(super) ratio: &'a [&'a [u8]],
    pub(super) blob_fee: &'a [&'a [u8]],
    pub(super) next_blob_fee: &'a str,
    pub(super) blob_ratio: &'a [&'a [u8]],
}

/// Bytes reserved for the field names, the block number and the fees of the next block.
const OTHER_BYTES: usize = 192;

impl ResponseWriter<'_> {
    /// Writes the response. `has_rewards` is false for a request without percentiles.
    pub(super) fn write(&self, oldest: u64, has_rewards: bool) -> Vec<u8> {
        let columns = [self.reward, self.base_fee, self.ratio, self.blob_fee, self.blob_ratio];
        let length = columns.iter().flat_map(|pieces| pieces.iter()).map(|piece| piece.len());
        let mut out = Vec::with_capacity(length.sum::<usize>() + OTHER_BYTES);
        out.extend_from_slice(b"{\"oldestBlock\":");
        put_hex(&mut out, oldest.into());
        if has_rewards {
            put_list(&mut out, "reward", self.reward, None);
        }
        put_list(&mut out, "baseFeePerGas", self.base_fee, Some(self.next_base_fee));
        put_list(&mut out, "gasUsedRatio", self.ratio, None);
        put_list(&mut out, "baseFeePerBlobGas", self.blob_fee, Some(self.next_blob_fee));
        put_list(&mut out, "blobGasUsedRatio", self.blob_ratio, None);
        out.push(b'}');
        out
    }
}

/// Appends a field whose value is a list: the values of a column, and then `last` if there is one.
fn put_list(out: &mut Vec<u8>, name: &str, pieces: &[&[u8]], last: Option<&str>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":[");
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
    match last {
        Some(last) => out.extend_from_slice(last.as_bytes()),
        // The comma after the last value is removed.
        None => out.truncate(out.len() - usize::from(out.ends_with(b","))),
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_equals_that_of_the_formatter() {
        let shifted = (0..64).map(|shift| 0xfedc_ba98_7654_3210_u128 >> shift);
        for value in shifted.chain([0, 1, 15, 16, u128::from(u64::MAX), u128::from(u64::MAX) + 1]) {
            let mut out = Vec::new();
            put_hex(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), format!("\"{value:#x}\""));
        }
    }
}
