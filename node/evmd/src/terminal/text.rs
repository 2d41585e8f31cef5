//! Prices, times and foreign text in lines.

use prost_types::Timestamp;

/// Maximum number of characters of a text that a contract chose.
const MAX_TEXT_CHARS: usize = 1024;
/// Maximum number of bytes that are shown in hex.
const MAX_HEX_BYTES: usize = 256;
/// Below this price, in wei, a line shows wei: gwei would have more than three decimals.
const MIN_GWEI_PRICE: u64 = 1_000_000;

/// A price of gas, in gwei or in wei.
pub(super) fn price(wei: u64) -> String {
    if wei < MIN_GWEI_PRICE {
        return format!("{wei} wei");
    }
    let gwei = format!("{}.{:03}", wei / 1_000_000_000, wei / 1_000_000 % 1_000);
    format!("{} gwei", gwei.trim_end_matches('0').trim_end_matches('.'))
}

/// A share in percent.
pub(super) fn percent(part: u64, whole: u64) -> String {
    format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64)
}

/// A timestamp in seconds as RFC 3339.
pub(super) fn time(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    Timestamp { seconds, nanos: 0 }.to_string()
}

/// "1 block", "2 blocks".
pub(super) fn count(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// Text of a contract in one line. Control characters are escaped, because they could change what the terminal shows.
pub(super) fn printable(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars().take(MAX_TEXT_CHARS) {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    let left_out = text.chars().count().saturating_sub(MAX_TEXT_CHARS);
    if left_out > 0 {
        line += &format!("... ({left_out} more characters)");
    }
    line
}

/// Bytes of a contract.
pub(super) fn hex(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(MAX_HEX_BYTES)];
    let mut text = alloy_primitives::hex::encode_prefixed(shown);
    let left_out = bytes.len() - shown.len();
    if left_out > 0 {
        text += &format!("... ({left_out} more bytes)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_have_the_unit_that_is_easier_to_read() {
        for (wei, text) in [
            (0, "0 wei"),
            (999_999, "999999 wei"),
            (1_000_000, "0.001 gwei"),
            (1_000_000_000, "1 gwei"),
            (1_500_000_001, "1.5 gwei"),
            (20_000_000_000, "20 gwei"),
            (123_456_789_012, "123.456 gwei"),
        ] {
            assert_eq!(price(wei), text);
        }
    }

    #[test]
    fn shares_times_and_counts_are_written() {
        assert_eq!(percent(21_000, 30_000_000), "0.07%");
        assert_eq!(percent(30, 30), "100.00%");
        assert_eq!(percent(0, 0), "0.00%");
        assert_eq!(time(1_795_859_162), "2026-11-28T09:46:02Z");
        assert_eq!((count(1, "block"), count(0, "tx")), ("1 block".to_owned(), "0 txs".to_owned()));
    }

    #[test]
    fn foreign_text_stays_in_its_line() {
        assert_eq!(printable("a\nb\u{1b}[2Jc \u{e9}"), "a\\nb\\u{1b}[2Jc \u{e9}");
        let long = "x".repeat(MAX_TEXT_CHARS + 5);
        assert!(printable(&long).ends_with("x... (5 more characters)"));
        assert_eq!(hex(&[0xab, 1]), "0xab01");
        assert!(hex(&[0; MAX_HEX_BYTES + 1]).ends_with("00... (1 more bytes)"));
    }
}
