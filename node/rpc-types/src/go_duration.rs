//! Parses durations in Go's syntax, such as `5s`, `1m30s` or `0.5ms`, which geth uses for the timeout of a tracer.

use std::{fmt::Write as _, time::Duration};

/// The reason why a text is not a duration, with the messages of Go's `time` package.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text is not a duration.
    #[error("time: invalid duration {}", quoted(.0))]
    Invalid(String),
    /// A number has no unit.
    #[error("time: missing unit in duration {}", quoted(.0))]
    MissingUnit(String),
    /// A number has an unknown unit.
    #[error("time: unknown unit {} in duration {}", quoted(.unit), quoted(.text))]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

/// The units in nanoseconds. Unicode has two characters for micro, and Go accepts both.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Maximum duration in nanoseconds. Go stores a duration in a signed 64-bit integer.
const MAX_NANOSECONDS: u128 = i64::MAX as u128;

/// Parses a duration. A negative duration is converted to zero, because both expire immediately.
///
/// # Errors
/// Returns an error if the text is not a duration, or if it exceeds 292 years.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanoseconds = 0_u128;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit = unit_of(unit, text)?;
        nanoseconds += amount(whole, fraction, unit).ok_or_else(invalid)?;
        if nanoseconds > MAX_NANOSECONDS {
            return Err(invalid());
        }
        rest = after;
    }
    let nanoseconds = if is_negative { 0 } else { nanoseconds };
    Ok(Duration::from_nanos(u64::try_from(nanoseconds).expect("it is at most the maximum")))
}

/// Splits the leading digits from a text.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn unit_of(unit: &str, text: &str) -> Result<u64, DurationError> {
    if unit.is_empty() {
        return Err(DurationError::MissingUnit(text.to_owned()));
    }
    let found = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, nanoseconds)| *nanoseconds);
    found.ok_or_else(|| DurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() })
}

/// Converts an amount with a unit to nanoseconds. Returns `None` if the whole part exceeds 64 bits. Ignores the digits
/// of the fraction after the 18th, which are less than a nanosecond in every unit.
fn amount(whole: &str, fraction: &str, unit: u64) -> Option<u128> {
    const MAX_FRACTION_DIGITS: usize = 18;
    let whole = match whole.trim_start_matches('0') {
        "" => 0,
        digits => digits.parse::<u64>().ok()?,
    };
    let fraction = &fraction[..fraction.len().min(MAX_FRACTION_DIGITS)];
    let parts = match fraction {
        "" => 0,
        digits => {
            digits.parse::<u128>().ok()? * u128::from(unit) / 10_u128.pow(digits.len() as u32)
        }
    };
    Some(u128::from(whole) * u128::from(unit) + parts)
}

/// Quotes a text as Go's `time` package does.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            ' '..='\u{7f}' => out.push(character),
            _ => {
                for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                    write!(out, "\\x{byte:02x}").expect("writing to a String cannot fail");
                }
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_as_in_go() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("+0", 0),
            ("5s", 5_000_000_000),
            ("1h2m3s4ms5us6ns", 3_723_004_005_006),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("0.333333333333333333333h", 1_199_999_999_999),
            ("3\u{b5}s", 3_000),
            ("3\u{3bc}s", 3_000),
            ("-5s", 0),
            ("+5s", 5_000_000_000),
            ("007ns", 7),
            ("9223372036854775807ns", i64::MAX as u64),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_rejected_with_the_messages_of_go() {
        for (text, message) in [
            ("", r#"time: invalid duration """#),
            ("-", r#"time: invalid duration "-""#),
            ("s", r#"time: invalid duration "s""#),
            (".s", r#"time: invalid duration ".s""#),
            ("5", r#"time: missing unit in duration "5""#),
            ("1s5", r#"time: missing unit in duration "1s5""#),
            ("5 s", r#"time: unknown unit " s" in duration "5 s""#),
            ("5sec", r#"time: unknown unit "sec" in duration "5sec""#),
            ("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#),
            ("99999999999999999999h", r#"time: invalid duration "99999999999999999999h""#),
            ("3000000h", r#"time: invalid duration "3000000h""#),
            ("1\u{e9}\"", r#"time: unknown unit "\xc3\xa9\"" in duration "1\xc3\xa9\"""#),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message);
        }
    }
}
