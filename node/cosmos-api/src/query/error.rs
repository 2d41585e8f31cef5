//! Why a query has no answer.

use crate::EthCallError;
use mempool::Reject;
use state::stored::StoredError;
use std::fmt::Display;
use storage::ReadError;

/// The kinds of failure, with gRPC's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A transaction that was tried failed: so the SDK tells it.
    Unknown = 2,
    /// The request makes no sense.
    InvalidArgument = 3,
    /// The work was given up when its time was over.
    DeadlineExceeded = 4,
    /// There is no such thing.
    NotFound = 5,
    /// Too much is asked at once.
    ResourceExhausted = 8,
    /// The chain is not one that could answer.
    FailedPrecondition = 9,
    /// A failure of ours; its cause is in the log.
    Internal = 13,
}

/// A query without an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct QueryError {
    /// Its kind.
    pub code: Code,
    /// What the asker is told.
    pub message: String,
}

impl QueryError {
    pub(super) fn unknown(message: impl Into<String>) -> Self {
        Self { code: Code::Unknown, message: message.into() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self { code: Code::InvalidArgument, message: message.into() }
    }

    pub(super) fn too_slow(message: impl Into<String>) -> Self {
        Self { code: Code::DeadlineExceeded, message: message.into() }
    }

    pub(super) fn busy(waiting: usize) -> Self {
        let message = format!("{waiting} queries like this wait for their turn, try again");
        Self { code: Code::ResourceExhausted, message }
    }

    /// The mempool is too busy to be asked.
    pub(super) fn of_pool(reject: Reject) -> Self {
        Self { code: Code::ResourceExhausted, message: reject.to_string() }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self { code: Code::NotFound, message: message.into() }
    }

    pub(super) fn precondition(message: impl Into<String>) -> Self {
        Self { code: Code::FailedPrecondition, message: message.into() }
    }

    /// Our own failure: told to the log only.
    pub(super) fn internal(cause: impl Display) -> Self {
        tracing::error!(%cause, "a query failed");
        Self { code: Code::Internal, message: "internal error".to_owned() }
    }
}

impl From<EthCallError> for QueryError {
    fn from(error: EthCallError) -> Self {
        match error {
            EthCallError::Invalid(message) => Self::invalid(message),
            EthCallError::TooLong(message) => Self::too_slow(message),
            EthCallError::Internal(cause) => Self::internal(cause),
        }
    }
}

impl From<ReadError> for QueryError {
    fn from(error: ReadError) -> Self {
        Self::internal(error)
    }
}

impl From<StoredError> for QueryError {
    fn from(error: StoredError) -> Self {
        Self::internal(error)
    }
}
