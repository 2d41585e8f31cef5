//! Encrypts and decrypts private keys in ASCII armor with a passphrase, as Cosmos chains export and import them:
//! Argon2id, ChaCha20-Poly1305 with a zero nonce (each file has its own salt and therefore its own key), the key in
//! amino encoding, and base64 lines between `BEGIN` and `END`.

use super::{KeyError, PrivateKey, algorithm::check_algorithm};
use alloy_primitives::hex;
use argon2::{Algorithm, Argon2, Params, Version};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, aead::Aead};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use zeroize::Zeroizing;

const BEGIN: &str = "-----BEGIN TENDERMINT PRIVATE KEY-----";
const END: &str = "-----END TENDERMINT PRIVATE KEY-----";
/// Amino's name of the private key type.
const AMINO_NAME: &str = "os/PrivKeyEthSecp256k1";
/// The Argon2id costs of the format: passes, memory in KiB, lanes.
const PASSES: u32 = 1;
const MEMORY_KIB: u32 = 64 << 10;
const LANES: u32 = 4;
const SALT_BYTES: usize = 16;
/// Maximum length of the salt in a file, in bytes.
const MAX_SALT_BYTES: usize = 64;
const KEY_BYTES: usize = 32;
/// Zero, because each key encrypts one message only.
const NONCE: [u8; 12] = [0; 12];
/// Maximum number of base64 characters per line.
const LINE_CHARS: usize = 64;
/// Maximum size of a file in bytes. Usual files have about 300.
pub const MAX_FILE_BYTES: usize = 64 << 10;

/// Why armored text cannot be decrypted or created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArmorError {
    /// The text is truncated, or is not armor.
    #[error("not an armored private key: {0}")]
    Form(&'static str),
    /// The key derivation function is not supported.
    #[error("armored key uses {0:?} as its kdf, want \"argon2\"")]
    Kdf(String),
    /// The key belongs to another algorithm.
    #[error("armored key is of type {0:?}: this chain has eth_secp256k1")]
    Type(String),
    /// Decryption failed. The two causes cannot be distinguished.
    #[error("wrong passphrase, or the armored key was altered")]
    WrongPassphrase,
    /// The decrypted bytes are not a key.
    #[error("armor does not contain a valid key: {0}")]
    Key(#[from] KeyError),
    /// The operating system cannot provide random bytes.
    #[error("no randomness from the operating system: {0}")]
    Random(#[from] getrandom::Error),
}

/// Returns whether a text looks like armor.
pub fn is_armor(text: &str) -> bool {
    text.trim_start().starts_with("-----BEGIN")
}

/// Encrypts a key to armored text, which ends with a line break.
///
/// # Errors
/// If there are no random bytes.
pub fn encrypt(key: &PrivateKey, passphrase: &str) -> Result<String, ArmorError> {
    let mut salt = [0; SALT_BYTES];
    getrandom::fill(&mut salt)?;
    let mut plain = Zeroizing::new(amino_prefix(AMINO_NAME).to_vec());
    plain.push(u8::try_from(super::PRIVATE_KEY_BYTES).expect("32 fits"));
    plain.extend_from_slice(key.to_bytes().as_ref());
    let sealed = cipher(passphrase, &salt)
        .encrypt(&NONCE.into(), plain.as_slice())
        .expect("a few bytes are within the cipher's limit");
    let mut text = format!(
        "{BEGIN}\nkdf: argon2\nsalt: {}\ntype: {}\n\n",
        hex::encode_upper(salt),
        super::ALGORITHM
    );
    let body = BASE64.encode(&sealed);
    for start in (0..body.len()).step_by(LINE_CHARS) {
        text.push_str(&body[start..body.len().min(start + LINE_CHARS)]);
        text.push('\n');
    }
    let sum = BASE64.encode(&crc24(&sealed).to_be_bytes()[1..]);
    writeln!(text, "={sum}\n{END}").expect("writing to a string does not fail");
    Ok(text)
}

/// Decrypts armored text.
///
/// # Errors
/// States what is wrong with the text. A wrong passphrase and an altered key are the same error.
pub fn decrypt(text: &str, passphrase: &str) -> Result<PrivateKey, ArmorError> {
    let armor = parse(text)?;
    if armor.kdf != "argon2" {
        return Err(ArmorError::Kdf(armor.kdf));
    }
    if check_algorithm(&armor.kind).is_err() {
        return Err(ArmorError::Type(armor.kind));
    }
    let opened = cipher(passphrase, &armor.salt).decrypt(&NONCE.into(), armor.sealed.as_slice());
    let opened = Zeroizing::new(opened.map_err(|_| ArmorError::WrongPassphrase)?);
    let key = opened.strip_prefix(&amino_prefix(AMINO_NAME)).and_then(<[u8]>::split_first);
    match key {
        Some((&length, key)) if usize::from(length) == key.len() => {
            Ok(PrivateKey::from_bytes(key)?)
        }
        _ => Err(ArmorError::Form("the decrypted key is malformed")),
    }
}

struct Armor {
    kdf: String,
    kind: String,
    salt: Vec<u8>,
    sealed: Vec<u8>,
}

fn parse(text: &str) -> Result<Armor, ArmorError> {
    if text.len() > MAX_FILE_BYTES {
        return Err(ArmorError::Form("it is too large"));
    }
    let mut lines = text.trim().lines().map(str::trim);
    if lines.next() != Some(BEGIN) {
        return Err(ArmorError::Form("it does not begin with BEGIN TENDERMINT PRIVATE KEY"));
    }
    let (mut kdf, mut kind, mut salt) = (String::new(), String::new(), None);
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        match line.split_once(": ").ok_or(ArmorError::Form("a header has no colon"))? {
            ("kdf", value) => value.clone_into(&mut kdf),
            ("type", value) => value.clone_into(&mut kind),
            ("salt", value) => salt = hex::decode(value).ok(),
            _ => {}
        }
    }
    let salt = salt.filter(|salt| (8..=MAX_SALT_BYTES).contains(&salt.len()));
    let salt = salt.ok_or(ArmorError::Form("it has no salt, or a bad one"))?;
    let (mut body, mut sum, mut ended) = (String::new(), None, false);
    for line in lines {
        match line.strip_prefix('=') {
            _ if ended => return Err(ArmorError::Form("lines follow its end")),
            _ if line == END => ended = true,
            _ if sum.is_some() => return Err(ArmorError::Form("its end is missing")),
            Some(rest) => sum = Some(rest),
            None => body.push_str(line),
        }
    }
    if !ended {
        return Err(ArmorError::Form("its end is missing"));
    }
    let sealed = BASE64.decode(&body).map_err(|_| ArmorError::Form("it is not base64"))?;
    if let Some(sum) = sum
        && sum != BASE64.encode(&crc24(&sealed).to_be_bytes()[1..])
    {
        return Err(ArmorError::Form("its checksum is wrong"));
    }
    Ok(Armor { kdf, kind, salt, sealed })
}

fn cipher(passphrase: &str, salt: &[u8]) -> ChaCha20Poly1305 {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, Some(KEY_BYTES)).expect("valid costs");
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase.as_bytes(), salt, key.as_mut())
        .expect("the salt's length is checked, the passphrase is below 4 GiB");
    ChaCha20Poly1305::new((&*key).into())
}

