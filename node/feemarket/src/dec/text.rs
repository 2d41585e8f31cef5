//! Reads and writes decimals as text: with 18 digits after the point, or as the scaled integer of protobuf.
//!
//! The caller states which of the two forms a text has.

use super::{FRACTION_DIGITS, LegacyDec, ONE};
use alloy_primitives::{Sign, U512, aliases::I512};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{fmt, str::FromStr};
use thiserror::Error;

/// Maximum length of a text in bytes: a sign, the 78 digits of 2^256, a point and 18 digits.
const MAX_TEXT_BYTES: usize = 98;

/// Why a decimal cannot be read or calculated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecError {
    /// The magnitude exceeds 2^256.
    #[error("decimal overflow: the magnitude exceeds 2^256")]
    Overflow,
    /// Division by zero.
    #[error("decimal division by zero")]
    DivisionByZero,
    /// The text is not an optional `-`, digits, and optionally a point with digits.
    #[error("`{text}` is not a decimal number")]
    Malformed {
        /// The text.
        text: String,
    },
    /// The text has more than 18 digits after the point.
    #[error("a decimal number must have at most 18 digits after the point, got {digits}")]
    TooPrecise {
        /// Number of digits after the point.
        digits: usize,
    },
    /// The text is longer than any decimal in range.
    #[error("a decimal number must have at most 98 characters, got {bytes}")]
    TooLong {
        /// Length of the text in bytes.
        bytes: usize,
    },
}

impl LegacyDec {
    /// Reads the scaled integer, in units of 10^-18: an optional `-` and digits.
    ///
    /// # Errors
    /// [`DecError`] if the text is malformed or out of range.
    pub fn from_scaled(text: &str) -> Result<Self, DecError> {
        let (sign, magnitude) = split_sign(text)?;
        Self::from_digits(text, sign, magnitude)
    }

    /// The scaled integer, in units of 10^-18.
    pub fn to_scaled(self) -> String {
        self.raw().to_string()
    }

    fn from_digits(text: &str, sign: Sign, digits: &str) -> Result<Self, DecError> {
        let malformed = || DecError::Malformed { text: text.to_owned() };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(malformed());
        }
        let magnitude = U512::from_str_radix(digits, 10).map_err(|_| DecError::Overflow)?;
        Self::bounded(I512::checked_from_sign_and_abs(sign, magnitude))
    }
}

/// Checks the length, which limits all further work, and splits the sign off.
fn split_sign(text: &str) -> Result<(Sign, &str), DecError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(DecError::TooLong { bytes: text.len() });
    }
    Ok(match text.strip_prefix('-') {
        Some(magnitude) => (Sign::Negative, magnitude),
        None => (Sign::Positive, text),
    })
}

impl FromStr for LegacyDec {
    type Err = DecError;

    /// Reads an optional `-`, digits, and optionally a point with 1 to 18 digits.
    fn from_str(text: &str) -> Result<Self, DecError> {
        let (sign, magnitude) = split_sign(text)?;
        let malformed = || DecError::Malformed { text: text.to_owned() };
        let (whole, fraction) = match magnitude.split_once('.') {
            Some((_, "")) => return Err(malformed()),
            Some(parts) => parts,
            None => (magnitude, ""),
        };
        if whole.is_empty() {
            return Err(malformed());
        }
        if fraction.len() > FRACTION_DIGITS && fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(DecError::TooPrecise { digits: fraction.len() });
        }
        Self::from_digits(text, sign, &format!("{whole}{fraction:0<FRACTION_DIGITS$}"))
    }
}

impl fmt::Display for LegacyDec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = self.raw().unsigned_abs().div_rem(U512::from(ONE));
        let sign = if self.is_negative() { "-" } else { "" };
        let fraction = fraction.as_limbs()[0];
        write!(f, "{sign}{whole}.{fraction:0FRACTION_DIGITS$}")
    }
}

impl fmt::Debug for LegacyDec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for LegacyDec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LegacyDec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals_are_read_and_printed() {
        let rows = [
            ("0.5", "0.500000000000000000", "500000000000000000"),
            ("1000000000", "1000000000.000000000000000000", "1000000000000000000000000000"),
            ("-0.000000000000000007", "-0.000000000000000007", "-7"),
            ("-1.5", "-1.500000000000000000", "-1500000000000000000"),
            ("-0", "0.000000000000000000", "0"),
            ("007.10", "7.100000000000000000", "7100000000000000000"),
        ];
        for (text, printed, scaled) in rows {
            let value: LegacyDec = text.parse().unwrap();
            assert_eq!(value.to_string(), printed);
            assert_eq!(value.to_scaled(), scaled);
            assert_eq!(LegacyDec::from_scaled(scaled), Ok(value));
        }
    }

    #[test]
    fn malformed_decimals_are_rejected() {
        for text in
            ["", "-", ".", "1.", ".5", "--1", "+1", "1.2.3", "1e9", " 1", "1_000", "0x1", "١"]
        {
            let parsed = text.parse::<LegacyDec>();
            assert!(matches!(parsed, Err(DecError::Malformed { .. })), "{text:?}: {parsed:?}");
        }
        let nineteen = "0.1234567890123456789".parse::<LegacyDec>();
        assert_eq!(nineteen, Err(DecError::TooPrecise { digits: 19 }));
        assert_eq!("9".repeat(78).parse::<LegacyDec>(), Err(DecError::Overflow));
        assert_eq!("0".repeat(99).parse::<LegacyDec>(), Err(DecError::TooLong { bytes: 99 }));
        for text in ["", "-", "1.0", "+1", "1_0"] {
            assert!(LegacyDec::from_scaled(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn maximum_decimal_is_read() {
        let max = LegacyDec::MAX.to_string();
        assert_eq!(max.parse(), Ok(LegacyDec::MAX));
        let negative = format!("-{max}");
        assert_eq!(negative.len(), MAX_TEXT_BYTES);
        assert_eq!(negative.parse::<LegacyDec>().unwrap().to_string(), negative);
    }

    proptest! {
        #[test]
        fn both_text_forms_survive_a_round_trip(raw: i128) {
            let value = LegacyDec::from_raw(I512::try_from(raw).unwrap()).unwrap();
            prop_assert_eq!(value.to_string().parse(), Ok(value));
            prop_assert_eq!(LegacyDec::from_scaled(&value.to_scaled()), Ok(value));
        }

        #[test]
        fn no_text_causes_a_panic(text in ".{0,120}") {
            drop(text.parse::<LegacyDec>());
            drop(LegacyDec::from_scaled(&text));
        }
    }
}
