//! Keys of `eth_secp256k1`, their addresses, and the JSON of public keys.

use super::Bech32Error;
use alloy_primitives::{Address, keccak256};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use k256::elliptic_curve::sec1::ToEncodedPoint;
use serde::{Deserialize, Serialize};
use std::fmt;
use zeroize::Zeroizing;

/// Size of a private key in bytes.
pub const PRIVATE_KEY_BYTES: usize = 32;
/// Size of a compressed public key in bytes (SEC 1).
pub const PUBLIC_KEY_BYTES: usize = 33;
/// The type in the JSON and protobuf forms of a public key.
const PUBLIC_KEY_TYPE: &str = "/cosmos.evm.crypto.v1.ethsecp256k1.PubKey";

/// Why bytes or a text are not a key. Messages never contain a part of a private key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The number of bytes is wrong.
    #[error("a {kind} key has {want} bytes, got {got}")]
    Length {
        /// `private` or `public`.
        kind: &'static str,
        /// The required number of bytes.
        want: usize,
        /// The actual number of bytes.
        got: usize,
    },
    /// The number is zero, or not below the order of the curve.
    #[error("not a private key: zero, or not below the order of the curve")]
    Range,
    /// The bytes are not a compressed point on the curve.
    #[error("not a public key: no compressed point of the curve")]
    Point,
    /// The text is not hex.
    #[error("the key is not hex")]
    Hex,
    /// The JSON is not a public key.
    #[error("not a public key in JSON: {0}")]
    Json(String),
    /// The public key in JSON belongs to another algorithm.
    #[error("public key of type {0:?}, want {PUBLIC_KEY_TYPE:?}")]
    Type(String),
    /// The text is not base64.
    #[error("the public key is not base64: {0}")]
    Base64(String),
    /// The Bech32 text is malformed.
    #[error("invalid Bech32 public key: {0}")]
    Bech32(#[from] Bech32Error),
    /// The Bech32 text belongs to another chain, or is an address.
    #[error("Bech32 public key has prefix {found:?}, expected {expected:?}")]
    Prefix {
        /// The prefix in the text.
        found: String,
        /// The chain's prefix of account keys.
        expected: String,
    },
}

/// A private key. It is zeroed when dropped.
#[derive(Clone)]
pub struct PrivateKey(k256::SecretKey);

impl PrivateKey {
    /// Creates a key from random bytes of the operating system.
    ///
    /// # Errors
    /// If the system cannot provide random bytes.
    pub fn random() -> Result<Self, getrandom::Error> {
        loop {
            let mut bytes = Zeroizing::new([0; PRIVATE_KEY_BYTES]);
            getrandom::fill(bytes.as_mut())?;
            // This fails with a probability of about 2^-128.
            if let Ok(key) = Self::from_bytes(bytes.as_ref()) {
                return Ok(key);
            }
        }
    }

    /// Decodes 32 big-endian bytes.
    ///
    /// # Errors
    /// If the length is not 32, or if the number is zero or not below the order of the curve.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        if bytes.len() != PRIVATE_KEY_BYTES {
            let (kind, want) = ("private", PRIVATE_KEY_BYTES);
            return Err(KeyError::Length { kind, want, got: bytes.len() });
        }
        k256::SecretKey::from_slice(bytes).map(Self).map_err(|_| KeyError::Range)
    }

    /// Parses 64 hex digits, with or without `0x`.
    ///
    /// # Errors
    /// Those of [`Self::from_bytes`], and if the text is not hex. Messages never contain the text.
    pub fn from_hex(text: &str) -> Result<Self, KeyError> {
        let bytes = alloy_primitives::hex::decode(text.trim()).map_err(|_| KeyError::Hex)?;
        Self::from_bytes(&Zeroizing::new(bytes))
    }

    /// Returns the 32 bytes.
    pub fn to_bytes(&self) -> Zeroizing<[u8; PRIVATE_KEY_BYTES]> {
        Zeroizing::new(self.0.to_bytes().into())
    }

    /// Returns the public key.
    pub fn public_key(&self) -> PublicKey {
        PublicKey::from_point(&self.0.public_key())
    }

    /// Returns the address: the last 20 bytes of the Keccak-256 of the uncompressed point.
    pub fn address(&self) -> Address {
        self.public_key().address()
    }

    pub(super) const fn secret(&self) -> &k256::SecretKey {
        &self.0
    }

    pub(super) const fn from_secret(key: k256::SecretKey) -> Self {
        Self(key)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

/// A public key: a compressed point on the curve.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; PUBLIC_KEY_BYTES]);

/// The JSON of a public key.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublicKeyJson {
    #[serde(rename = "@type")]
    kind: String,
    key: String,
}

