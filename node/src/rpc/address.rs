//! Reads an address in any form this chain writes one: hex with or without `0x`, hex with the
//! checksum of EIP-55, and Bech32 under the chain's prefix in its three kinds.

use alloy_primitives::Address;
use bech32::{Bech32, primitives::decode::CheckedHrpstring};

/// What may follow the chain's prefix: an account, a validator's operator, a validator's consensus
/// key.
const KINDS: [&str; 3] = ["", "valoper", "valcons"];
/// Hex digits of an address.
const HEX_DIGITS: usize = 40;

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Hex of another length.
    #[error("hex string has length {0}, want {HEX_DIGITS} for an address")]
    Length(usize),
    /// Not hex, and not Bech32 either.
    #[error("{0:?} is neither a hex nor a Bech32 address")]
    Form(String),
    /// Hex in both cases whose case is not that of EIP-55.
    #[error("wrong EIP-55 checksum: did you mean {expected}?")]
    Checksum {
        /// The same address with the right case.
        expected: String,
    },
    /// Bech32 with a wrong checksum, or another fault.
    #[error("invalid Bech32 address: {0}")]
    Bech32(String),
    /// Bech32 of another chain.
    #[error("Bech32 address has prefix {found:?}, this chain's is {expected:?}")]
    Prefix {
        /// The prefix in the text.
        found: String,
        /// The chain's.
        expected: String,
    },
    /// Bech32 of something that is not 20 bytes.
    #[error("Bech32 address has {0} bytes, want 20")]
    Bytes(usize),
}

/// Reads an address; `prefix` is the chain's Bech32 prefix.
///
/// # Errors
/// Says which form was recognised and what is wrong with it.
pub fn parse_address(text: &str, prefix: &str) -> Result<Address, AddressError> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match digits {
        Some(digits) if digits.is_empty() || is_hex(digits) => parse_hex(digits),
        Some(_) => Err(AddressError::Form(shorten(text))),
        None if is_hex(text) => parse_hex(text),
        None if text.contains('1') => parse_bech32(text, prefix),
        None => Err(AddressError::Form(shorten(text))),
    }
}

fn parse_hex(digits: &str) -> Result<Address, AddressError> {
    if digits.len() != HEX_DIGITS {
        return Err(AddressError::Length(digits.len()));
    }
    let address: Address = digits.parse().map_err(|_| AddressError::Form(digits.to_owned()))?;
    let mixed = digits.bytes().any(|byte| byte.is_ascii_lowercase())
        && digits.bytes().any(|byte| byte.is_ascii_uppercase());
    let expected = address.to_checksum(None);
    if mixed && expected[2..] != *digits {
        return Err(AddressError::Checksum { expected });
    }
    Ok(address)
}

fn parse_bech32(text: &str, prefix: &str) -> Result<Address, AddressError> {
    let decoded = CheckedHrpstring::new::<Bech32>(text)
        .map_err(|error| AddressError::Bech32(error.to_string()))?;
    let hrp = decoded.hrp().to_lowercase();
    if !KINDS.iter().any(|kind| hrp.strip_prefix(prefix) == Some(kind)) {
        return Err(AddressError::Prefix { found: hrp, expected: prefix.to_owned() });
    }
    let bytes: Vec<u8> = decoded.byte_iter().collect();
    Address::try_from(bytes.as_slice()).map_err(|_| AddressError::Bytes(bytes.len()))
}

/// Enough of a text to recognise it in an error.
fn shorten(text: &str) -> String {
    const SHOWN_CHARS: usize = 64;
    text.chars().take(SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKSUMMED: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

    fn bech32(prefix: &str, bytes: &[u8]) -> String {
        let hrp = bech32::Hrp::parse(prefix).expect("a valid prefix");
        bech32::encode::<Bech32>(hrp, bytes).expect("short enough")
    }

    #[test]
    fn all_forms_are_one_address() {
        let address: Address = CHECKSUMMED.parse().expect("valid");
        let mut forms = vec![CHECKSUMMED.to_owned(), CHECKSUMMED[2..].to_owned()];
        forms.push(CHECKSUMMED.to_lowercase());
        forms.push(CHECKSUMMED.to_uppercase());
        for kind in ["cosmos", "cosmosvaloper", "cosmosvalcons"] {
            forms.push(bech32(kind, address.as_slice()));
        }
        for form in forms {
            assert_eq!(parse_address(&form, "cosmos"), Ok(address), "{form}");
        }
    }

    #[test]
    fn a_wrong_checksum_says_so() {
        let wrong = CHECKSUMMED.replace('F', "f");
        let error = parse_address(&wrong, "cosmos").expect_err("refused");
        assert_eq!(error, AddressError::Checksum { expected: CHECKSUMMED.to_owned() });
        let mut text = bech32("cosmos", &[7; 20]);
        text.pop();
        text.push('q');
        let error = parse_address(&text, "cosmos").expect_err("refused").to_string();
        assert!(error.contains("checksum"), "{error}");
    }

    #[test]
    fn bad_texts_are_refused() {
        let other = bech32("osmo", &[7; 20]);
        let long = bech32("cosmos", &[7; 32]);
        let texts = ["", "0x", "0x12", "0xzz", "hello", "1", "é1", "cosmos1", &other, &long];
        for text in texts {
            assert!(parse_address(text, "cosmos").is_err(), "{text}");
        }
    }
}
