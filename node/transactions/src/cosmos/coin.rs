//! Reads amounts of tokens. A chain has only one token, and amounts are in its base unit.

use super::error::{Refusal, invalid_coins};
use alloy_primitives::U256;
use proto::cosmos::base::v1beta1::Coin;

/// Decimal digits of the maximum amount, 2^256 - 1.
const MAX_DIGITS: usize = 78;

/// Reads an amount of a token: digits and the token's name, such as `10atest`.
///
/// # Errors
/// Returns [`Refusal`] if the text is not an amount.
pub fn parse_coin(text: &str) -> Result<Coin, Refusal> {
    let error = || invalid_coins(format!("{text:?} is not an amount of a token, such as 10atest"));
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (amount, denom) = text.split_at(digits);
    let is_named = denom.starts_with(|first: char| first.is_ascii_alphabetic());
    if amount.is_empty() || !is_named || denom.contains([',', ' ']) {
        return Err(error());
    }
    let amount = self::amount(amount).ok_or_else(error)?.to_string();
    Ok(Coin { denom: denom.to_owned(), amount })
}

/// Reads the digits of an amount.
fn amount(digits: &str) -> Option<U256> {
    let is_decimal = !digits.is_empty()
        && digits.len() <= MAX_DIGITS
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_decimal.then(|| U256::from_str_radix(digits, 10).ok()).flatten()
}

/// Returns the amount of the only coin, which must not be zero, or zero without a coin. [`foreign`] checks the name.
pub(super) fn total(coins: &[Coin]) -> Result<U256, Refusal> {
    match coins {
        [] => Ok(U256::ZERO),
        [coin] => match amount(&coin.amount) {
            Some(amount) if !amount.is_zero() => Ok(amount),
            _ => Err(invalid_coins(format!("{}{}", coin.amount, coin.denom))),
        },
        // Each token may occur only once, and a chain has only one token.
        several => {
            let shown = several.iter().map(|coin| format!("{}{}", coin.amount, coin.denom));
            Err(invalid_coins(shown.collect::<Vec<_>>().join(",")))
        }
    }
}

/// Returns the first coin whose token is not `denom`.
pub(super) fn foreign<'a>(coins: &'a [Coin], denom: &str) -> Option<&'a Coin> {
    coins.iter().find(|coin| coin.denom != denom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_amounts_are_read() {
        let coin = parse_coin("0010atest").unwrap();
        assert_eq!((coin.amount.as_str(), coin.denom.as_str()), ("10", "atest"));
        for text in
            ["", "10", "atest", "-1atest", "1.5atest", "1atest,2x", "1 atest", &"9".repeat(80)]
        {
            assert!(parse_coin(text).is_err(), "{text}");
        }
        let coin = |amount: &str| Coin { denom: "atest".to_owned(), amount: amount.to_owned() };
        assert_eq!(total(&[coin("7")]).unwrap(), U256::from(7));
        for invalid in
            ["0", "-1", "1.0", "", "0x1", &"9".repeat(79), &U256::MAX.to_string().replace('1', "9")]
        {
            assert!(total(&[coin(invalid)]).is_err(), "{invalid}");
        }
        assert!(total(&[coin("1"), coin("1")]).is_err());
    }
}
