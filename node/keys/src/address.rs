//! Parses an address in each format that this chain uses: hex with or without `0x`, hex with the checksum of
//! EIP-55, and the three kinds of Bech32 address with the chain's prefix.

use super::{
    Bech32Error,
    bech32_form::{BECH32_KINDS, decode_any},
};
use alloy_primitives::Address;
use sha2::{Digest, Sha256};

/// Number of hex digits of an address.
const HEX_DIGITS: usize = 40;

/// Returns the address of a consensus key: the first 20 bytes of its SHA-256 (CometBFT: `crypto/ed25519`).
pub fn validator_address(key: &[u8; 32]) -> Address {
    Address::from_slice(&Sha256::digest(key)[..20])
}

/// Why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The hex string has a wrong length.
    #[error("hex string has length {0}, want {HEX_DIGITS} for an address")]
    Length(usize),
    /// The text is neither hex nor Bech32.
    #[error("{0:?} is neither a hex nor a Bech32 address")]
    Form(String),
    /// The hex string has mixed case that does not match EIP-55.
    #[error("wrong EIP-55 checksum: did you mean {expected}?")]
    Checksum {
        /// The same address with the correct case.
        expected: String,
    },
    /// The Bech32 text is malformed, for example because of a wrong checksum.
    #[error("invalid Bech32 address: {0}")]
    Bech32(#[from] Bech32Error),
    /// The Bech32 address belongs to another chain.
    #[error("Bech32 address has prefix {found:?}, this chain's is {expected:?}")]
    Prefix {
        /// The prefix in the text.
        found: String,
        /// The prefix of the chain.
        expected: String,
    },
    /// The Bech32 text does not contain 20 bytes.
    #[error("Bech32 address has {0} bytes, want 20")]
    Bytes(usize),
}

/// Parses an address; `prefix` is the chain's Bech32 prefix.
///
/// # Errors
/// States which format was recognised and what is wrong.
pub fn parse_address(text: &str, prefix: &str) -> Result<Address, AddressError> {
    let address = parse_address_in_any_case(text, prefix)?;
    check_case(text, address)?;
    Ok(address)
}

/// Parses an address that a program has written. The case of its digits is not checked, as in geth.
///
/// # Errors
/// States which format was recognised and what is wrong.
pub fn parse_address_in_any_case(text: &str, prefix: &str) -> Result<Address, AddressError> {
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
    digits.parse().map_err(|_| AddressError::Form(digits.to_owned()))
}

/// Checks the EIP-55 checksum of hex digits in mixed case, which a person may have mistyped.
fn check_case(text: &str, address: Address) -> Result<(), AddressError> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    if digits.len() != HEX_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(());
    }
    let mixed = digits.bytes().any(|byte| byte.is_ascii_lowercase())
        && digits.bytes().any(|byte| byte.is_ascii_uppercase());
    let expected = address.to_checksum(None);
    if mixed && expected[2..] != *digits {
        return Err(AddressError::Checksum { expected });
    }
    Ok(())
}

fn parse_bech32(text: &str, prefix: &str) -> Result<Address, AddressError> {
    let (found, bytes) = decode_any(text)?;
    if !BECH32_KINDS.iter().any(|kind| kind.address_prefix(prefix) == found) {
        return Err(AddressError::Prefix { found, expected: prefix.to_owned() });
    }
    Address::try_from(bytes.as_slice()).map_err(|_| AddressError::Bytes(bytes.len()))
}

/// Shortens a text for an error message.
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
        bech32::encode::<bech32::Bech32>(hrp, bytes).expect("short enough")
    }

    #[test]
    fn all_formats_are_parsed_to_the_same_address() {
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
    fn wrong_checksum_is_reported() {
        let wrong = CHECKSUMMED.replace('F', "f");
        let error = parse_address(&wrong, "cosmos").expect_err("refused");
        assert_eq!(error, AddressError::Checksum { expected: CHECKSUMMED.to_owned() });
        let bare = parse_address(&wrong[2..], "cosmos").expect_err("refused");
        assert_eq!(bare, error);
        let address = parse_address(CHECKSUMMED, "cosmos");
        assert_eq!(parse_address_in_any_case(&wrong, "cosmos"), address);
        assert_eq!(parse_address_in_any_case(&wrong[2..], "cosmos"), address);
        let mut text = bech32("cosmos", &[7; 20]);
        text.pop();
        text.push('q');
        let error = parse_address(&text, "cosmos").expect_err("refused");
        assert_eq!(error, AddressError::Bech32(Bech32Error::Checksum));
    }

    #[test]
    fn wrong_case_prefix_and_length_are_reported() {
        let error_of = |text: &str| parse_address(text, "cosmos").expect_err("refused");
        let mixed = bech32("cosmos", &[7; 20]).replacen('c', "C", 1);
        assert_eq!(error_of(&mixed), AddressError::Bech32(Bech32Error::MixedCase));
        let (found, expected) = ("osmo".to_owned(), "cosmos".to_owned());
        assert_eq!(error_of(&bech32("osmo", &[7; 20])), AddressError::Prefix { found, expected });
        for bytes in [19, 21] {
            let hex_error = error_of(&"11".repeat(bytes));
            assert_eq!(hex_error, AddressError::Length(2 * bytes));
            let bech32_error = error_of(&bech32("cosmosvaloper", &vec![7; bytes]));
            assert_eq!(bech32_error, AddressError::Bytes(bytes));
        }
    }

    #[test]
    fn invalid_texts_are_refused() {
        let other = bech32("osmo", &[7; 20]);
        let long = bech32("cosmos", &[7; 32]);
        let texts = ["", "0x", "0x12", "0xzz", "hello", "1", "é1", "cosmos1", &other, &long];
        for text in texts {
            assert!(parse_address(text, "cosmos").is_err(), "{text}");
        }
    }
}
