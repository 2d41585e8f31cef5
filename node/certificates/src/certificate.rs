//! The signature for a block.

use super::{BlockId, PublicKey, SecretKey, key::SIGNATURE_BYTES};
use alloy_primitives::B256;

/// Domain separator at the start of the signed message.
const CONTEXT: &[u8] = b"evmd block certificate 1";
/// The kind of certificate with one ed25519 signature. The number is in the row, so that a later version can
/// store certificates of several validators.
const ONE_SIGNATURE: u8 = 1;
/// Size of a certificate in bytes: kind, term and signature.
pub const CERTIFICATE_BYTES: usize = 1 + 8 + SIGNATURE_BYTES;

/// Why a certificate does not prove a block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The bytes have another length.
    #[error("a certificate has {CERTIFICATE_BYTES} bytes, got {0}")]
    Length(usize),
    /// The kind is unknown.
    #[error(
        "certificates of kind {0} are unknown to this program, which knows kind {ONE_SIGNATURE}; use a newer evmd"
    )]
    Kind(u8),
    /// The term of the certificate is unknown.
    #[error(
        "block {number} has a certificate of producer term {term}; the newest known term is {newest}"
    )]
    UnknownTerm {
        /// The block.
        number: u64,
        /// The term in the certificate.
        term: u64,
        /// The newest term.
        newest: u64,
    },
    /// The producer of the term may not make a block at this height.
    #[error(
        "block {number} has a certificate of producer term {term}, but term {expected} is in force at this height"
    )]
    OtherTerm {
        /// The block.
        number: u64,
        /// The term in the certificate.
        term: u64,
        /// The term at the height.
        expected: u64,
    },
    /// A producer term says that the chain continues after another block of this height.
    #[error("block {number} is {hash}, but producer term {term} starts after {expected}")]
    OtherBlock {
        /// The block.
        number: u64,
        /// Its hash.
        hash: B256,
        /// The term that starts after it.
        term: u64,
        /// The hash in the term.
        expected: B256,
    },
    /// The signature is not one of the producer for this block.
    #[error("the certificate of block {number} ({hash}) is not signed by the producer key {key}")]
    Signature {
        /// The block.
        number: u64,
        /// Its hash.
        hash: B256,
        /// The public key of the term.
        key: B256,
    },
}

/// Proves that the producer of a term made a block, and with it all its ancestors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The producer term, from 0.
    pub term: u64,
    /// The signature of the producer.
    pub signature: [u8; SIGNATURE_BYTES],
}

impl Certificate {
    /// Signs a block of the chain with this genesis hash.
    pub fn sign(key: &SecretKey, genesis: B256, term: u64, block: BlockId) -> Self {
        Self { term, signature: key.sign(&message(genesis, term, block)) }
    }

    /// Returns whether this is the signature of `key` for the block.
    pub fn is_signed_by(&self, key: &PublicKey, genesis: B256, block: BlockId) -> bool {
        key.verifies(&message(genesis, self.term, block), &self.signature)
    }

    /// Returns the bytes that are stored and sent.
    pub fn encode(&self) -> [u8; CERTIFICATE_BYTES] {
        let mut bytes = [0; CERTIFICATE_BYTES];
        bytes[0] = ONE_SIGNATURE;
        bytes[1..9].copy_from_slice(&self.term.to_be_bytes());
        bytes[9..].copy_from_slice(&self.signature);
        bytes
    }

    /// Reads what [`Self::encode`] writes.
    ///
    /// # Errors
    /// [`CertificateError::Length`] and [`CertificateError::Kind`].
    pub fn decode(bytes: &[u8]) -> Result<Self, CertificateError> {
        if let Some(kind) = bytes.first().filter(|kind| **kind != ONE_SIGNATURE) {
            return Err(CertificateError::Kind(*kind));
        }
        let wrong = || CertificateError::Length(bytes.len());
        let bytes: &[u8; CERTIFICATE_BYTES] = bytes.try_into().map_err(|_| wrong())?;
        let (term, signature) = bytes[1..].split_first_chunk().expect("longer than the term");
        let signature = signature.try_into().expect("the rest of the fixed length");
        Ok(Self { term: u64::from_be_bytes(*term), signature })
    }
}

/// What is signed.
fn message(genesis: B256, term: u64, block: BlockId) -> Vec<u8> {
    let (term, number) = (term.to_be_bytes(), block.number.to_be_bytes());
    [CONTEXT, genesis.as_slice(), &term, &number, block.hash.as_slice()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: BlockId = BlockId { number: 7, hash: B256::repeat_byte(7) };
    const GENESIS: B256 = B256::repeat_byte(1);

    #[test]
    fn each_part_is_signed() {
        let key = SecretKey::from_bytes(&[3; 32]);
        let certificate = Certificate::sign(&key, GENESIS, 2, BLOCK);
        let public = key.public();
        assert!(certificate.is_signed_by(&public, GENESIS, BLOCK));
        let others = [
            (certificate, B256::repeat_byte(2), BLOCK),
            (certificate, GENESIS, BlockId { number: 8, ..BLOCK }),
            (certificate, GENESIS, BlockId { hash: B256::repeat_byte(8), ..BLOCK }),
            (Certificate { term: 3, ..certificate }, GENESIS, BLOCK),
        ];
        for (certificate, genesis, block) in others {
            assert!(!certificate.is_signed_by(&public, genesis, block), "{genesis} {block:?}");
        }
        let other = SecretKey::from_bytes(&[4; 32]).public();
        assert!(!certificate.is_signed_by(&other, GENESIS, BLOCK));
    }

    #[test]
    fn encoding_has_one_form() {
        let key = SecretKey::from_bytes(&[3; 32]);
        let certificate = Certificate::sign(&key, GENESIS, u64::MAX, BLOCK);
        let bytes = certificate.encode();
        assert_eq!(Certificate::decode(&bytes), Ok(certificate));
        let long = [&bytes[..], &[0]].concat();
        for bytes in [&bytes[..CERTIFICATE_BYTES - 1], &long, &[]] {
            assert_eq!(Certificate::decode(bytes), Err(CertificateError::Length(bytes.len())));
        }
        let mut kind = bytes;
        kind[0] = 2;
        assert_eq!(Certificate::decode(&kind), Err(CertificateError::Kind(2)));
    }

    /// A change of the signed text would make all stored certificates invalid.
    #[test]
    fn the_signed_text_is_as_documented() {
        let text = message(GENESIS, 2, BLOCK);
        assert_eq!(text.len(), CONTEXT.len() + 32 + 8 + 8 + 32);
        assert!(text.starts_with(b"evmd block certificate 1\x01\x01"));
        assert_eq!(text[56..72], [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(text[72..], [7; 32]);
    }
}
