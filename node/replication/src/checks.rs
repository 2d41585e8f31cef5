//! Checks a received block before it reaches the pipeline: its position in the chain, its certificate, and the senders
//! of its transactions.

use crate::{
    encoding::{BlockDecodingError, Decoded, decode, decode_header},
    terms::Terms,
};
use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes};
use certificates::{BlockId, Certificate, CertificateError};
use chain::{ChainSpec, RulesVersion, block::Block};
use config::Verification;
use pipeline::{ReceivedParts, RecoveredTxs, recover_body};
use std::sync::{Arc, Mutex, PoisonError};
use transactions::Senders;
use verify::{Backend, Recoverer};

/// Maximum number of consecutive blocks without a certificate that are held until one arrives.
pub(crate) const MAX_UNCERTIFIED_BLOCKS: usize = 32;

/// A whole block, whose results are not decoded yet.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) id: BlockId,
    pub(crate) header: Header,
    /// The certificate, if the block has one. It has been verified.
    pub(crate) certificate: Option<Bytes>,
    pub(crate) results: bytes::Bytes,
}

/// Why a received block was refused. The source is at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CheckError {
    /// The block cannot be decoded.
    #[error("block {number}: {source}")]
    Decoding {
        /// The block that was expected.
        number: u64,
        /// What is wrong.
        source: BlockDecodingError,
    },
    /// The pieces do not form a block.
    #[error("the source sent {0}")]
    Sequence(&'static str),
    /// The block is too large.
    #[error("block {number} has more than {} bytes", crate::MAX_ENCODED_BYTES)]
    TooLarge {
        /// The block.
        number: u64,
    },
    /// Too many blocks have no certificate.
    #[error(
        "the {blocks} blocks from block {first} on have no certificate, and at most {} are held: restore a snapshot of a \
         later block if the chain has such blocks",
        MAX_UNCERTIFIED_BLOCKS
    )]
    Uncertified {
        /// The first of them.
        first: u64,
        /// Their number.
        blocks: usize,
    },
    /// The block is not the next one.
    #[error("block {number} was sent, but block {expected} was expected")]
    Number {
        /// The number in the header.
        number: u64,
        /// The number of the next block.
        expected: u64,
    },
    /// The block does not follow the one before it.
    #[error("block {number} has the parent {parent}, but the block before it is {expected}")]
    Parent {
        /// The number in the header.
        number: u64,
        /// The parent in the header.
        parent: B256,
        /// The hash of the block before it.
        expected: B256,
    },
    /// The certificate is not valid.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The sender of a transaction is not its signer.
    #[error(
        "block {number}: the sender of transaction {index} is {found}, but its signer is {expected}"
    )]
    Sender {
        /// The block.
        number: u64,
        /// Position of the transaction.
        index: usize,
        /// The sender that was sent.
        found: Address,
        /// The signer.
        expected: Address,
    },
}

/// A block that may be sent to the pipeline.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) id: BlockId,
    pub(crate) block: Block,
    pub(crate) txs: RecoveredTxs,
    /// `None` if the block is to be executed.
    pub(crate) parts: Option<ReceivedParts>,
    pub(crate) certificate: Option<Bytes>,
    /// The size of the encoded results in bytes.
    pub(crate) bytes: usize,
}

/// Checks blocks, on any thread.
#[derive(Debug)]
pub(crate) struct Checks {
    spec: Arc<ChainSpec>,
    terms: Arc<Terms>,
    backend: Backend,
    verification: Verification,
    /// Added to block numbers, so that a source does not know which blocks are verified.
    offset: u64,
    /// Recoverers that are not in use.
    idle: Mutex<Vec<Senders>>,
}

impl Checks {
    pub(crate) fn new(
        spec: Arc<ChainSpec>,
        terms: Arc<Terms>,
        backend: Backend,
        verification: Verification,
    ) -> Self {
        let mut offset = [0; 8];
        // Without randomness a source can predict which blocks are verified, and nothing else changes.
        let _ = getrandom::fill(&mut offset);
        let offset = u64::from_le_bytes(offset);
        Self { spec, terms, backend, verification, offset, idle: Mutex::default() }
    }

    /// Checks the header of the block after `parent`, and its certificate if it has one.
    pub(crate) fn header(
        &self,
        header: &[u8],
        certificate: Bytes,
        parent: BlockId,
    ) -> Result<(BlockId, Header, Option<Bytes>), CheckError> {
        let expected = parent.number + 1;
        let decoded = decode_header(header);
        let (header, hash) =
            decoded.map_err(|source| CheckError::Decoding { number: expected, source })?;
        let id = BlockId { number: header.number, hash };
        if id.number != expected {
            return Err(CheckError::Number { number: id.number, expected });
        }
        if header.parent_hash != parent.hash {
            let (number, expected) = (id.number, parent.hash);
            return Err(CheckError::Parent { number, parent: header.parent_hash, expected });
        }
        let authority = self.terms.authority();
        if certificate.is_empty() {
            authority.check_term_start(id)?;
            return Ok((id, header, None));
        }
        authority.verify(id, &Certificate::decode(&certificate)?)?;
        Ok((id, header, Some(certificate)))
    }

    /// Decodes a block whose header is checked, and checks the senders of its transactions.
    pub(crate) fn results(&self, arrived: Arrived) -> Result<Checked, CheckError> {
        let Arrived { id, header, certificate, results } = arrived;
        let bytes = results.len();
        let decoded = decode(&header, id.hash, results);
        let Decoded { block, senders, parts } =
            decoded.map_err(|source| CheckError::Decoding { number: id.number, source })?;
        let txs = self.transactions(&block, &senders)?;
        let parts = (self.verification != Verification::Execute).then_some(parts);
        Ok(Checked { id, block, txs, parts, certificate, bytes })
    }

    fn transactions(&self, block: &Block, senders: &[Address]) -> Result<RecoveredTxs, CheckError> {
        let number = block.header.number;
        let mut recoverer = self.recoverer();
        let txs: RecoveredTxs = if self.verifies(number) {
            recover_body(&mut recoverer, block)
        } else {
            let found = recoverer.decode_with(&block.transactions, senders).enumerate();
            found.map(|(index, tx)| tx.map_err(|reason| (index, reason.to_string()))).collect()
        };
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(recoverer);
        let signers = txs.iter().flatten().map(|tx| tx.sender);
        for (index, (expected, found)) in signers.zip(senders).enumerate() {
            if expected != *found {
                return Err(CheckError::Sender { number, index, found: *found, expected });
            }
        }
        Ok(txs)
    }

    /// Returns whether the signatures of a block are verified: always if its header does not commit to the senders.
    fn verifies(&self, number: u64) -> bool {
        let Verification::Sample(every) = self.verification else { return true };
        let is_committed = self
            .spec
            .native()
            .is_some_and(|native| native.rules.version(number) >= RulesVersion::V2);
        !is_committed || number.wrapping_add(self.offset).is_multiple_of(every.get())
    }

    fn recoverer(&self) -> Senders {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.unwrap_or_else(|| Senders::of_chain(Recoverer::new(self.backend), self.spec.chain_id))
    }
}
