//! The setting `mempool.minimum-gas-prices`, in the syntax of the SDK's `app.toml`.
//!
//! The SDK's list has a price for each token in which fees can be paid. A chain of this node has one token, so
//! the list has at most one price.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{fmt, str::FromStr};
use thiserror::Error;
use transactions::cosmos::{GasPrice, GasPriceError};

/// The minimum gas price of this node's mempool; none if the setting is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MinimumGasPrices(Option<GasPrice>);

/// Why the value of the setting is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MinimumGasPricesError {
    /// The value is not a price.
    #[error(transparent)]
    Price(#[from] GasPriceError),
    /// The value has more than one price.
    #[error(
        "{text:?} has {count} prices, but a chain has one token: set one price, such as 0.5atest"
    )]
    Several {
        /// The value.
        text: String,
        /// The number of prices in it.
        count: usize,
    },
}

/// The price is in a token that the chain does not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "mempool.minimum-gas-prices is {given}, but fees on this chain are paid in {}: set it to {fitting}, or to \
     an empty text for no minimum",
    fitting.denom
)]
pub struct ForeignToken {
    given: GasPrice,
    /// The same number of base units of the chain's token.
    fitting: GasPrice,
}

impl MinimumGasPrices {
    /// Returns the price, if there is one, on a chain with this token.
    ///
    /// # Errors
    /// If the price is in another token.
    pub fn in_token(&self, denom: &str) -> Result<Option<&GasPrice>, ForeignToken> {
        match &self.0 {
            Some(given) if given.denom != denom => {
                let fitting = GasPrice { denom: denom.to_owned(), ..given.clone() };
                Err(ForeignToken { given: given.clone(), fitting })
            }
            price => Ok(price.as_ref()),
        }
    }
}

impl FromStr for MinimumGasPrices {
    type Err = MinimumGasPricesError;

    fn from_str(text: &str) -> Result<Self, MinimumGasPricesError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        match text.split(',').count() {
            1 => Ok(Self(Some(text.parse()?))),
            count => Err(MinimumGasPricesError::Several { text: text.to_owned(), count }),
        }
    }
}

impl fmt::Display for MinimumGasPrices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |price| price.fmt(f))
    }
}

impl Serialize for MinimumGasPrices {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MinimumGasPrices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_setting_is_no_minimum() {
        for text in ["", " "] {
            let none: MinimumGasPrices = text.parse().unwrap();
            assert_eq!((none.in_token("atest"), none.to_string()), (Ok(None), String::new()));
        }
    }

    #[test]
    fn price_must_be_in_the_chains_token() {
        let setting: MinimumGasPrices = "0.50atest".parse().unwrap();
        let price = setting.in_token("atest").unwrap().unwrap();
        assert_eq!(price.amount.to_string(), "0.500000000000000000");
        assert_eq!(setting.to_string(), "0.5atest");
        assert_eq!(
            setting.in_token("utest").unwrap_err().to_string(),
            "mempool.minimum-gas-prices is 0.5atest, but fees on this chain are paid in utest: set it to \
             0.5utest, or to an empty text for no minimum"
        );
    }

    #[test]
    fn several_prices_are_refused() {
        for (text, count) in [("0.5atest,1stake", 2), ("1a,", 2), (",", 2), ("1a,2b,3c", 3)] {
            let error = text.parse::<MinimumGasPrices>().unwrap_err();
            assert_eq!(error, MinimumGasPricesError::Several { text: text.to_owned(), count });
        }
        assert!(matches!("1".parse::<MinimumGasPrices>(), Err(MinimumGasPricesError::Price(_))));
    }
}
