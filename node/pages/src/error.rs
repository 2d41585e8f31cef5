//! The errors of pages.

use axum::http::StatusCode;
use state::{ModulesViewError, stored::StoredError};
use storage::ReadError;

/// Why a page cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    /// The chain does not have the object.
    #[error("{0}")]
    NotFound(String),
    /// The path or the query is not valid.
    #[error("{0}")]
    Invalid(String),
    /// The client is not allowed to make this request.
    #[error("{0}")]
    Refused(String),
    /// The node is too busy.
    #[error("{0}")]
    Busy(String),
    /// The page would be too large.
    #[error("{0}")]
    TooLarge(String),
    /// The chain could not be read, or a transaction not executed.
    #[error("the chain cannot be read: {0}")]
    Failed(String),
}

impl PageError {
    /// Creates the error for a failure that no client caused.
    pub(crate) fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }

    /// Returns the status of the response.
    pub(crate) const fn status(&self) -> StatusCode {
        match self {
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::Refused(_) => StatusCode::FORBIDDEN,
            Self::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooLarge(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl From<ReadError> for PageError {
    fn from(error: ReadError) -> Self {
        Self::failed(error)
    }
}

impl From<StoredError> for PageError {
    fn from(error: StoredError) -> Self {
        Self::failed(error)
    }
}

impl From<ModulesViewError> for PageError {
    fn from(error: ModulesViewError) -> Self {
        Self::failed(error)
    }
}