/// Returns Amino's four prefix bytes of a type: from the SHA-256 of its name, without leading zero bytes, three
/// disambiguation bytes, and further zero bytes.
fn amino_prefix(name: &str) -> [u8; 4] {
    let hash = Sha256::digest(name.as_bytes());
    let mut bytes = hash.iter().copied().skip_while(|&byte| byte == 0).skip(3);
    let first = bytes.by_ref().find(|&byte| byte != 0).unwrap_or_default();
    let mut next = || bytes.next().unwrap_or_default();
    [first, next(), next(), next()]
}

/// Returns OpenPGP's checksum of armor (RFC 4880 section 6.1).
fn crc24(bytes: &[u8]) -> u32 {
    let mut crc = 0x00b7_04ce_u32;
    for &byte in bytes {
        crc ^= u32::from(byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0186_4cfb;
            }
        }
    }
    crc & 0x00ff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encrypted_key_is_decrypted_and_altered_text_is_refused() {
        let key = PrivateKey::random().unwrap();
        let text = encrypt(&key, "passphrase").unwrap();
        assert!(is_armor(&text));
        assert_eq!(decrypt(&text, "passphrase").unwrap().to_bytes(), key.to_bytes());
        assert_eq!(decrypt(&text, "other").unwrap_err(), ArmorError::WrongPassphrase);
        let fault = |text: &str| decrypt(text, "passphrase").unwrap_err();
        assert!(matches!(fault(&text[..text.len() - 5]), ArmorError::Form(_)));
        assert!(matches!(fault(&text[1..]), ArmorError::Form(_)));
        assert!(matches!(fault(&text.replace("salt", "sold")), ArmorError::Form(_)));
        assert!(matches!(fault(&text.replace("argon2", "bcrypt")), ArmorError::Kdf(_)));
        assert!(matches!(fault(&text.replace("eth_secp", "secp")), ArmorError::Type(_)));
    }

    #[test]
    fn checksum_and_amino_prefix_have_the_known_values() {
        // The check value of CRC-24/OPENPGP, and the prefix of a type whose value is well known.
        assert_eq!(crc24(b"123456789"), 0x21cf02);
        assert_eq!(amino_prefix("tendermint/PubKeySecp256k1"), [0xeb, 0x5a, 0xe9, 0x87]);
    }
}
