//! Compresses large responses for clients that accept it, a few at a time on blocking threads. The request
//! holds its permit in the meantime, so the number of waiting responses is limited by the number of concurrent
//! requests.

use super::Shared;
use crate::compression::{Gzip, MIN_COMPRESSED_BYTES, is_coded, name_coding, name_variation};
use axum::{
    body::{Body, to_bytes},
    http::Response,
};
use budget::Account;
use bytes::Bytes;
use hyper::body::Body as _;
use std::sync::Arc;

/// Maximum number of concurrent compressions per server; further responses wait.
pub(super) const MAX_COMPRESSIONS: usize = 2;

impl Shared {
    /// Returns the response, compressed if it is large, the client accepts gzip and there is enough memory.
    pub(super) async fn compress(
        &self,
        account: &Account,
        accepts_gzip: bool,
        response: Response<Body>,
    ) -> Response<Body> {
        let (mut head, body) = response.into_parts();
        // Bodies of known length are already in memory. Others are not compressed.
        let length = body.size_hint().exact().unwrap_or_default();
        if length < MIN_COMPRESSED_BYTES as u64 || is_coded(&head.headers) {
            return Response::from_parts(head, body);
        }
        name_variation(&mut head.headers);
        if !accepts_gzip {
            return Response::from_parts(head, body);
        }
        let whole = match to_bytes(body, usize::MAX).await {
            Ok(whole) => whole,
            // The client sees that the response is incomplete.
            Err(error) => return Response::from_parts(head, failing(error)),
        };
        let Some(compressed) = self.compressed(account, whole.clone()).await else {
            return Response::from_parts(head, Body::from(whole));
        };
        name_coding(&mut head.headers);
        Response::from_parts(head, Body::from(compressed))
    }

    async fn compressed(&self, account: &Account, whole: Bytes) -> Option<Bytes> {
        // Accounts for the response and its compressed copy, which is normally not larger.
        let memory = account.hold(2 * whole.len()).ok()?;
        let compression_permit =
            Arc::clone(&self.compressions).acquire_owned().await.expect("never closed");
        let compress = move || {
            let mut gzip = Gzip::new();
            gzip.add(&whole);
            // The permit and the memory are held until here even if the client has disconnected.
            drop((compression_permit, memory));
            gzip.finish()
        };
        // A panic of the task has already been reported.
        tokio::task::spawn_blocking(compress).await.ok()
    }
}

/// A body whose first read returns `error`.
fn failing(error: axum::Error) -> Body {
    Body::from_stream(futures_util::stream::once(async move { Err::<Bytes, _>(error) }))
}
