//! A record of a keyring.

use super::KeyringError;
use crate::{PrivateKey, PublicKey};
use alloy_primitives::{Address, hex};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// Maximum number of characters of a name.
pub const MAX_NAME_CHARS: usize = 128;

/// A named key.
#[derive(Clone, Debug)]
pub struct Record {
    /// The name, unique in its keyring.
    pub name: String,
    /// Its public key.
    pub public_key: PublicKey,
    /// Its private key; `None` if the keyring has only the public key.
    pub private_key: Option<PrivateKey>,
}

impl Record {
    /// Creates a record with a private key, which can sign.
    pub fn local(name: String, private_key: PrivateKey) -> Self {
        Self { name, public_key: private_key.public_key(), private_key: Some(private_key) }
    }

    /// Creates a record with a public key only.
    pub const fn offline(name: String, public_key: PublicKey) -> Self {
        Self { name, public_key, private_key: None }
    }

    /// Returns its address.
    pub fn address(&self) -> Address {
        self.public_key.address()
    }

    /// Returns `local` for a record with a private key, and `offline` for one without.
    pub const fn kind(&self) -> &'static str {
        if self.private_key.is_some() { "local" } else { "offline" }
    }

    /// Returns the private key.
    ///
    /// # Errors
    /// If the record has none.
    pub fn private_key(&self) -> Result<&PrivateKey, KeyringError> {
        self.private_key.as_ref().ok_or_else(|| KeyringError::Offline(self.name.clone()))
    }
}

/// A record in the file, with keys in hex.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredRecord {
    name: String,
    public_key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    private_key: Option<Zeroizing<String>>,
}

impl From<&Record> for StoredRecord {
    fn from(record: &Record) -> Self {
        let encode = |key: &PrivateKey| Zeroizing::new(hex::encode(*key.to_bytes()));
        Self {
            name: record.name.clone(),
            public_key: hex::encode(record.public_key.as_bytes()),
            private_key: record.private_key.as_ref().map(encode),
        }
    }
}

impl TryFrom<StoredRecord> for Record {
    type Error = KeyringError;

    fn try_from(stored: StoredRecord) -> Result<Self, KeyringError> {
        let StoredRecord { name, public_key, private_key } = stored;
        let inconsistent = |error| KeyringError::Record(name.clone(), error);
        let private_key = private_key.map(|text| PrivateKey::from_hex(&text)).transpose();
        let private_key = private_key.map_err(inconsistent)?;
        let bytes = hex::decode(&public_key).unwrap_or_default();
        let public_key = PublicKey::from_bytes(&bytes).map_err(inconsistent)?;
        if private_key.as_ref().is_some_and(|key| key.public_key() != public_key) {
            return Err(inconsistent(crate::KeyError::Point));
        }
        Ok(Self { name, public_key, private_key })
    }
}

pub(super) fn check_name(name: &str) -> Result<(), KeyringError> {
    let is_valid = !name.trim().is_empty()
        && name.trim() == name
        && name.chars().count() <= MAX_NAME_CHARS
        && !name.chars().any(char::is_control);
    if is_valid { Ok(()) } else { Err(KeyringError::Name(name.to_owned())) }
}
