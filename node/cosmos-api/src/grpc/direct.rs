//! Calls the gRPC services in memory with encoded requests, for REST and CometBFT's RPC.

use super::HEIGHT_HEADER;
use axum::http::{HeaderMap, HeaderValue, Request, header};
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use std::fmt::Display;
use tonic::{Code, Status, service::Routes};
use tower::ServiceExt;

/// Length of the gRPC frame header: a compression flag (1 byte) and the length of the message (4 bytes).
const PREFIX_BYTES: usize = 5;

/// Calls gRPC services in memory.
#[derive(Clone, Debug)]
pub struct Direct {
    routes: Routes,
}

/// The response of a service.
#[derive(Debug)]
pub struct ServiceResponse {
    /// The encoded message.
    pub message: Bytes,
    /// The block that was queried, if the service returns it.
    pub height: Option<HeaderValue>,
}

impl Direct {
    /// Wraps these services.
    pub fn new(routes: Routes) -> Self {
        Self { routes: routes.prepare() }
    }

    /// Calls the method at `path` (`/package.Service/Method`) with an encoded request, on the block at `height`
    /// or on the newest block.
    ///
    /// # Errors
    /// The status that the service returns: `Unimplemented` if there is no such method, `Internal` for an
    /// internal error, whose cause is logged.
    pub async fn call(
        &self,
        path: &str,
        message: &[u8],
        height: Option<&HeaderValue>,
    ) -> Result<ServiceResponse, Status> {
        let mut request = Request::post(path)
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .body(Full::new(framed(message)))
            .map_err(internal)?;
        if let Some(height) = height {
            request.headers_mut().insert(HEIGHT_HEADER, height.clone());
        }
        let response = self.routes.clone().oneshot(request).await.map_err(internal)?;
        let (mut head, body) = response.into_parts();
        check(&head.headers)?;
        let body = body.collect().await.map_err(internal)?;
        if let Some(trailers) = body.trailers() {
            check(trailers)?;
        }
        let mut bytes = body.to_bytes();
        if bytes.len() < PREFIX_BYTES {
            return Err(internal("a gRPC service returned no message"));
        }
        let message = bytes.split_off(PREFIX_BYTES);
        Ok(ServiceResponse { message, height: head.headers.remove(HEIGHT_HEADER) })
    }
}

fn framed(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.len()).expect("requests are bounded far below 4 GiB"));
    bytes.put_slice(message);
    bytes.freeze()
}

/// Returns the status in these headers if it is an error.
fn check(headers: &HeaderMap) -> Result<(), Status> {
    match Status::from_header_map(headers) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => Ok(()),
    }
}

fn internal(cause: impl Display) -> Status {
    tracing::error!(%cause, "a gRPC service failed");
    Status::internal("internal error")
}
