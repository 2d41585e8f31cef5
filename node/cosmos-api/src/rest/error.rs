//! Writes errors as JSON: `code` (of gRPC), `message` and `details`.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tonic::Code;

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Error {
    code: i32,
    message: String,
    details: [(); 0],
    #[serde(skip)]
    status: u16,
}

impl Error {
    fn new(status: StatusCode, code: Code, message: impl Into<String>) -> Self {
        Self { code: code as i32, message: message.into(), details: [], status: status.as_u16() }
    }

    /// Creates the error for an invalid request.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::InvalidArgument, message)
    }

    /// Creates the error for a body that is too large or incomplete.
    pub(super) fn of_body(status: StatusCode, message: String) -> Self {
        Self::new(status, Code::InvalidArgument, message)
    }

    /// Creates the error for a path that does not exist or does not support this HTTP method. The SDK's gateway does
    /// not distinguish these cases.
    pub(super) fn not_served() -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, Code::Unimplemented, "Not Implemented")
    }

    /// Converts an error of a service, with the text of the SDK's gateway.
    pub(super) fn of_service(code: Code, message: &str) -> Self {
        let status = match code {
            Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
                StatusCode::BAD_REQUEST
            }
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, code, format!("rpc error: code = {code:?} desc = {message}"))
    }

    /// Creates an internal error, whose cause is only logged.
    pub(super) fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(%cause, "a REST request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, Code::Internal, "internal error")
    }

    /// Converts to a response.
    pub(super) fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).expect("it was a status code");
        (status, Json(self)).into_response()
    }
}
