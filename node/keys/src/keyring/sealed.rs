//! Encrypts a whole keyring with one passphrase, for the backends `file` and `os`.
//!
//! scrypt derives a key from the passphrase when the keyring is opened. XChaCha20-Poly1305 encrypts and
//! authenticates the contents with a new random nonce at each change.

use super::KeyringError;
use alloy_primitives::hex;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305,
    aead::{Aead, Payload},
};
use serde::{Deserialize, Serialize};
use std::path::Path;
use zeroize::Zeroizing;

/// scrypt parameters of new files, log2 N, r and p, as OWASP recommends: 128 MiB and about 0.4 s.
const LOG_N: u8 = 17;
const R: u32 = 8;
const P: u32 = 1;
/// Accepted values of log2 N in a file. The maximum needs 1 GiB with the same r and p.
const LOG_N_RANGE: std::ops::RangeInclusive<u8> = 14..=20;
const SALT_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const KEY_BYTES: usize = 32;
/// Additional authenticated data, so that text that another program encrypted with the same key is not accepted
/// as a keyring.
const CONTEXT: &[u8] = b"evmd keyring 1";

/// A key and the parameters from which it was derived.
pub(super) struct Seal {
    key: Zeroizing<[u8; KEY_BYTES]>,
    log_n: u8,
    salt: [u8; SALT_BYTES],
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(..)")
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealedFile {
    version: u32,
    kdf: String,
    log_n: u8,
    salt: String,
    cipher: String,
    nonce: String,
    sealed: String,
}

const KDF: &str = "scrypt";
const CIPHER: &str = "xchacha20-poly1305";

impl Seal {
    /// Derives a key from a passphrase and a new salt.
    pub(super) fn new(passphrase: &str) -> Result<Self, KeyringError> {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt)?;
        Ok(Self::derive(passphrase, LOG_N, salt))
    }

    fn derive(passphrase: &str, log_n: u8, salt: [u8; SALT_BYTES]) -> Self {
        let params = scrypt::Params::new(log_n, R, P).expect("the costs are in range");
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        scrypt::scrypt(passphrase.as_bytes(), &salt, &params, key.as_mut())
            .expect("32 bytes are a valid length");
        Self { key, log_n, salt }
    }

    /// Decrypts the text of a file. Returns the key with its parameters, and the contents.
    pub(super) fn open(
        path: &Path,
        text: &[u8],
        passphrase: &str,
    ) -> Result<(Self, Zeroizing<Vec<u8>>), KeyringError> {
        let damaged = |reason: String| KeyringError::Damaged { path: path.to_owned(), reason };
        let file: SealedFile =
            serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        if file.version != super::VERSION || file.kdf != KDF || file.cipher != CIPHER {
            return Err(damaged("its version, kdf or cipher is not known".to_owned()));
        }
        if !LOG_N_RANGE.contains(&file.log_n) {
            return Err(damaged(format!("scrypt cost 2^{} is out of range", file.log_n)));
        }
        let fields = || {
            let salt: [u8; SALT_BYTES] = hex::decode(&file.salt).ok()?.try_into().ok()?;
            let nonce: [u8; NONCE_BYTES] = hex::decode(&file.nonce).ok()?.try_into().ok()?;
            Some((salt, nonce, BASE64.decode(&file.sealed).ok()?))
        };
        let (salt, nonce, sealed) =
            fields().ok_or_else(|| damaged("a field is malformed".to_owned()))?;
        let seal = Self::derive(passphrase, file.log_n, salt);
        let payload = Payload { msg: &sealed, aad: CONTEXT };
        let opened = seal.cipher().decrypt(&nonce.into(), payload);
        let opened = opened.map_err(|_| KeyringError::WrongPassphrase)?;
        Ok((seal, Zeroizing::new(opened)))
    }

    /// Encrypts contents to the text of a file.
    pub(super) fn close(&self, contents: &[u8]) -> Result<Vec<u8>, KeyringError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce)?;
        let payload = Payload { msg: contents, aad: CONTEXT };
        let sealed = self.cipher().encrypt(&nonce.into(), payload);
        let sealed = sealed.expect("a keyring is within the cipher's limit");
        let file = SealedFile {
            version: super::VERSION,
            kdf: KDF.to_owned(),
            log_n: self.log_n,
            salt: hex::encode(self.salt),
            cipher: CIPHER.to_owned(),
            nonce: hex::encode(nonce),
            sealed: BASE64.encode(sealed),
        };
        Ok(serde_json::to_vec(&file).expect("strings and numbers are JSON"))
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&*self.key).into())
    }
}
