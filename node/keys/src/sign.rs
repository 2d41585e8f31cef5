//! Signs with a key, and computes the hashes that wallets sign in addition to those of transactions: messages
//! (EIP-191) and typed data (EIP-712).

use super::PrivateKey;
use alloy_dyn_abi::TypedData;
use alloy_primitives::{B256, eip191_hash_message};
use k256::ecdsa::SigningKey;

/// Size of a signature in bytes: r, s and the parity of R's y coordinate, 0 or 1.
pub const SIGNATURE_BYTES: usize = 65;
/// Maximum size of typed data in bytes. Wallets show typed data before it is signed, so it is much smaller.
const MAX_TYPED_DATA_BYTES: usize = 1 << 20;

/// Why typed data cannot be hashed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid typed data: {0}")]
pub struct TypedDataError(String);

impl PrivateKey {
    /// Signs a hash, with the nonce of RFC 6979 and the lower `s` (EIP-2).
    pub fn sign(&self, hash: &B256) -> [u8; SIGNATURE_BYTES] {
        let signed = SigningKey::from(self.secret()).sign_prehash_recoverable(hash.as_slice());
        let (signature, parity) = signed.expect("a digest of 32 bytes can be signed");
        let mut bytes = [0; SIGNATURE_BYTES];
        bytes[..64].copy_from_slice(&signature.to_bytes());
        bytes[64] = parity.to_byte();
        bytes
    }
}

/// Returns the hash of a message with Ethereum's prefix and the length of the message (EIP-191).
pub fn message_hash(message: &[u8]) -> B256 {
    eip191_hash_message(message)
}

/// Returns the hash of typed data in the JSON of EIP-712: `types`, `primaryType`, `domain`, `message`.
///
/// # Errors
/// If the JSON is malformed or above 1 MiB, or its values do not fit its types.
pub fn typed_data_hash(json: &str) -> Result<B256, TypedDataError> {
    if json.len() > MAX_TYPED_DATA_BYTES {
        return Err(TypedDataError(format!("larger than {MAX_TYPED_DATA_BYTES} bytes")));
    }
    let data: TypedData =
        serde_json::from_str(json).map_err(|error| TypedDataError(error.to_string()))?;
    data.eip712_signing_hash().map_err(|error| TypedDataError(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Signature, b256, hex, keccak256};

    #[test]
    fn signatures_recover_to_their_key() {
        for seed in 1..=64_u8 {
            let key = PrivateKey::from_bytes(&[seed; 32]).unwrap();
            let hash = keccak256([seed]);
            let signature = Signature::from_raw_array(&key.sign(&hash)).unwrap();
            assert_eq!(signature.recover_address_from_prehash(&hash).unwrap(), key.address());
            assert!(signature.normalize_s().is_none(), "s is low");
        }
    }

    /// The example in the documentation of web3.js, which other wallets use as well.
    #[test]
    fn message_signature_equals_that_of_wallets() {
        let hash = message_hash(b"Some data");
        let known = b256!("1da44b586eb0729ff70a73c326926f6ed5a25f5b056e7f47fbc6e58d86871655");
        assert_eq!(hash, known);
        let key = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318";
        let signature = PrivateKey::from_hex(key).unwrap().sign(&hash);
        let expected = hex!(
            "b91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd"
            "6007e74cd82e037b800186422fc2da167c747ef045e5d18a5f5d4300f8e1a029" "01"
        );
        assert_eq!(signature, expected);
    }

    #[test]
    fn invalid_typed_data_is_refused() {
        for json in ["", "{}", "[]", r#"{"types":{},"primaryType":"X","domain":{},"message":{}}"#] {
            assert!(typed_data_hash(json).is_err(), "{json}");
        }
    }
}
