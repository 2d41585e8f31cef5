//! Finds responses that were truncated.

use super::{Layer, Requests, Socket, response_bytes::Truncated};
use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// Fails a flush after a response that the HTTP library has not written completely. The rest of that response is lost,
/// so the client must not receive anything more on this connection.
#[derive(Debug)]
pub struct Ledger(Arc<Requests>);

impl Ledger {
    /// Checks the responses to these requests.
    pub const fn new(requests: Arc<Requests>) -> Self {
        Self(requests)
    }

    /// Called when the HTTP library has written all bytes that it holds.
    fn flushed(&self) -> Result<(), Truncated> {
        self.0.responses.set_unflushed(false);
        if self.0.is_any_open() { Ok(()) } else { self.0.responses.compare() }
    }
}

impl Layer for Ledger {
    fn poll_write<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.responses.set_unflushed(true);
        let result = Pin::new(inner).poll_write_vectored(cx, pieces);
        if let Poll::Ready(Ok(written)) = &result {
            self.0.responses.accept(*written);
        }
        result
    }

    fn poll_flush<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.0.is_upgraded()
            && let Err(error) = self.flushed()
        {
            tracing::error!(%error, "a connection is closed because a response was truncated; this is a bug, please report it");
            return Poll::Ready(Err(io::Error::other(error)));
        }
        Pin::new(inner).poll_flush(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncWriteExt, duplex};

    #[tokio::test]
    async fn truncated_response_fails_the_next_flush() {
        for (handed_over, written, is_complete) in [(4, 4, true), (4, 9, true), (4, 3, false)] {
            let (_client, served) = duplex(100);
            let requests = Arc::<Requests>::default();
            let mut served = served.layer(Ledger::new(Arc::clone(&requests)));
            let open = requests.open(true);
            open.handed_over(handed_over);
            served.write_all(&vec![0; written]).await.unwrap();
            served.flush().await.expect("the response may continue");
            open.handed_over(1);
            served.write_all(&[0]).await.unwrap();
            drop(open);
            assert_eq!(served.flush().await.is_ok(), is_complete, "{handed_over} {written}");
        }
    }

    #[tokio::test]
    async fn websocket_is_not_checked_for_truncation() {
        let (_client, served) = duplex(100);
        let requests = Arc::<Requests>::default();
        let mut served = served.layer(Ledger::new(Arc::clone(&requests)));
        requests.open(true).handed_over(1);
        requests.upgrade();
        served.flush().await.unwrap();
    }
}