impl PublicKey {
    fn from_point(point: &k256::PublicKey) -> Self {
        let point = point.to_encoded_point(true);
        Self(point.as_bytes().try_into().expect("a compressed point has 33 bytes"))
    }

    /// Decodes the 33 bytes of a compressed point.
    ///
    /// # Errors
    /// If the length is wrong, or if the bytes are not a point on the curve.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        let bytes: [u8; PUBLIC_KEY_BYTES] = bytes.try_into().map_err(|_| KeyError::Length {
            kind: "public",
            want: PUBLIC_KEY_BYTES,
            got: bytes.len(),
        })?;
        // The library also accepts a format of 33 bytes without the parity of the y coordinate.
        if !matches!(bytes[0], 2 | 3) {
            return Err(KeyError::Point);
        }
        k256::PublicKey::from_sec1_bytes(&bytes).map_err(|_| KeyError::Point)?;
        Ok(Self(bytes))
    }

    /// Decodes the base64 of the 33 bytes.
    ///
    /// # Errors
    /// Those of [`Self::from_bytes`], and if the text is not base64.
    pub fn from_base64(text: &str) -> Result<Self, KeyError> {
        let bytes =
            BASE64.decode(text.trim()).map_err(|error| KeyError::Base64(error.to_string()))?;
        Self::from_bytes(&bytes)
    }

    /// Parses `{"@type":"...","key":"base64"}`.
    ///
    /// # Errors
    /// Those of [`Self::from_base64`], and if the JSON is malformed or has another key type.
    pub fn from_json(text: &str) -> Result<Self, KeyError> {
        let json: PublicKeyJson =
            serde_json::from_str(text).map_err(|error| KeyError::Json(error.to_string()))?;
        if json.kind != PUBLIC_KEY_TYPE {
            return Err(KeyError::Type(json.kind));
        }
        Self::from_base64(&json.key)
    }

    /// Returns the JSON that [`Self::from_json`] parses.
    pub fn to_json(&self) -> String {
        let json = PublicKeyJson { kind: PUBLIC_KEY_TYPE.to_owned(), key: BASE64.encode(self.0) };
        serde_json::to_string(&json).expect("two strings are JSON")
    }

    /// Returns the compressed point.
    pub const fn as_bytes(&self) -> &[u8; PUBLIC_KEY_BYTES] {
        &self.0
    }

    /// Returns the address: the last 20 bytes of the Keccak-256 of the uncompressed point.
    pub fn address(&self) -> Address {
        let point = k256::PublicKey::from_sec1_bytes(&self.0).expect("it was checked before");
        // Byte 0 is the format, and is not hashed.
        let hash = keccak256(&point.to_encoded_point(false).as_bytes()[1..]);
        Address::from_word(hash)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", alloy_primitives::hex::encode(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
    const JSON: &str = r#"{"@type":"/cosmos.evm.crypto.v1.ethsecp256k1.PubKey","key":"A4MYU1tUEF1Keq5gwI/EX5aHGBtP38YlvRp1P6c5f+11"}"#;

    #[test]
    fn address_and_json_of_a_known_key_are_correct() {
        let key = PrivateKey::from_hex(KEY).unwrap();
        assert_eq!(key.address().to_string(), "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
        assert_eq!(key.public_key().to_json(), JSON);
        assert_eq!(PublicKey::from_json(JSON), Ok(key.public_key()));
        assert_eq!(format!("{key:?}"), "PrivateKey(..)");
    }

    #[test]
    fn invalid_keys_are_refused() {
        let order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
        assert_eq!(PrivateKey::from_hex(order).unwrap_err(), KeyError::Range);
        assert_eq!(PrivateKey::from_hex(&"0".repeat(64)).unwrap_err(), KeyError::Range);
        assert_eq!(PrivateKey::from_hex("zz").unwrap_err(), KeyError::Hex);
        assert!(matches!(PrivateKey::from_hex("00").unwrap_err(), KeyError::Length { .. }));
        assert_eq!(
            PublicKey::from_bytes(&[2; 32]).unwrap_err().to_string(),
            "a public key has 33 bytes, got 32"
        );
        assert_eq!(PublicKey::from_bytes(&[0; 33]), Err(KeyError::Point));
        let mut compact = PrivateKey::from_hex(KEY).unwrap().public_key().as_bytes().to_vec();
        compact[0] = 5;
        assert_eq!(PublicKey::from_bytes(&compact), Err(KeyError::Point));
        assert!(matches!(
            PublicKey::from_json(&JSON.replace("ethsecp", "secp")),
            Err(KeyError::Type(_))
        ));
    }
}
