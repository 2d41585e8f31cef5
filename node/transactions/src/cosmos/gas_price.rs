//! Reads and writes gas prices as text: a decimal and the name of a token, such as `0.5atest`, as in the SDK's
//! `minimum-gas-prices` and `--gas-prices`.

use feemarket::{DecError, LegacyDec};
use std::{fmt, str::FromStr};
use thiserror::Error;

/// Maximum length of a token's name in bytes, as in the SDK.
const MAX_DENOM_BYTES: usize = 128;

/// A gas price in the base unit of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GasPrice {
    /// Base units per gas.
    pub amount: LegacyDec,
    /// The name of the base unit.
    pub denom: String,
}

/// Why a text is not a gas price.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GasPriceError {
    /// The text does not begin with a valid decimal.
    #[error("{text:?} is not a price of gas, such as 0.5atest: {reason}")]
    Amount {
        /// The text.
        text: String,
        /// Why the decimal is invalid.
        reason: DecError,
    },
    /// The decimal is not followed by the name of a token.
    #[error(
        "{text:?} is not a price of gas, such as 0.5atest: {denom:?} is not the name of a token, which \
         begins with a letter and has 1 to 128 letters, digits, or characters of /:._-"
    )]
    Denom {
        /// The text.
        text: String,
        /// The text after the decimal.
        denom: String,
    },
}

impl FromStr for GasPrice {
    type Err = GasPriceError;

    /// Reads a decimal, whose digits before the point may be missing, and the name of a token. White space around
    /// both is skipped, as in the SDK.
    fn from_str(text: &str) -> Result<Self, GasPriceError> {
        let trimmed = text.trim();
        let is_decimal = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let (digits, denom) = trimmed.split_at(trimmed.bytes().take_while(is_decimal).count());
        let leading_zero = if digits.starts_with('.') { "0" } else { "" };
        let amount = format!("{leading_zero}{digits}").parse();
        let amount =
            amount.map_err(|reason| GasPriceError::Amount { text: text.to_owned(), reason })?;
        let denom = denom.trim_start();
        if !is_denom(denom) {
            let (text, denom) = (text.to_owned(), denom.to_owned());
            return Err(GasPriceError::Denom { text, denom });
        }
        Ok(Self { amount, denom: denom.to_owned() })
    }
}

impl fmt::Display for GasPrice {
    /// Writes the price without trailing zeros of the fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = self.amount.to_string();
        let amount = amount.trim_end_matches('0').trim_end_matches('.');
        write!(f, "{amount}{}", self.denom)
    }
}

fn is_denom(text: &str) -> bool {
    text.len() <= MAX_DENOM_BYTES
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/:._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_and_written() {
        let longest = format!("a{}", "b".repeat(MAX_DENOM_BYTES - 1));
        for (text, amount, denom, shown) in [
            ("0.5atest", "0.5", "atest", "0.5atest"),
            ("10atest", "10", "atest", "10atest"),
            ("0atest", "0", "atest", "0atest"),
            (".25utest", "0.25", "utest", "0.25utest"),
            (" 007.10 atest ", "7.1", "atest", "7.1atest"),
            ("1ibc/27394FB0", "1", "ibc/27394FB0", "1ibc/27394FB0"),
            ("1e9", "1", "e9", "1e9"),
            ("0.000000000000000001a", "0.000000000000000001", "a", "0.000000000000000001a"),
            (&format!("1{longest}"), "1", &longest, &format!("1{longest}")),
        ] {
            let price: GasPrice = text.parse().unwrap();
            assert_eq!((price.amount, price.denom.as_str()), (amount.parse().unwrap(), denom));
            assert_eq!(price.to_string(), shown);
            assert_eq!(shown.parse(), Ok(price));
        }
    }

    #[test]
    fn invalid_prices_are_rejected_with_the_reason() {
        let too_long = format!("1a{}", "b".repeat(MAX_DENOM_BYTES));
        for text in
            ["", "atest", "-1atest", "1.atest", ".atest", "1.2.3atest", "0.1234567890123456789a"]
        {
            let error = text.parse::<GasPrice>().unwrap_err();
            assert!(matches!(error, GasPriceError::Amount { .. }), "{text}: {error}");
        }
        for text in ["1", "0.5 ", "1_test", "1a,2b", "1a b", "1atést", &too_long] {
            let error = text.parse::<GasPrice>().unwrap_err();
            assert!(matches!(error, GasPriceError::Denom { .. }), "{text}: {error}");
            assert!(error.to_string().contains("such as 0.5atest"), "{error}");
        }
    }
}
