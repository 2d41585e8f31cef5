//! Failures as JSON: `code` (gRPC's number), `message`, `details`.

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

    /// A request that makes no sense.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::InvalidArgument, message)
    }

    /// A body that is too large, or breaks off.
    pub(super) fn of_body(status: StatusCode, message: String) -> Self {
        Self::new(status, Code::InvalidArgument, message)
    }

    /// Nothing is served there, or not by this HTTP method: the reference's gateway says the same of both.
    pub(super) fn not_served() -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, Code::Unimplemented, "Not Implemented")
    }

    /// What a service answered, in the words of the reference.
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

    /// Our own failure: told to the log only.
    pub(super) fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(%cause, "a REST request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, Code::Internal, "internal error")
    }

    /// As it is answered.
    pub(super) fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).expect("made of a status");
        (status, Json(self)).into_response()
    }
}
