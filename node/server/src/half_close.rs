//! Clients that close their sending side after a request and wait for the response, as `nc -N` and some
//! libraries do (RFC 9112, section 9.6, asks a server to expect it). The end of the input does not show whether
//! the client still waits, because a client that has disconnected sends the same. A request therefore continues
//! for [`MAX_HALF_CLOSED`] after the end of the input, and then counts as abandoned.
//!
//! hyper could ignore the end of the input (`half_close`), but then it would not read while it waits for a
//! response, so that neither a reset nor an eviction would end the request. Here the end is hidden from hyper
//! instead, and the socket is checked in the meantime.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};

/// Maximum time for which a request continues after the end of the input.
pub const MAX_HALF_CLOSED: Duration = Duration::from_secs(2);
/// Interval of the checks whether the client has reset the connection.
const RESET_CHECK: Duration = Duration::from_millis(100);

/// Hides the end of a socket's input while a response is pending.
#[derive(Debug, Default)]
pub struct HalfClose(Option<Ended>);

#[derive(Debug)]
struct Ended {
    since: Instant,
    check: Pin<Box<Sleep>>,
    /// The reader has had time to find out that a request is complete.
    has_yielded: bool,
    /// The reader has been woken since the last response was pending.
    has_woken: bool,
}

impl HalfClose {
    /// Whether the input has ended.
    pub const fn has_ended(&self) -> bool {
        self.0.is_some()
    }

    /// The socket has accepted all bytes. If that was a whole response, the reader is woken and closes the
    /// connection.
    pub fn flushed(&mut self, cx: &Context<'_>, is_response_pending: bool) {
        if let Some(ended) =
            self.0.as_mut().filter(|ended| !is_response_pending && !ended.has_woken)
        {
            ended.has_woken = true;
            cx.waker().wake_by_ref();
        }
    }

    /// Ready when the end of the input should be reported, or with an error if the socket was reset. It must be
    /// called instead of a read once the input has ended.
    pub fn poll_end(
        &mut self,
        cx: &mut Context<'_>,
        socket: &TcpStream,
        is_response_pending: bool,
    ) -> Poll<io::Result<()>> {
        let ended = self.0.get_or_insert_with(|| Ended {
            since: Instant::now(),
            check: Box::pin(sleep(RESET_CHECK)),
            has_yielded: false,
            has_woken: false,
        });
        if !is_response_pending {
            if ended.has_yielded {
                return Poll::Ready(Ok(()));
            }
            // hyper may have read a whole request, and calls its service before it reads again.
            ended.has_yielded = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        (ended.has_yielded, ended.has_woken) = (true, false);
        loop {
            if let Some(error) = socket.take_error()? {
                return Poll::Ready(Err(error));
            }
            let now = Instant::now();
            if now >= ended.since + MAX_HALF_CLOSED {
                return Poll::Ready(Ok(()));
            }
            if ended.check.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            ended.check.as_mut().reset(now + RESET_CHECK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::net::TcpListener;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    #[tokio::test(start_paused = true)]
    async fn end_of_input_is_reported_at_once_without_a_pending_response() {
        let (_client, socket) = pair().await;
        let (mut half_close, began) = (HalfClose::default(), Instant::now());
        assert!(!half_close.has_ended());
        poll_fn(|cx| half_close.poll_end(cx, &socket, false)).await.unwrap();
        assert!(half_close.has_ended() && began.elapsed() < RESET_CHECK);
        let mut half_close = HalfClose::default();
        poll_fn(|cx| half_close.poll_end(cx, &socket, true)).await.unwrap();
        assert!(began.elapsed() >= MAX_HALF_CLOSED);
        assert!(began.elapsed() < MAX_HALF_CLOSED + 2 * RESET_CHECK);
    }

    #[tokio::test(start_paused = true)]
    async fn end_of_input_is_reported_after_the_response() {
        let (_client, socket) = pair().await;
        let (mut half_close, began) = (HalfClose::default(), Instant::now());
        let mut polls = 0;
        let reported = poll_fn(|cx| {
            polls += 1;
            half_close.poll_end(cx, &socket, polls < 4)
        });
        reported.await.unwrap();
        assert_eq!(polls, 4);
        assert!(began.elapsed() < MAX_HALF_CLOSED);
    }

    #[tokio::test]
    async fn reset_ends_the_wait() {
        let (client, socket) = pair().await;
        // Closing it sends a reset.
        client.set_zero_linger().unwrap();
        let mut half_close = HalfClose::default();
        let began = std::time::Instant::now();
        drop(client);
        let ended = poll_fn(|cx| half_close.poll_end(cx, &socket, true)).await;
        assert!(ended.is_err() && began.elapsed() < MAX_HALF_CLOSED, "{ended:?}");
    }
}
