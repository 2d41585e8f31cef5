//! Certificates of blocks, their encoding, and what a producer signs.

use super::{BlockId, Finalization, PublicKey, SecretKey, key::SIGNATURE_BYTES};
use alloy_primitives::B256;

/// Domain separator at the start of the signed message.
const CONTEXT: &[u8] = b"evmd block certificate 1";
/// The kind of certificate with one ed25519 signature, that of a producer.
const ONE_SIGNATURE: u8 = 1;
/// The kind of certificate with the signatures of a quorum of validators.
const FINALIZATION: u8 = 2;
/// Size of a certificate of a producer in bytes: kind, term and signature.
const PRODUCER_BYTES: usize = 1 + 8 + SIGNATURE_BYTES;

/// Why a certificate does not prove a block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The bytes have another length.
    #[error(
        "a certificate of a producer has {PRODUCER_BYTES} bytes, and one of validators 89 and 64 for each that signed; got {0} bytes"
    )]
    Length(usize),
    /// The kind is unknown.
    #[error(
        "certificates of kind {0} are unknown to this program, which knows the kinds {ONE_SIGNATURE} and {FINALIZATION}; use a newer evmd"
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
    /// The signatures are not those of a quorum of the validators for this block.
    #[error(
        "the certificate of block {number} ({hash}) is not signed by a quorum of the {validators} validators of the genesis"
    )]
    Quorum {
        /// The block.
        number: u64,
        /// Its hash.
        hash: B256,
        /// The number of validators.
        validators: usize,
    },
    /// A certificate of validators on a chain with a producer, or the reverse.
    #[error(
        "block {number} has a certificate of {found}, but blocks of this chain are certified by {expected}"
    )]
    OtherKind {
        /// The block.
        number: u64,
        /// The kind of signer in the certificate.
        found: &'static str,
        /// The kind of signer of this chain.
        expected: &'static str,
    },
}

/// Proves a block, and with it all its ancestors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// The signature of a producer.
    Producer(ProducerCertificate),
    /// The decision of validators.
    Validators(Finalization),
}

impl Certificate {
    /// Returns the bytes that are stored and sent.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Producer(certificate) => certificate.encode().to_vec(),
            Self::Validators(finalization) => {
                let mut bytes = vec![FINALIZATION];
                finalization.encode_to(&mut bytes);
                bytes
            }
        }
    }

    /// Reads what [`Self::encode`] writes.
    ///
    /// # Errors
    /// [`CertificateError::Length`] and [`CertificateError::Kind`].
    pub fn decode(bytes: &[u8]) -> Result<Self, CertificateError> {
        let wrong = || CertificateError::Length(bytes.len());
        let (kind, content) = bytes.split_first().ok_or_else(wrong)?;
        match *kind {
            ONE_SIGNATURE => {
                ProducerCertificate::decode(content).map(Self::Producer).ok_or_else(wrong)
            }
            FINALIZATION => Finalization::decode(content).map(Self::Validators).ok_or_else(wrong),
            kind => Err(CertificateError::Kind(kind)),
        }
    }

    /// Returns the producer term, which is 0 for validators.
    pub const fn term(&self) -> u64 {
        match self {
            Self::Producer(certificate) => certificate.term,
            Self::Validators(_) => 0,
        }
    }
}

/// Proves that the producer of a term made a block, and with it all its ancestors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerCertificate {
    /// The producer term, from 0.
    pub term: u64,
    /// The signature of the producer.
    pub signature: [u8; SIGNATURE_BYTES],
}

impl ProducerCertificate {
    /// Signs a block of the chain with this genesis hash.
    pub fn sign(key: &SecretKey, genesis: B256, term: u64, block: BlockId) -> Self {
        Self { term, signature: key.sign(&message(genesis, term, block)) }
    }

    /// Returns whether this is the signature of `key` for the block.
    pub fn is_signed_by(&self, key: &PublicKey, genesis: B256, block: BlockId) -> bool {
        key.verifies(&message(genesis, self.term, block), &self.signature)
    }

    fn encode(&self) -> [u8; PRODUCER_BYTES] {
        let mut bytes = [0; PRODUCER_BYTES];
        bytes[0] = ONE_SIGNATURE;
        bytes[1..9].copy_from_slice(&self.term.to_be_bytes());
        bytes[9..].copy_from_slice(&self.signature);
        bytes
    }

    /// Reads the term and the signature.
    fn decode(content: &[u8]) -> Option<Self> {
        let (term, signature) = content.split_first_chunk()?;
        Some(Self { term: u64::from_be_bytes(*term), signature: signature.try_into().ok()? })
    }
}

/// Returns the signed message.
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
        let certificate = ProducerCertificate::sign(&key, GENESIS, 2, BLOCK);
        let public = key.public();
        assert!(certificate.is_signed_by(&public, GENESIS, BLOCK));
        let others = [
            (certificate, B256::repeat_byte(2), BLOCK),
            (certificate, GENESIS, BlockId { number: 8, ..BLOCK }),
            (certificate, GENESIS, BlockId { hash: B256::repeat_byte(8), ..BLOCK }),
            (ProducerCertificate { term: 3, ..certificate }, GENESIS, BLOCK),
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
        let certificate = ProducerCertificate::sign(&key, GENESIS, u64::MAX, BLOCK);
        let bytes = certificate.encode();
        assert_eq!(Certificate::decode(&bytes), Ok(Certificate::Producer(certificate)));
        assert_eq!(Certificate::Producer(certificate).encode(), bytes);
        let long = [&bytes[..], &[0]].concat();
        for bytes in [&bytes[..PRODUCER_BYTES - 1], &long, &[]] {
            assert_eq!(Certificate::decode(bytes), Err(CertificateError::Length(bytes.len())));
        }
        let mut kind = bytes;
        kind[0] = 3;
        assert_eq!(Certificate::decode(&kind), Err(CertificateError::Kind(3)));
        // The bytes of one kind are not those of the other.
        kind[0] = FINALIZATION;
        assert_eq!(Certificate::decode(&kind), Err(CertificateError::Length(PRODUCER_BYTES)));
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
