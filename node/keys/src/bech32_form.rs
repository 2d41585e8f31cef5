//! The Bech32 forms (BIP-173, not Bech32m): three kinds of address and three of public key, distinguished by
//! what follows the chain's prefix. None of them contains an amino prefix: an address has 20 raw bytes, and a
//! key 33.

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

/// What a Bech32 address or public key identifies. The bytes are the same in all three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bech32Kind {
    /// A user: the plain prefix.
    Account,
    /// A validator's operator: `valoper`.
    Validator,
    /// A validator's consensus key: `valcons`.
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

    /// The value that selects this kind on the command line.
    pub const fn selector(self) -> &'static str {
        match self {
            Self::Account => "acc",
            Self::Validator => "val",
            Self::Consensus => "cons",
        }
    }

    /// Human-readable part of addresses, `cosmosvaloper` for instance.
    pub fn address_prefix(self, prefix: &str) -> String {
        format!("{prefix}{}", self.suffix())
    }

    /// Human-readable part of public keys, `cosmosvaloperpub` for instance.
    pub fn key_prefix(self, prefix: &str) -> String {
        format!("{prefix}{}pub", self.suffix())
    }

    /// An address in this form.
    ///
    /// # Panics
    /// If the chain's prefix is no human-readable part; genesis checks that it is.
    pub fn address(self, prefix: &str, address: Address) -> String {
        encode(&self.address_prefix(prefix), address.as_slice())
    }

    /// A public key in this form.
    ///
    /// # Panics
    /// As [`Self::address`].
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

/// The Bech32 form of an account's address under the chain's prefix.
///
/// # Panics
/// If the prefix is no human-readable part; genesis checks that it is.
pub fn bech32(prefix: &str, address: Address) -> String {
    Bech32Kind::Account.address(prefix, address)
}

/// An address under any prefix, of this chain or another; `None` if that is none.
pub fn encode_any(prefix: &str, address: Address) -> Option<String> {
    bech32::encode::<Bech32>(Hrp::parse(prefix).ok()?, address.as_slice()).ok()
}

fn encode(prefix: &str, bytes: &[u8]) -> String {
    let hrp = Hrp::parse(prefix).expect("genesis checks the prefix");
    bech32::encode::<Bech32>(hrp, bytes).expect("an address or a key is short enough")
}

/// Why a text is no Bech32.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Bech32Error {
    /// The last six characters do not fit the others.
    #[error("wrong checksum")]
    Checksum,
    /// BIP-173 forbids texts in both cases.
    #[error("mixed upper and lower case")]
    MixedCase,
    /// Anything else: a character, the separator, the length.
    #[error("{0}")]
    Form(String),
}

/// Human-readable part in lower case, and bytes, of any Bech32 text, of this chain or another.
///
/// # Errors
/// If it is not well-formed. The caller checks length and prefix.
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

/// Reads a public key in any of its three Bech32 forms.
///
/// # Errors
/// Says what is wrong: form, checksum, prefix, length, or a point off the curve.
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
    fn the_kinds_of_an_address() {
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
    fn faults_are_told_apart() {
        let good = "cosmos17w0adeg64ky0daxwd2ugyuneellmjgnxramjtq";
        assert!(decode_any(good).is_ok());
        assert!(decode_any(&good.to_uppercase()).is_ok());
        assert_eq!(decode_any(&good.replace("jtq", "jtp")), Err(Bech32Error::Checksum));
        assert_eq!(decode_any(&good.replace('w', "W")), Err(Bech32Error::MixedCase));
        assert_eq!(decode_any(&good.replace("cos", "Cos")), Err(Bech32Error::MixedCase));
        assert!(matches!(decode_any("cosmos"), Err(Bech32Error::Form(_))));
    }
}
