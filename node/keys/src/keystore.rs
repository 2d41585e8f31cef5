//! Encrypts and decrypts keystore files of version 3 (Web3 Secret Storage): one private key with a passphrase, as geth,
//! web3.py and ethers write them. Both key derivation functions of the format are supported, scrypt and PBKDF2.

use super::{KeyError, PrivateKey};
use aes::cipher::{KeyIvInit, StreamCipher};
use alloy_primitives::{Address, B256, Keccak256, hex};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::Zeroizing;

type Aes128Ctr = ctr::Ctr128BE<aes::Aes128>;

/// The supported version.
const VERSION: u64 = 3;
/// The only cipher of the format.
const CIPHER: &str = "aes-128-ctr";
/// The only pseudorandom function of PBKDF2 in the format.
const PRF: &str = "hmac-sha256";
/// Number of derived bytes: 16 for the cipher, 16 for the MAC.
const DERIVED_BYTES: usize = 32;
/// Maximum memory that the scrypt parameters of a file may require: four times geth's standard.
const MAX_SCRYPT_BYTES: u64 = 1 << 30;
/// Maximum scrypt work of a file, as N x r x p: eight times geth's standard.
const MAX_SCRYPT_WORK: u64 = 1 << 24;
/// Maximum number of PBKDF2 rounds of a file: ten times that of current wallets.
const MAX_PBKDF2_ROUNDS: u32 = 10_000_000;
/// Number of PBKDF2 rounds of new files, as OWASP recommends for HMAC-SHA-256.
const PBKDF2_ROUNDS: u32 = 600_000;
/// scrypt parameters of new files, log2 N, r and p, as in geth: 256 MiB and about a second.
const SCRYPT_LOG_N: u8 = 18;
const SCRYPT_R: u32 = 8;
const SCRYPT_P: u32 = 1;
/// Length of the salt of new files, in bytes.
const SALT_BYTES: usize = 32;
/// Length of the initial counter, in bytes.
const IV_BYTES: usize = 16;
/// Maximum size of a file in bytes. Usual files have about 500.
pub const MAX_FILE_BYTES: usize = 64 << 10;

/// The function that derives a key from a passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kdf {
    /// scrypt with geth's standard costs.
    Scrypt,
    /// PBKDF2 with HMAC-SHA-256.
    Pbkdf2,
}

