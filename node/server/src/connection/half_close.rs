//! Serves clients that close their sending side after a request and wait for the response, as `nc -N` and some
//! libraries do. The end of the input does not show whether the client still waits, because a client that has
//! disconnected sends the same. A request therefore continues for at most [`MAX_HALF_CLOSED`] after the end of
//! the input, and then counts as abandoned.
//!
//! hyper could ignore the end of the input (`half_close`), but then it would not read while it waits for a
//! response, so that neither a reset nor an eviction would end the request. Here the end is hidden from hyper
//! instead, and the socket is checked in the meantime.

use super::{Layer, Requests, Socket, reset_watch::ResetWatch};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::io::ReadBuf;

/// Maximum time for which a request continues after the end of the input.
pub const MAX_HALF_CLOSED: Duration = Duration::from_secs(2);

/// Hides the end of a socket's input while a response is pending.
#[derive(Debug)]
pub struct HalfClose {
    requests: Arc<Requests>,
    ended: Option<Ended>,
}

#[derive(Debug)]
struct Ended {
    watch: ResetWatch,
    /// The reader has had time to find out that a request is complete.
    has_yielded: bool,
    /// The reader has been woken since it last found a response pending.
    has_woken: bool,
}

impl HalfClose {
    /// Hides the end of the input while a response to one of these requests is pending.
    pub const fn new(requests: Arc<Requests>) -> Self {
        Self { requests, ended: None }
    }

    /// Ready when the end of the input should be reported, or with an error if the socket was reset. Replaces reads
    /// once the input has ended.
    fn poll_end<S: Socket>(&mut self, socket: &S, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = self.ended.get_or_insert_with(|| Ended {
            watch: ResetWatch::new(),
            has_yielded: false,
            has_woken: false,
        });
        if !self.requests.is_response_pending() {
            if ended.has_yielded {
                return Poll::Ready(Ok(()));
            }
            // hyper may have read a whole request. If so, it calls its service before it reads again.
            ended.has_yielded = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        (ended.has_yielded, ended.has_woken) = (true, false);
        ended.watch.poll(socket, MAX_HALF_CLOSED, cx)
    }
}

impl Layer for HalfClose {
    fn poll_read<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ended.is_some() {
            return self.poll_end(inner, cx);
        }
        let (before, space) = (buffer.filled().len(), buffer.remaining());
        let result = Pin::new(&mut *inner).poll_read(cx, buffer);
        let has_ended = matches!(result, Poll::Ready(Ok(()))) && buffer.filled().len() == before;
        if has_ended && space > 0 && !self.requests.is_upgraded() {
            return self.poll_end(inner, cx);
        }
        result
    }

    /// Once the input has ended and the whole response has been written, wakes the reader, which closes the connection.
    fn poll_flush<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(ended) = self.ended.as_mut().filter(|ended| !ended.has_woken)
            && !self.requests.is_response_pending()
        {
            ended.has_woken = true;
            cx.waker().wake_by_ref();
        }
        Pin::new(inner).poll_flush(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::reset_watch::RESET_CHECK;
    use tokio::{
        io::{AsyncReadExt, DuplexStream, duplex},
        time::{Instant, timeout},
    };

    type Served = super::super::Layered<HalfClose, DuplexStream>;

    /// A connection whose client has closed its sending side.
    fn half_closed() -> (Served, Arc<Requests>) {
        let (client, served) = duplex(100);
        drop(client);
        let requests = Arc::<Requests>::default();
        (served.layer(HalfClose::new(Arc::clone(&requests))), requests)
    }

    #[tokio::test(start_paused = true)]
    async fn end_of_input_is_reported_at_once_without_a_pending_response() {
        let (mut served, _) = half_closed();
        let began = Instant::now();
        assert_eq!(served.read(&mut [0]).await.unwrap(), 0);
        assert!(began.elapsed() < RESET_CHECK);
        let (mut served, requests) = half_closed();
        let _open = requests.open(true);
        assert_eq!(served.read(&mut [0]).await.unwrap(), 0);
        assert!(began.elapsed() >= MAX_HALF_CLOSED);
        assert!(began.elapsed() < MAX_HALF_CLOSED + 2 * RESET_CHECK);
    }

    #[tokio::test(start_paused = true)]
    async fn end_of_input_is_reported_after_the_response() {
        let (mut served, requests) = half_closed();
        let (open, began) = (requests.open(true), Instant::now());
        assert!(timeout(3 * RESET_CHECK, served.read(&mut [0])).await.is_err(), "it is pending");
        drop(open);
        assert!(timeout(3 * RESET_CHECK, served.read(&mut [0])).await.is_err(), "not flushed");
        requests.responses.set_unflushed(false);
        assert_eq!(served.read(&mut [0]).await.unwrap(), 0);
        assert!(began.elapsed() < MAX_HALF_CLOSED);
    }

    #[tokio::test(start_paused = true)]
    async fn end_of_input_of_a_websocket_is_reported_at_once() {
        let (mut served, requests) = half_closed();
        let (_open, began) = (requests.open(true), Instant::now());
        requests.upgrade();
        assert_eq!(served.read(&mut [0]).await.unwrap(), 0);
        assert!(began.elapsed() < RESET_CHECK);
    }
}
