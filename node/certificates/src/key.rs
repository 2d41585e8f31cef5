//! ed25519 keys (RFC 8032).

use alloy_primitives::{B256, hex};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use zeroize::Zeroizing;

/// Size of a secret key in bytes.
pub const SECRET_KEY_BYTES: usize = 32;
/// Size of a signature in bytes.
pub(crate) const SIGNATURE_BYTES: usize = 64;

/// Why a key cannot be read or created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is not the hex form of 32 bytes.
    #[error("an ed25519 key is 32 bytes in hex, such as 0x followed by 64 digits")]
    Hex,
    /// The bytes are not a point of the curve, or a point of small order, for which signatures prove nothing.
    #[error("{0} is not an ed25519 public key")]
    Point(B256),
    /// The operating system cannot provide random bytes.
    #[error("no randomness from the operating system: {0}")]
    Random(String),
}

/// The public key of a producer or a validator, or the recovery key of a chain. Its text form is hex with 0x.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(try_from = "B256", into = "B256")]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Returns the bytes of the key.
    pub fn bytes(&self) -> B256 {
        B256::from(self.0.to_bytes())
    }

    /// Returns whether `signature` is one of this key for `message`. Verification is strict, because RFC 8032 lets
    /// implementations differ and all programs must agree.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        self.0.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}

impl TryFrom<B256> for PublicKey {
    type Error = KeyError;

    fn try_from(bytes: B256) -> Result<Self, KeyError> {
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| KeyError::Point(bytes))?;
        if key.is_weak() { Err(KeyError::Point(bytes)) } else { Ok(Self(key)) }
    }
}

impl From<PublicKey> for B256 {
    fn from(key: PublicKey) -> Self {
        key.bytes()
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        text.parse::<B256>().map_err(|_| KeyError::Hex)?.try_into()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().fmt(f)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A secret key. Its memory is zeroed when it is dropped, and it is never printed.
pub struct SecretKey(SigningKey);

impl SecretKey {
    /// Creates a key from the randomness of the operating system.
    ///
    /// # Errors
    /// [`KeyError::Random`].
    pub fn random() -> Result<Self, KeyError> {
        let mut bytes = Zeroizing::new([0; SECRET_KEY_BYTES]);
        getrandom::fill(&mut *bytes).map_err(|error| KeyError::Random(error.to_string()))?;
        Ok(Self::from_bytes(&bytes))
    }

    /// Returns the key with these bytes. Any 32 bytes are a valid key.
    pub fn from_bytes(bytes: &[u8; SECRET_KEY_BYTES]) -> Self {
        Self(SigningKey::from_bytes(bytes))
    }

    /// Reads the key from hex, as in a key file. White space around it is ignored.
    ///
    /// # Errors
    /// [`KeyError::Hex`].
    pub fn from_hex(text: &str) -> Result<Self, KeyError> {
        let mut bytes = Zeroizing::new([0; SECRET_KEY_BYTES]);
        hex::decode_to_slice(text.trim(), &mut *bytes).map_err(|_| KeyError::Hex)?;
        Ok(Self::from_bytes(&bytes))
    }

    /// Returns the hex form, for a key file.
    pub fn to_hex(&self) -> Zeroizing<String> {
        Zeroizing::new(hex::encode(Zeroizing::new(self.0.to_bytes())))
    }

    /// Returns the bytes, for a signer of another program.
    pub fn to_bytes(&self) -> Zeroizing<[u8; SECRET_KEY_BYTES]> {
        Zeroizing::new(self.0.to_bytes())
    }

    /// Returns the public key.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs a message.
    pub(crate) fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.public())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::b256;

    /// Test 1 of RFC 8032, section 7.1.
    #[test]
    fn keys_and_signatures_are_those_of_the_rfc() {
        let text = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let key = SecretKey::from_hex(text).unwrap();
        let public = b256!("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        assert_eq!(key.public().bytes(), public);
        assert_eq!(*key.to_hex(), text);
        let signature = hex!(
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
        );
        assert_eq!(key.sign(b""), signature);
        assert!(key.public().verifies(b"", &signature));
        assert!(!key.public().verifies(b"x", &signature));
    }

    #[test]
    fn texts_and_bytes_that_are_not_keys_are_refused() {
        assert_eq!("0x12".parse::<PublicKey>(), Err(KeyError::Hex));
        assert!(matches!(SecretKey::from_hex("9d61"), Err(KeyError::Hex)));
        // The neutral element: with this public key, one signature would be valid for every message.
        let neutral = b256!("0100000000000000000000000000000000000000000000000000000000000000");
        assert_eq!(PublicKey::try_from(neutral), Err(KeyError::Point(neutral)));
        // 2 is not the y coordinate of a point.
        let outside = b256!("0200000000000000000000000000000000000000000000000000000000000000");
        assert_eq!(PublicKey::try_from(outside), Err(KeyError::Point(outside)));
        assert!(serde_json::from_str::<PublicKey>(&format!("\"{neutral}\"")).is_err());
    }

    #[test]
    fn a_secret_key_is_not_printed() {
        let key = SecretKey::from_bytes(&[7; SECRET_KEY_BYTES]);
        assert!(!format!("{key:?}").contains("0707"));
        assert_ne!(SecretKey::random().unwrap().public(), SecretKey::random().unwrap().public());
    }
}
