//! The services without a socket: bytes of a message in, bytes of a message out. REST and CometBFT's
//! RPC are made of it.

use super::HEIGHT_HEADER;
use axum::http::{HeaderMap, HeaderValue, Request, header};
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use std::fmt::Display;
use tonic::{Code, Status, service::Routes};
use tower::ServiceExt;

/// Bytes before each message of gRPC: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The services, called in memory.
#[derive(Clone, Debug)]
pub struct Direct {
    routes: Routes,
}

/// What a service answered.
#[derive(Debug)]
pub struct Told {
    /// The encoded message.
    pub message: Bytes,
    /// The block it is of, if the service names one.
    pub height: Option<HeaderValue>,
}

impl Direct {
    /// Calls to these services without a socket.
    pub fn new(routes: Routes) -> Self {
        Self { routes: routes.prepare() }
    }

    /// Asks the method at `path`, `/package.Service/Method`, with an encoded message, of the block
    /// that `height` names or of the newest.
    ///
    /// # Errors
    /// The status of the service; `Unimplemented` where there is no such method, `Internal` for a
    /// failure of ours, whose cause is in the log.
    pub async fn call(
        &self,
        path: &str,
        message: &[u8],
        height: Option<&HeaderValue>,
    ) -> Result<Told, Status> {
        let mut request = Request::post(path)
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .body(Full::new(framed(message)))
            .map_err(internal)?;
        if let Some(height) = height {
            request.headers_mut().insert(HEIGHT_HEADER, height.clone());
        }
        let answer = self.routes.clone().oneshot(request).await.map_err(internal)?;
        let (mut head, body) = answer.into_parts();
        check(&head.headers)?;
        let body = body.collect().await.map_err(internal)?;
        if let Some(trailers) = body.trailers() {
            check(trailers)?;
        }
        let mut bytes = body.to_bytes();
        if bytes.len() < PREFIX_BYTES {
            return Err(internal("a service answered without a message"));
        }
        let message = bytes.split_off(PREFIX_BYTES);
        Ok(Told { message, height: head.headers.remove(HEIGHT_HEADER) })
    }
}

fn framed(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.len()).expect("requests are bounded far below 4 GiB"));
    bytes.put_slice(message);
    bytes.freeze()
}

/// The status of a service, if it is there and not good.
fn check(headers: &HeaderMap) -> Result<(), Status> {
    match Status::from_header_map(headers) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => Ok(()),
    }
}

fn internal(cause: impl Display) -> Status {
    tracing::error!(%cause, "a call of a service failed");
    Status::internal("internal error")
}
