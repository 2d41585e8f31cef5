//! Creates and checks proofs that a producer or validators made a block, for programs that have no node.

use super::{Home, HomeError, stored_authority};
use alloy_consensus::Header;
use alloy_primitives::Bytes;
use alloy_rlp::Decodable;
use certificates::{Authority, AuthorityError, BlockId, Certificate, CertificateError, Term};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Maximum number of headers in a proof. More than one is needed for blocks that were imported, or produced before the
/// producer had a key.
pub const MAX_PROOF_HEADERS: u64 = 10_000;

/// Why a proof of a block cannot be made, or is not valid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// Neither the block nor a later one is signed.
    #[error("no block from {0} on is signed")]
    NotSigned(u64),
    /// The next signed block is too far away.
    #[error(
        "the next signed block is {signed}: a proof of block {number} would have more than {MAX_PROOF_HEADERS} headers"
    )]
    TooLong {
        /// The block.
        number: u64,
        /// The next signed block.
        signed: u64,
    },
    /// The block does not exist.
    #[error("there is no block {0}")]
    NoBlock(u64),
    /// The proof is empty.
    #[error("the proof has no header")]
    Empty,
    /// A header cannot be decoded.
    #[error("a header is damaged: {0}")]
    Header(alloy_rlp::Error),
    /// A header is not that of the next block.
    #[error("block {number} does not follow block {} {}", parent.number, parent.hash)]
    Order {
        /// The number in the header.
        number: u64,
        /// The block before it in the proof.
        parent: BlockId,
    },
    /// A producer term is not valid.
    #[error(transparent)]
    Term(#[from] AuthorityError),
    /// The certificate is not valid.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The home folder cannot be read.
    #[error(transparent)]
    Home(#[from] HomeError),
}

/// A proof of a block.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BlockProof {
    /// The headers in RLP from the block on, up to the one that is signed.
    headers: Vec<Bytes>,
    /// The certificate of the last of them.
    certificate: Bytes,
    /// The producer terms from 1 on.
    terms: Vec<Term>,
}

impl BlockProof {
    /// Reads the proof of a block of a home folder. Its node may be running.
    ///
    /// # Errors
    /// [`ProofError`].
    pub fn of(home: &Path, number: u64) -> Result<Self, ProofError> {
        let (chain, _) = Home::attach(home)?;
        let blocks = chain.reader().map_err(HomeError::from)?;
        let certificate = blocks.certificate_from(number).map_err(HomeError::from)?;
        let (signed, certificate) = certificate.ok_or(ProofError::NotSigned(number))?;
        if signed - number >= MAX_PROOF_HEADERS {
            return Err(ProofError::TooLong { number, signed });
        }
        let header = |number| {
            let found = blocks.header(number).map_err(HomeError::from)?;
            found.map(|(_, header)| header).ok_or(ProofError::NoBlock(number))
        };
        let headers = (number..=signed).map(header).collect::<Result<_, ProofError>>()?;
        let authority = stored_authority(&chain, home)?;
        let terms = authority.map(|authority| authority.terms().to_vec()).unwrap_or_default();
        Ok(Self { headers, certificate, terms })
    }

    /// Returns the header of the block, which [`Self::check`] proves.
    ///
    /// # Errors
    /// [`ProofError::Empty`] and [`ProofError::Header`].
    pub fn header(&self) -> Result<Header, ProofError> {
        let first = self.headers.first().ok_or(ProofError::Empty)?;
        Header::decode(&mut first.as_ref()).map_err(ProofError::Header)
    }

    /// Checks the proof. `trusted` has the keys of the genesis, without terms. Returns the block that is proved.
    ///
    /// # Errors
    /// [`ProofError`].
    pub fn check(&self, mut trusted: Authority) -> Result<BlockId, ProofError> {
        for term in &self.terms {
            trusted.add(*term)?;
        }
        let mut ends: Option<(BlockId, BlockId)> = None;
        for bytes in &self.headers {
            let header = Header::decode(&mut bytes.as_ref()).map_err(ProofError::Header)?;
            // The hash is computed from the decoded header, so that trailing bytes are not part of it.
            let block = BlockId { number: header.number, hash: header.hash_slow() };
            trusted.check_term_start(block)?;
            let Some((first, parent)) = ends else {
                ends = Some((block, block));
                continue;
            };
            if Some(block.number) != parent.number.checked_add(1)
                || header.parent_hash != parent.hash
            {
                return Err(ProofError::Order { number: block.number, parent });
            }
            ends = Some((first, block));
        }
        let (first, last) = ends.ok_or(ProofError::Empty)?;
        trusted.verify(last, &Certificate::decode(&self.certificate)?)?;
        Ok(first)
    }
}