/// Why a keystore file cannot be decrypted or created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeystoreError {
    /// The file is too large for a keystore.
    #[error("not a keystore: larger than {MAX_FILE_BYTES} bytes")]
    TooLarge,
    /// The file is truncated, or is not a keystore.
    #[error("not a keystore file: {0}")]
    Json(String),
    /// The version is not supported.
    #[error("keystore version {0} is not supported, want 3")]
    Version(String),
    /// The cipher or function is unknown.
    #[error("keystore names the unknown {0} {1:?}")]
    Unknown(&'static str, String),
    /// A field is out of range.
    #[error("keystore field {0} is out of range")]
    Range(&'static str),
    /// The MAC of the ciphertext is wrong. The two causes cannot be distinguished.
    #[error("wrong passphrase, or the keystore was altered")]
    WrongPassphrase,
    /// The decrypted bytes are not a key.
    #[error("keystore does not contain a valid key: {0}")]
    Key(#[from] KeyError),
    /// The address in the file does not belong to its key.
    #[error("keystore says address {said}, its key has {is}")]
    Address {
        /// The address in the file.
        said: Address,
        /// The address of the key.
        is: Address,
    },
    /// The operating system cannot provide random bytes.
    #[error("no randomness from the operating system: {0}")]
    Random(#[from] getrandom::Error),
}

#[derive(Serialize, Deserialize)]
struct File {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(alias = "Crypto")]
    crypto: Crypto,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    version: serde_json::Value,
}

#[derive(Serialize, Deserialize)]
struct Crypto {
    cipher: String,
    cipherparams: CipherParams,
    ciphertext: String,
    kdf: String,
    kdfparams: serde_json::Value,
    mac: String,
}

#[derive(Serialize, Deserialize)]
struct CipherParams {
    iv: String,
}

#[derive(Serialize, Deserialize)]
struct ScryptParams {
    dklen: u32,
    n: u64,
    r: u32,
    p: u32,
    salt: String,
}

#[derive(Serialize, Deserialize)]
struct Pbkdf2Params {
    c: u32,
    dklen: u32,
    prf: String,
    salt: String,
}

/// Decrypts the text of a keystore file.
///
/// # Errors
/// States what is wrong with the file. A wrong passphrase and an altered file are the same error.
pub fn decrypt(text: &str, passphrase: &str) -> Result<PrivateKey, KeystoreError> {
    if text.len() > MAX_FILE_BYTES {
        return Err(KeystoreError::TooLarge);
    }
    let head: serde_json::Value = parse(text)?;
    match head.get("version") {
        Some(version) if version.as_u64() == Some(VERSION) => {}
        Some(version) => return Err(KeystoreError::Version(version.to_string())),
        None => return Err(KeystoreError::Json("no version".to_owned())),
    }
    let file: File = parse(text)?;
    let crypto = file.crypto;
    if crypto.cipher != CIPHER {
        return Err(KeystoreError::Unknown("cipher", crypto.cipher));
    }
    let iv: [u8; IV_BYTES] = fixed("iv", &crypto.cipherparams.iv)?;
    let mac: [u8; 32] = fixed("mac", &crypto.mac)?;
    let mut bytes = Zeroizing::new(decode("ciphertext", &crypto.ciphertext)?);
    if bytes.is_empty() || bytes.len() > super::PRIVATE_KEY_BYTES {
        return Err(KeystoreError::Range("ciphertext"));
    }
    let derived = derive(&crypto.kdf, &crypto.kdfparams, passphrase)?;
    if compute_mac(&derived, &bytes) != B256::from(mac) {
        return Err(KeystoreError::WrongPassphrase);
    }
    cipher(&derived, iv).apply_keystream(&mut bytes);
    // Some programs omit leading zero bytes of a key.
    let mut padded = Zeroizing::new([0; super::PRIVATE_KEY_BYTES]);
    padded[super::PRIVATE_KEY_BYTES - bytes.len()..].copy_from_slice(&bytes);
    let key = PrivateKey::from_bytes(padded.as_ref())?;
    match file.address.as_deref().filter(|text| !text.is_empty()) {
        Some(text) => {
            let said = Address::from(fixed::<20>("address", text)?);
            let is = key.address();
            if said == is { Ok(key) } else { Err(KeystoreError::Address { said, is }) }
        }
        None => Ok(key),
    }
}

/// Encrypts a key to the text of a keystore file.
///
/// # Errors
/// If there are no random bytes.
pub fn encrypt(key: &PrivateKey, passphrase: &str, kdf: Kdf) -> Result<String, KeystoreError> {
    let (mut salt, mut iv, mut id) = ([0; SALT_BYTES], [0; IV_BYTES], [0; 16]);
    getrandom::fill(&mut salt)?;
    getrandom::fill(&mut iv)?;
    getrandom::fill(&mut id)?;
    let salt = hex::encode(salt);
    let dklen = u32::try_from(DERIVED_BYTES).expect("32 fits");
    let (name, params) = match kdf {
        Kdf::Scrypt => {
            let n = 1 << SCRYPT_LOG_N;
            let params = ScryptParams { dklen, n, r: SCRYPT_R, p: SCRYPT_P, salt };
            ("scrypt", serde_json::to_value(params))
        }
        Kdf::Pbkdf2 => {
            let prf = PRF.to_owned();
            let params = Pbkdf2Params { c: PBKDF2_ROUNDS, dklen, prf, salt };
            ("pbkdf2", serde_json::to_value(params))
        }
    };
    let kdfparams = params.expect("numbers and strings are JSON");
    let derived = derive(name, &kdfparams, passphrase)?;
    let mut bytes = key.to_bytes();
    cipher(&derived, iv).apply_keystream(bytes.as_mut());
    let file = File {
        address: Some(hex::encode(key.address())),
        crypto: Crypto {
            cipher: CIPHER.to_owned(),
            cipherparams: CipherParams { iv: hex::encode(iv) },
            ciphertext: hex::encode(*bytes),
            kdf: name.to_owned(),
            kdfparams,
            mac: hex::encode(compute_mac(&derived, bytes.as_ref())),
        },
        id: Some(uuid(id)),
        version: VERSION.into(),
    };
    Ok(serde_json::to_string(&file).expect("numbers and strings are JSON"))
}

fn derive(
    kdf: &str,
    params: &serde_json::Value,
    passphrase: &str,
) -> Result<Zeroizing<[u8; DERIVED_BYTES]>, KeystoreError> {
    let mut derived = Zeroizing::new([0; DERIVED_BYTES]);
    match kdf {
        "scrypt" => {
            let params = ScryptParams::deserialize(params).map_err(json_error)?;
            let salt = salt(&params.salt, params.dklen)?;
            let costs = scrypt_costs(params.n, params.r, params.p)?;
            scrypt::scrypt(passphrase.as_bytes(), &salt, &costs, derived.as_mut())
                .expect("32 bytes are a valid length");
        }
        "pbkdf2" => {
            let params = Pbkdf2Params::deserialize(params).map_err(json_error)?;
            let salt = salt(&params.salt, params.dklen)?;
            if params.prf != PRF {
                return Err(KeystoreError::Unknown("prf", params.prf));
            }
            if !(1..=MAX_PBKDF2_ROUNDS).contains(&params.c) {
                return Err(KeystoreError::Range("c"));
            }
            let passphrase = passphrase.as_bytes();
            pbkdf2::pbkdf2_hmac::<Sha256>(passphrase, &salt, params.c, derived.as_mut());
        }
        other => return Err(KeystoreError::Unknown("kdf", other.to_owned())),
    }
    Ok(derived)
}

/// Decodes the salt, and checks the derived length. Only the first 32 derived bytes are used, and in both functions
/// they do not depend on the length.
fn salt(text: &str, dklen: u32) -> Result<Vec<u8>, KeystoreError> {
    if (dklen as usize) < DERIVED_BYTES {
        return Err(KeystoreError::Range("dklen"));
    }
    decode("salt", text)
}

fn scrypt_costs(n: u64, r: u32, p: u32) -> Result<scrypt::Params, KeystoreError> {
    if n < 2 || !n.is_power_of_two() {
        return Err(KeystoreError::Range("n"));
    }
    let block_bytes = u64::from(r).checked_mul(128).filter(|&bytes| bytes > 0);
    let bytes = block_bytes.and_then(|bytes| bytes.checked_mul(n.max(u64::from(p))));
    if bytes.is_none_or(|bytes| bytes > MAX_SCRYPT_BYTES) {
        return Err(KeystoreError::Range("r"));
    }
    let work = n.checked_mul(u64::from(r)).and_then(|work| work.checked_mul(u64::from(p)));
    if p == 0 || work.is_none_or(|work| work > MAX_SCRYPT_WORK) {
        return Err(KeystoreError::Range("p"));
    }
    let log_n = u8::try_from(n.trailing_zeros()).expect("a u64 has 64 bits");
    scrypt::Params::new(log_n, r, p).map_err(|_| KeystoreError::Range("n"))
}

fn cipher(derived: &[u8; DERIVED_BYTES], iv: [u8; IV_BYTES]) -> Aes128Ctr {
    let key: [u8; 16] = derived[..16].try_into().expect("16 of 32 bytes");
    Aes128Ctr::new(&key.into(), &iv.into())
}

/// Returns the MAC: Keccak-256 of the second half of the derived bytes and the ciphertext.
fn compute_mac(derived: &[u8; DERIVED_BYTES], ciphertext: &[u8]) -> B256 {
    let mut hash = Keccak256::new();
    hash.update(&derived[16..]);
    hash.update(ciphertext);
    hash.finalize()
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, KeystoreError> {
    serde_json::from_str(text).map_err(json_error)
}

fn json_error(error: serde_json::Error) -> KeystoreError {
    KeystoreError::Json(error.to_string())
}

fn decode(field: &'static str, text: &str) -> Result<Vec<u8>, KeystoreError> {
    hex::decode(text).map_err(|_| KeystoreError::Range(field))
}

fn fixed<const N: usize>(field: &'static str, text: &str) -> Result<[u8; N], KeystoreError> {
    decode(field, text)?.try_into().map_err(|_| KeystoreError::Range(field))
}

/// Creates a random UUID (RFC 9562, version 4) from 16 random bytes.
fn uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = hex::encode(bytes);
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSPHRASE: &str = "testpassword";
    const KEY: &str = "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d";
    /// The examples of the format's specification.
    const PBKDF2: &str = r#"{"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"6087dab2f9fdbbfaddc31a909735c1e6"},"ciphertext":"5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46","kdf":"pbkdf2","kdfparams":{"c":262144,"dklen":32,"prf":"hmac-sha256","salt":"ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"},"mac":"517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"},"id":"3198bc9c-6672-5ab3-d995-4942343ae5b6","version":3}"#;
    const SCRYPT: &str = r#"{"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"83dbcc02d8ccb40e466191a123791e0e"},"ciphertext":"d172bf743a674da9cdad04534d56926ef8358534d458fffccd4e6ad2fbde479c","kdf":"scrypt","kdfparams":{"dklen":32,"n":262144,"r":1,"p":8,"salt":"ab0c7876052600dd703518d6fc3fe8984592145b591fc8fb5c6d43190334ba19"},"mac":"2103ac29920d71da29f15d75b4a16dbe95cfd7ff8faea1056c33131d846e3097"},"id":"3198bc9c-6672-5ab3-d995-4942343ae5b6","version":3}"#;

    #[test]
    fn examples_of_the_specification_are_decrypted() {
        for file in [PBKDF2, SCRYPT] {
            let key = decrypt(file, PASSPHRASE).unwrap();
            assert_eq!(hex::encode(*key.to_bytes()), KEY);
            assert_eq!(decrypt(file, "wrong").unwrap_err(), KeystoreError::WrongPassphrase);
        }
    }

    #[test]
    fn encrypted_keys_are_decrypted() {
        let key = PrivateKey::from_hex(KEY).unwrap();
        for kdf in [Kdf::Scrypt, Kdf::Pbkdf2] {
            let file = encrypt(&key, "päss", kdf).unwrap();
            assert_eq!(decrypt(&file, "päss").unwrap().to_bytes(), key.to_bytes());
        }
    }

    #[test]
    fn truncated_and_altered_files_are_refused() {
        // Every shorter text is malformed JSON, which is detected before any key derivation.
        for end in (0..PBKDF2.len()).step_by(7) {
            let error = decrypt(&PBKDF2[..end], PASSPHRASE).unwrap_err();
            assert!(matches!(error, KeystoreError::Json(_)), "{end}: {error}");
        }
        let altered = |from: &str, to: &str| {
            assert!(PBKDF2.contains(from), "{from}");
            decrypt(&PBKDF2.replace(from, to), PASSPHRASE).unwrap_err()
        };
        assert_eq!(altered("\"5318", "\"5319"), KeystoreError::WrongPassphrase);
        assert_eq!(altered("\"517e", "\"517f"), KeystoreError::WrongPassphrase);
        assert_eq!(altered("262144", "0"), KeystoreError::Range("c"));
        assert_eq!(altered("262144", "4000000000"), KeystoreError::Range("c"));
        assert_eq!(
            altered("\"version\":3", "\"version\":\"1\"").to_string(),
            "keystore version \"1\" is not supported, want 3"
        );
        assert!(matches!(altered("aes-128-ctr", "aes-128-cbc"), KeystoreError::Unknown(..)));
        assert!(matches!(altered("pbkdf2", "md5"), KeystoreError::Unknown(..)));
        assert_eq!(altered("\"6087", "\"60"), KeystoreError::Range("iv"));
        assert_eq!(altered("\"dklen\":32", "\"dklen\":16"), KeystoreError::Range("dklen"));
        let other = format!("{{\"address\":\"{}\",{}", "11".repeat(20), &PBKDF2[1..]);
        assert!(matches!(decrypt(&other, PASSPHRASE), Err(KeystoreError::Address { .. })));
    }

    /// geth's test vectors of keys without their leading zero bytes (`v3_test_vector.json`).
    const KEY_OF_31_BYTES: &str = r#"{"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"e0c41130a323adc1446fc82f724bca2f"},"ciphertext":"9517cd5bdbe69076f9bf5057248c6c050141e970efa36ce53692d5d59a3984","kdf":"scrypt","kdfparams":{"dklen":32,"n":2,"r":8,"p":1,"salt":"711f816911c92d649fb4c84b047915679933555030b3552c1212609b38208c63"},"mac":"d5e116151c6aa71470e67a7d42c9620c75c4d23229847dcc127794f0732b0db5"},"id":"fecfc4ce-e956-48fd-953b-30f8b52ed66c","version":3}"#;
    const KEY_OF_30_BYTES: &str = r#"{"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"3ca92af36ad7c2cd92454c59cea5ef00"},"ciphertext":"108b7d34f3442fc26ab1ab90ca91476ba6bfa8c00975a49ef9051dc675aa","kdf":"scrypt","kdfparams":{"dklen":32,"n":2,"r":8,"p":1,"salt":"d0769e608fb86cda848065642a9c6fa046845c928175662b8e356c77f914cd3b"},"mac":"75d0e6759f7b3cefa319c3be41680ab6beea7d8328653474bd06706d4cc67420"},"id":"a37e1559-5955-450d-8075-7b8931b392b2","version":3}"#;
    const SHORT_KEY_PASSPHRASE: &str = "foo";

    #[test]
    fn short_keys_are_padded_with_leading_zeros() {
        for (file, key) in [
            (KEY_OF_31_BYTES, "00fa7b3db73dc7dfdf8c5fbdb796d741e4488628c41fc4febd9160a866ba0f35"),
            (KEY_OF_30_BYTES, "000081c29e8142bb6a81bef5a92bda7a8328a5c85bb2f9542e76f9b0f94fc018"),
        ] {
            let opened = decrypt(file, SHORT_KEY_PASSPHRASE).unwrap();
            assert_eq!(hex::encode(*opened.to_bytes()), key);
        }
    }

    #[test]
    fn every_byte_of_the_mac_is_compared() {
        let mac = "d5e116151c6aa71470e67a7d42c9620c75c4d23229847dcc127794f0732b0db5";
        for byte in 0..32 {
            let mut altered = hex::decode(mac).unwrap();
            altered[byte] ^= 1;
            let file = KEY_OF_31_BYTES.replace(mac, &hex::encode(altered));
            let error = decrypt(&file, SHORT_KEY_PASSPHRASE).unwrap_err();
            assert_eq!(error, KeystoreError::WrongPassphrase, "byte {byte}");
        }
    }

    #[test]
    fn derived_length_is_at_least_32_bytes() {
        for (dklen, is_accepted) in [(0, false), (31, false), (32, true), (33, true), (64, true)] {
            let field = format!("\"dklen\":{dklen}");
            let file = KEY_OF_31_BYTES.replace("\"dklen\":32", &field);
            let refused = decrypt(&file, SHORT_KEY_PASSPHRASE).err();
            let expected = (!is_accepted).then_some(KeystoreError::Range("dklen"));
            assert_eq!(refused, expected, "{field}");
        }
    }

    #[test]
    fn ciphertext_has_1_to_32_bytes() {
        let whole = "9517cd5bdbe69076f9bf5057248c6c050141e970efa36ce53692d5d59a3984";
        for (bytes, is_in_range) in [(0, false), (1, true), (32, true), (33, false)] {
            let file = KEY_OF_31_BYTES.replace(whole, &"95".repeat(bytes));
            let error = decrypt(&file, SHORT_KEY_PASSPHRASE).unwrap_err();
            // Only the MAC detects a wrong length that is in range.
            let expected = match is_in_range {
                true => KeystoreError::WrongPassphrase,
                false => KeystoreError::Range("ciphertext"),
            };
            assert_eq!(error, expected, "{bytes} bytes");
        }
    }

    #[test]
    fn costs_are_bounded() {
        for (n, r, p) in [(0, 8, 1), (3, 8, 1), (1 << 24, 8, 1), (1 << 60, 8, 1), (2, 0, 1)] {
            assert!(scrypt_costs(n, r, p).is_err(), "{n} {r} {p}");
        }
        for (n, r, p) in [(2, 8, 0), (2, 8, u32::MAX), (1 << 18, 8, 9), (2, u32::MAX, 1)] {
            assert!(scrypt_costs(n, r, p).is_err(), "{n} {r} {p}");
        }
        assert!(scrypt_costs(1 << 18, 8, 1).is_ok());
    }
}
