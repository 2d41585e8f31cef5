//! Formats prices, amounts, times, and text that a contract chose.

use alloy_primitives::{Address, B256, U256, utils::format_units};
use prost_types::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum number of characters of a text that a contract chose.
const MAX_TEXT_CHARS: usize = 1024;
/// Maximum number of bytes that are shown in hex.
const MAX_HEX_BYTES: usize = 256;
/// Minimum price in wei that is rounded down to three decimals of gwei. Lower prices would keep fewer than two
/// significant digits.
const MIN_ROUNDED_PRICE: u64 = 10_000_000;
/// Decimals of a token: one token is 10^18 wei.
const TOKEN_DECIMALS: u8 = 18;
/// Digits of a hash or an address before and after the ellipsis.
const SHORT_DIGITS: usize = 8;

/// Formats a price per gas in gwei, rounded down to three decimals from 0.01 gwei on. The unit is always gwei, so that
/// the prices of a column can be compared.
pub fn price(wei: u64) -> String {
    if wei < MIN_ROUNDED_PRICE {
        return exact_price(u128::from(wei));
    }
    let gwei = format!("{}.{:03}", wei / 1_000_000_000, wei / 1_000_000 % 1_000);
    format!("{} gwei", gwei.trim_end_matches('0').trim_end_matches('.'))
}

/// Formats a price per gas in gwei without rounding.
pub fn exact_price(wei: u128) -> String {
    let gwei = format_units(wei, 9_u8).unwrap_or_else(|_| wei.to_string());
    format!("{} gwei", without_zeros(&gwei))
}

/// Formats an amount in wei as a number of tokens, without rounding.
pub fn amount(wei: U256) -> String {
    let tokens = format_units(wei, TOKEN_DECIMALS).unwrap_or_else(|_| wei.to_string());
    without_zeros(&tokens).to_owned()
}

/// Returns a decimal number without zeros at the end of its fraction.
pub fn without_zeros(decimal: &str) -> &str {
    match decimal.contains('.') {
        true => decimal.trim_end_matches('0').trim_end_matches('.'),
        false => decimal,
    }
}

/// Formats a share in percent with two decimals. The share of a whole of 0 is computed as if the whole were 1.
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64)
}

/// Returns the current time in seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Formats a timestamp in seconds since 1970 as in RFC 3339.
pub fn time(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    Timestamp { seconds, nanos: 0 }.to_string()
}

/// Formats the time between `now` and a timestamp in its largest unit, rounded down.
pub fn age(now: u64, timestamp: u64) -> String {
    let (seconds, direction) = match now.checked_sub(timestamp) {
        Some(passed) => (passed, "ago"),
        None => (timestamp - now, "ahead"),
    };
    let (number, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3_600 => (seconds / 60, "minute"),
        3_600..86_400 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{} {direction}", count(number, unit))
}

/// Formats a number with a noun: "1 block", "2 blocks".
pub fn count(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", grouped(number))
}

/// Formats a number with commas between groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number of bytes with a binary unit.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let mut value = number as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Formats a duration: in microseconds below 1 ms, in milliseconds below 1 s, otherwise in seconds.
pub fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 1e-3 => format!("{:.0} us", seconds * 1e6),
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

/// Returns the first and the last digits of a hash.
pub fn short_hash(hash: B256) -> String {
    shortened(&hash.to_string(), SHORT_DIGITS + 2, SHORT_DIGITS)
}

/// Returns the first and the last digits of an address.
pub fn short_address(address: Address) -> String {
    shortened(&address.to_checksum(None), SHORT_DIGITS + 2, SHORT_DIGITS)
}

fn shortened(text: &str, first: usize, last: usize) -> String {
    format!("{}…{}", &text[..first], &text[text.len() - last..])
}

/// Returns text of a contract as one line, cut off after 1,024 characters. Escapes characters that affect the text
/// around them: control characters, and those that change its direction (Unicode UAX #9).
pub fn printable(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars().take(MAX_TEXT_CHARS) {
        if c.is_control() || is_directional(c) {
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

const fn is_directional(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Formats the first 256 bytes in hex.
pub fn hex(bytes: &[u8]) -> String {
    hex_of(bytes, MAX_HEX_BYTES)
}

/// Formats the first `max_bytes` bytes in hex, followed by the number of those left out.
pub fn hex_of(bytes: &[u8], max_bytes: usize) -> String {
    let shown = &bytes[..bytes.len().min(max_bytes)];
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
    fn prices_are_in_gwei() {
        for (wei, text) in [
            (0, "0 gwei"),
            (7, "0.000000007 gwei"),
            (9_999_999, "0.009999999 gwei"),
            (10_000_000, "0.01 gwei"),
            (10_999_999, "0.01 gwei"),
            (1_000_000_000, "1 gwei"),
            (1_500_000_001, "1.5 gwei"),
            (20_000_000_000, "20 gwei"),
            (123_456_789_012, "123.456 gwei"),
        ] {
            assert_eq!(price(wei), text);
        }
        assert_eq!(exact_price(1_500_000_001), "1.500000001 gwei");
        assert_eq!(exact_price(0), "0 gwei");
    }

    #[test]
    fn amounts_are_exact() {
        let token = U256::from(10).pow(U256::from(18));
        assert_eq!(amount(token), "1");
        assert_eq!(amount(token * U256::from(100)), "100");
        assert_eq!(amount(U256::from(1)), "0.000000000000000001");
        assert_eq!(amount(U256::ZERO), "0");
        assert!(!amount(U256::MAX).is_empty());
    }

    #[test]
    fn shares_times_and_counts_are_formatted() {
        assert_eq!(percent(21_000, 30_000_000), "0.07%");
        assert_eq!(percent(30, 30), "100.00%");
        assert_eq!(percent(0, 0), "0.00%");
        assert_eq!(time(1_795_859_162), "2026-11-28T09:46:02Z");
        assert_eq!((count(1, "block"), count(0, "tx")), ("1 block".to_owned(), "0 txs".to_owned()));
        assert_eq!(
            [grouped(0), grouped(999), grouped(1_000), grouped(12_345_678)],
            ["0".to_owned(), "999".to_owned(), "1,000".to_owned(), "12,345,678".to_owned()]
        );
        assert_eq!([bytes(1023), bytes(1024), bytes(3 << 30)], ["1023 B", "1.0 KiB", "3.0 GiB"]);
        assert_eq!(
            [age(100, 41), age(100, 100), age(100, 161)],
            ["59 seconds ago", "0 seconds ago", "1 minute ahead"]
        );
        assert_eq!(
            [duration(0.000_02), duration(0.25), duration(2.0)],
            ["20 us", "250.0 ms", "2.00 s"]
        );
    }

    #[test]
    fn contract_text_is_escaped_and_cut_off() {
        assert_eq!(printable("a\nb\u{1b}[2Jc \u{e9}"), "a\\nb\\u{1b}[2Jc \u{e9}");
        assert_eq!(printable("a\u{202e}b\u{2067}"), "a\\u{202e}b\\u{2067}");
        let long = "x".repeat(MAX_TEXT_CHARS + 5);
        assert!(printable(&long).ends_with("x... (5 more characters)"));
        assert_eq!(hex(&[0xab, 1]), "0xab01");
        assert!(hex(&[0; MAX_HEX_BYTES + 1]).ends_with("00... (1 more bytes)"));
    }
}
