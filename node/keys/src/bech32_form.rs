//! Encodes and decodes the Bech32 formats (BIP-173, not Bech32m): three kinds of address and three of public key,
//! which differ in the suffix of the chain's prefix. None of them contains an amino prefix: an address has 20 raw
//! bytes, and a key 33.

use super::{KeyError, PublicKey};
use alloy_primitives::Address;
use bech32::{
    Bech32, Hrp,
    primitives::{
        decode::{
            CharError, CheckedHrpstring, CheckedHrpstringError, ChecksumError,
            UncheckedHrpstringError,
        },
        hrp,
    },
};
use std::{fmt, str::FromStr};

/// The three kinds, in the order in which tools print them.
pub const BECH32_KINDS: [Bech32Kind; 3] =
    [Bech32Kind::Account, Bech32Kind::Validator, Bech32Kind::Consensus];

/// The kind of a Bech32 address or public key. The encoded bytes are the same for all three kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bech32Kind {
    /// A user: no suffix.
    Account,
    /// The operator of a validator: `valoper`.
    Validator,
    /// The consensus key of a validator: `valcons`.
    Consensus,
}

impl Bech32Kind {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Account => "",
            Self::Validator => "valoper",
            Self::Consensus => "valcons",
        }
    }

    /// Returns the value that selects this kind on the command line.
    pub const fn selector(self) -> &'static str {
        match self {
            Self::Account => "acc",
            Self::Validator => "val",
            Self::Consensus => "cons",
        }
    }

    /// Returns the human-readable part of addresses, for example `cosmosvaloper`.
    pub fn address_prefix(self, prefix: &str) -> String {
        format!("{prefix}{}", self.suffix())
    }

    /// Returns the human-readable part of public keys, for example `cosmosvaloperpub`.
    pub fn key_prefix(self, prefix: &str) -> String {
        format!("{prefix}{}pub", self.suffix())
    }

    /// Encodes an address as this kind.
    ///
    /// # Panics
    /// If the chain's prefix is not a valid human-readable part. It is checked when the genesis file is read.
    pub fn address(self, prefix: &str, address: Address) -> String {
        encode(&self.address_prefix(prefix), address.as_slice())
    }

    /// Encodes a public key as this kind.
    ///
    /// # Panics
    /// Those of [`Self::address`].
    pub fn public_key(self, prefix: &str, key: &PublicKey) -> String {
        encode(&self.key_prefix(prefix), key.as_bytes())
    }
}

impl fmt::Display for Bech32Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.selector())
    }
}

impl FromStr for Bech32Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = BECH32_KINDS.into_iter().find(|kind| kind.selector() == text);
        kind.ok_or_else(|| format!("unknown Bech32 kind {text:?}: want acc, val or cons"))
    }
}

/// Encodes the address of an account with the chain's prefix.
///
/// # Panics
/// If the prefix is not a valid human-readable part. It is checked when the genesis file is read.
pub fn bech32(prefix: &str, address: Address) -> String {
    Bech32Kind::Account.address(prefix, address)
}

/// Encodes an address with any prefix; `None` if the prefix is invalid.
pub fn encode_any(prefix: &str, address: Address) -> Option<String> {
    bech32::encode::<Bech32>(Hrp::parse(prefix).ok()?, address.as_slice()).ok()
}

fn encode(prefix: &str, bytes: &[u8]) -> String {
    let hrp = Hrp::parse(prefix).expect("genesis checks the prefix");
    bech32::encode::<Bech32>(hrp, bytes).expect("an address or a key is short enough")
}

/// Why a text is not Bech32.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Bech32Error {
    /// The checksum is wrong.
    #[error("wrong checksum")]
    Checksum,
    /// The text has mixed case, which BIP-173 forbids.
    #[error("mixed upper and lower case")]
    MixedCase,
    /// A character, the separator or the length is wrong.
    #[error("{0}")]
    Form(String),
}

/// Decodes Bech32 text of any chain. Returns the human-readable part in lower case, and the bytes.
///
/// # Errors
/// If the text is malformed. The caller has to check the length and the prefix.
pub fn decode_any(text: &str) -> Result<(String, Vec<u8>), Bech32Error> {
    let decoded = CheckedHrpstring::new::<Bech32>(text).map_err(|error| match error {
        CheckedHrpstringError::Checksum(ChecksumError::InvalidResidue(_)) => Bech32Error::Checksum,
        CheckedHrpstringError::Parse(
            UncheckedHrpstringError::Char(CharError::MixedCase)
            | UncheckedHrpstringError::Hrp(hrp::Error::MixedCase),
        ) => Bech32Error::MixedCase,
        CheckedHrpstringError::Parse(UncheckedHrpstringError::Char(error)) => {
            Bech32Error::Form(error.to_string())
        }
        CheckedHrpstringError::Parse(UncheckedHrpstringError::Hrp(error)) => {
            Bech32Error::Form(error.to_string())
        }
        CheckedHrpstringError::Checksum(error) => Bech32Error::Form(error.to_string()),
        other => Bech32Error::Form(other.to_string()),
    })?;
    Ok((decoded.hrp().to_lowercase(), decoded.byte_iter().collect()))
}

/// Decodes a public key of any of the three Bech32 kinds.
///
/// # Errors
/// States what is wrong: format, checksum, prefix, length, or a point that is not on the curve.
pub fn decode_public_key(text: &str, prefix: &str) -> Result<PublicKey, KeyError> {
    let (found, bytes) = decode_any(text)?;
    if !BECH32_KINDS.iter().any(|kind| kind.key_prefix(prefix) == found) {
        let expected = Bech32Kind::Account.key_prefix(prefix);
        return Err(KeyError::Prefix { found, expected });
    }
    PublicKey::from_bytes(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::address;

    #[test]
    fn each_kind_of_address_has_its_prefix() {
        let address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
        let expected = [
            "cosmos17w0adeg64ky0daxwd2ugyuneellmjgnxramjtq",
            "cosmosvaloper17w0adeg64ky0daxwd2ugyuneellmjgnxxf088n",
            "cosmosvalcons17w0adeg64ky0daxwd2ugyuneellmjgnxj6umtj",
        ];
        for (kind, expected) in BECH32_KINDS.into_iter().zip(expected) {
            assert_eq!(kind.address("cosmos", address), expected);
            assert_eq!(kind.selector().parse(), Ok(kind));
        }
    }

    #[test]
    fn checksum_case_and_form_errors_are_distinguished() {
        let valid = "cosmos17w0adeg64ky0daxwd2ugyuneellmjgnxramjtq";
        assert!(decode_any(valid).is_ok());
        assert!(decode_any(&valid.to_uppercase()).is_ok());
        assert_eq!(decode_any(&valid.replace("jtq", "jtp")), Err(Bech32Error::Checksum));
        assert_eq!(decode_any(&valid.replace('w', "W")), Err(Bech32Error::MixedCase));
        assert_eq!(decode_any(&valid.replace("cos", "Cos")), Err(Bech32Error::MixedCase));
        assert!(matches!(decode_any("cosmos"), Err(Bech32Error::Form(_))));
    }
}
