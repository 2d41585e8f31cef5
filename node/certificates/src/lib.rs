//! Certificates of blocks: signatures of a producer or of validators, which replicas check without executing blocks.
//!
//! - [`SecretKey`], [`PublicKey`]: ed25519 keys (RFC 8032).
//! - [`Certificate`]: the proof of one block: the signature of a producer, or a [`Finalization`] of validators. It also
//!   covers the ancestors of the block, because the hash of the block commits to them.
//! - [`Term`]: a signed change of the producer at a height. Blocks that the previous producer makes above that
//!   height have no valid certificate.
//! - [`Authority`]: the keys of a chain, by height.
//!
//! All signatures cover the genesis hash, because two chains can share a chain ID. The reasons are in ADR 0035.

mod authority;
mod certificate;
mod finalization;
mod key;
mod term;

pub use authority::{Authority, AuthorityError};
pub use certificate::{Certificate, CertificateError, ProducerCertificate};
pub use finalization::{Finalization, MAX_SIGNERS, quorum};
pub use key::{KeyError, PublicKey, SECRET_KEY_BYTES, SecretKey};
pub use term::{Signer, Term};

/// A block that a signature names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct BlockId {
    /// Its number.
    pub number: u64,
    /// The Keccak-256 of its header.
    pub hash: alloy_primitives::B256,
}
