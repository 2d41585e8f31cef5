//! Converts amounts of the chain's token between wei and the unit of the Cosmos interfaces.
//!
//! Balances are stored in wei, the unit of the EVM; a token has 10^18 wei. Cosmos transactions and queries use the
//! token's base unit; a token has 10^`tokenDecimals` base units. Only [`TokenUnit`] converts between these units.
//! Only Ethereum transactions can move the part of a balance below one base unit, which the SDK's `precisebank` calls
//! the fractional balance.

use alloy_primitives::U256;
use feemarket::{DecError, LegacyDec, TokenDecimals};

/// The SI prefix by number of decimals. The name of a base unit of 10^-`decimals` tokens begins with it.
const SI_PREFIXES: [(u8, char); 8] =
    [(1, 'd'), (2, 'c'), (3, 'm'), (6, 'u'), (9, 'n'), (12, 'p'), (15, 'f'), (18, 'a')];
/// The prefix of a unit of one wei.
const ATTO: char = 'a';

/// The number of wei in the base unit of the token: a power of ten from 10^0 to 10^17.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenUnit {
    wei: u64,
    decimals: u8,
}

impl TokenUnit {
    /// The base unit is one wei: the token has 18 decimals, or the chain follows rules version 0, under which
    /// Cosmos transactions use wei for any number of decimals.
    pub const WEI: Self = Self { wei: 1, decimals: TokenDecimals::EVM.get() };

    /// Returns the base unit of a token with these decimals.
    pub fn of(decimals: TokenDecimals) -> Self {
        Self { wei: decimals.conversion_factor(), decimals: decimals.get() }
    }

    /// Returns the decimals of the token in this unit.
    pub const fn decimals(self) -> u8 {
        self.decimals
    }

    /// Returns whether an amount in wei can have a part below this unit.
    pub const fn has_fractions(self) -> bool {
        self.wei > 1
    }

    /// Converts an amount to wei; `None` if it exceeds 256 bits.
    pub fn to_wei(self, amount: U256) -> Option<U256> {
        amount.checked_mul(U256::from(self.wei))
    }

    /// Converts an amount of wei to whole base units, rounded down.
    pub fn from_wei(self, wei: U256) -> U256 {
        wei / U256::from(self.wei)
    }

    /// Converts an amount of wei to whole base units, rounded up.
    pub fn from_wei_up(self, wei: U256) -> U256 {
        wei.div_ceil(U256::from(self.wei))
    }

    /// Converts a price to wei, with its fraction.
    ///
    /// # Errors
    /// Returns [`DecError::Overflow`].
    pub fn price_to_wei(self, price: LegacyDec) -> Result<LegacyDec, DecError> {
        price.checked_mul_int(U256::from(self.wei))
    }

    /// Converts a price in wei to the base unit. Exact for whole wei and for prices of the fee market, which
    /// have 18 decimal places in this unit.
    pub fn price_from_wei(self, wei: LegacyDec) -> LegacyDec {
        wei.quo_int(U256::from(self.wei)).expect("a power of ten is not zero")
    }
}

/// The token of a chain at a height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The name of its base unit, which Cosmos transactions use.
    pub denom: &'a str,
    /// The base unit.
    pub unit: TokenUnit,
}

impl Token<'_> {
    /// Returns the name of the wei, which envelopes of Ethereum transactions use. It is the name of the base
    /// unit if that is one wei. Otherwise `a` replaces the SI prefix of the base unit's name, so `utest` becomes
    /// `atest`, or is put before a name without the prefix.
    pub fn extended_denom(&self) -> String {
        if !self.unit.has_fractions() {
            return self.denom.to_owned();
        }
        let stem = self.display_denom().unwrap_or(self.denom);
        format!("{ATTO}{stem}")
    }

    /// Returns the name of a whole token, if the name of the base unit begins with the SI prefix of its
    /// decimals.
    pub fn display_denom(&self) -> Option<&str> {
        let decimals = self.unit.decimals;
        let (_, prefix) = SI_PREFIXES.into_iter().find(|(known, _)| *known == decimals)?;
        self.denom.strip_prefix(prefix).filter(|stem| !stem.is_empty())
    }

    /// Formats an amount of wei in whole base units, rounded down, with the name of the unit.
    pub fn show_wei(&self, wei: U256) -> String {
        format!("{}{}", self.unit.from_wei(wei), self.denom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(decimals: u8) -> TokenUnit {
        TokenUnit::of(TokenDecimals::new(decimals).unwrap())
    }

    #[test]
    fn amounts_are_converted_at_the_boundaries() {
        assert_eq!(unit(18), TokenUnit::WEI);
        for (decimals, factor) in [(6, 1_000_000_000_000_u64), (8, 10_000_000_000), (18, 1)] {
            let (unit, factor) = (unit(decimals), U256::from(factor));
            let max = U256::MAX / factor;
            for amount in [U256::ZERO, U256::ONE, U256::from(7), max] {
                assert_eq!(unit.to_wei(amount), Some(amount * factor), "{decimals}");
                assert_eq!(unit.from_wei(amount * factor), amount);
                assert_eq!(unit.from_wei_up(amount * factor), amount);
            }
            assert_eq!(unit.to_wei(max.saturating_add(U256::ONE)).is_none(), factor > U256::ONE);
            let below = factor - U256::ONE;
            assert_eq!(unit.from_wei(below), U256::ZERO);
            assert_eq!(unit.from_wei_up(below), U256::from(u8::from(!below.is_zero())));
            assert_eq!(unit.from_wei(U256::MAX), max);
        }
    }

    #[test]
    fn prices_are_converted_exactly() {
        for decimals in [1, 6, 8, 18] {
            let unit = unit(decimals);
            for wei in [0, 1, 999_999_999_999, 1_000_000_000_000, 10_000_000_000, u64::MAX] {
                let price = unit.price_from_wei(LegacyDec::from(wei));
                assert_eq!(unit.price_to_wei(price), Ok(LegacyDec::from(wei)), "{decimals} {wei}");
            }
        }
        let price = unit(6).price_from_wei(LegacyDec::from(10_000_000_000_u64));
        assert_eq!(price.to_string(), "0.010000000000000000");
        assert!(unit(6).price_to_wei(LegacyDec::MAX).is_err());
    }

    #[test]
    fn denominations_are_named_by_their_prefix() {
        let names = |denom: &str, decimals| {
            let token = Token { denom, unit: unit(decimals) };
            (token.extended_denom(), token.display_denom().map(str::to_owned))
        };
        let some = |display: &str| Some(display.to_owned());
        assert_eq!(names("utest", 6), ("atest".to_owned(), some("test")));
        assert_eq!(names("atest", 6), ("aatest".to_owned(), None));
        assert_eq!(names("u", 6), ("au".to_owned(), None));
        assert_eq!(names("sat", 8), ("asat".to_owned(), None));
        assert_eq!(names("atest", 18), ("atest".to_owned(), some("test")));
        assert_eq!(names("wei", 18), ("wei".to_owned(), None));
    }
}
