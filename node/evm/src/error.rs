//! Defines the reasons why a transaction or a block cannot be executed.

use std::{error::Error, sync::Arc};

use alloy_primitives::{Address, B256};
use revm::{context::DBErrorMarker, context_interface::result::InvalidTransaction};

use chain::HeaderError;
use modules::decorator::Reject;

/// State or block hashes could not be read. This is not an error of the block.
#[derive(Clone, Debug, thiserror::Error)]
#[error("state could not be read: {0}")]
pub struct StateError(pub Arc<dyn Error + Send + Sync>);

impl DBErrorMarker for StateError {}

impl StateError {
    /// Wraps the error of a state, a trie or a block-hash source.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(error.into()))
    }
}

/// Why a transaction cannot be in a block. The state is unchanged.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TxError {
    /// Since Homestead, `s` must be in the lower half of the curve order (EIP-2).
    #[error("signature s is in the upper half of the curve order")]
    HighS,
    /// Signatures with a chain ID are valid only since the fork of EIP-155.
    #[error("replay-protected transaction before EIP-155")]
    ReplayProtected,
    /// Native chains do not accept blobs.
    #[error("blob transactions are not accepted on this chain")]
    BlobsRefused,
    /// The gas limit exceeds the gas left in the block.
    #[error("gas limit {limit} exceeds the {available} gas left in the block")]
    BlockGas {
        /// The transaction's gas limit.
        limit: u64,
        /// Gas left in the block.
        available: u64,
    },
    /// The blobs exceed the blob gas left in the block.
    #[error("{wanted} blob gas exceeds the {available} left in the block")]
    BlockBlobGas {
        /// Blob gas of the transaction.
        wanted: u64,
        /// Blob gas left in the block.
        available: u64,
    },
    /// The transaction violates a rule of the native chain.
    #[error(transparent)]
    Rejected(#[from] Reject),
    /// The transaction violates a rule of the fork that the interpreter checks.
    #[error("{0}")]
    Invalid(InvalidTransaction),
}

/// Why a block cannot be executed. Its changes are discarded.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutionError {
    /// The header or the body violates a rule, or does not match the execution.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A transaction is not valid at its position.
    #[error("block {number}: transaction {index} ({hash}): {reason}")]
    Transaction {
        /// The block.
        number: u64,
        /// Position in the block.
        index: usize,
        /// The transaction.
        hash: B256,
        /// The reason.
        reason: TxError,
    },
    /// A required system contract has no code, or failed (EIP-7002, EIP-7251).
    #[error("block {number}: system contract {contract} {reason}")]
    SystemContract {
        /// The block.
        number: u64,
        /// The contract.
        contract: Address,
        /// The reason.
        reason: SystemFailure,
    },
    /// A log of the deposit contract does not have the layout that EIP-6110 requires.
    #[error("block {number}: transaction {index}: deposit event has an invalid layout")]
    DepositLayout {
        /// The block.
        number: u64,
        /// Position of the transaction in the block.
        index: usize,
    },
    /// State, trie or block hashes could not be read. This is not an error of the block.
    #[error("block {number}: {source}")]
    State {
        /// The block.
        number: u64,
        /// The error.
        source: StateError,
    },
    /// The interpreter failed in a way that no transaction can cause.
    #[error("block {number}: interpreter: {reason}")]
    Interpreter {
        /// The block.
        number: u64,
        /// The interpreter's message.
        reason: String,
    },
}

/// How a system contract failed.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SystemFailure {
    /// There is no code at its address.
    #[error("has no code")]
    Empty,
    /// The call reverted or halted.
    #[error("failed")]
    Failed,
}
