//! Defines the errors of queries.

use crate::EthCallError;
use event_query::InvalidQuery;
use mempool::Reject;
use server::concurrency_limit::TooManyWaiting;
use state::stored::StoredError;
use std::fmt::Display;
use storage::ReadError;

/// The kinds of error, with the codes of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A simulated transaction failed, or the broadcast mode is not supported. The SDK uses this code.
    Unknown = 2,
    /// The request is invalid.
    InvalidArgument = 3,
    /// The query took too long.
    DeadlineExceeded = 4,
    /// The requested item does not exist.
    NotFound = 5,
    /// Too many queries are waiting, or the mempool is too busy.
    ResourceExhausted = 8,
    /// This chain does not support the query.
    FailedPrecondition = 9,
    /// An internal error. The cause is in the log.
    Internal = 13,
}

/// Why a query failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct QueryError {
    /// The kind of error.
    pub code: Code,
    /// The message for the client.
    pub message: String,
}

impl From<InvalidQuery> for QueryError {
    fn from(InvalidQuery(message): InvalidQuery) -> Self {
        Self::invalid(message)
    }
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

    /// Creates the error for a mempool that is too busy to respond.
    pub(super) fn of_pool(reject: Reject) -> Self {
        Self { code: Code::ResourceExhausted, message: reject.to_string() }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self { code: Code::NotFound, message: message.into() }
    }

    pub(super) fn precondition(message: impl Into<String>) -> Self {
        Self { code: Code::FailedPrecondition, message: message.into() }
    }

    /// Creates an internal error, whose cause is only logged.
    pub(super) fn internal(cause: impl Display) -> Self {
        tracing::error!(%cause, "a query failed");
        Self { code: Code::Internal, message: "internal error".to_owned() }
    }
}

impl From<TooManyWaiting> for QueryError {
    fn from(TooManyWaiting(waiting): TooManyWaiting) -> Self {
        let message = format!("{waiting} queries of this kind are waiting: try again later");
        Self { code: Code::ResourceExhausted, message }
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
