//! Waits for a limited time, and fails if the socket is reset in the meantime.

use super::Socket;
use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep};

/// Interval of the checks whether the client has reset the connection.
pub(super) const RESET_CHECK: Duration = Duration::from_millis(100);

/// A wait that begins when this value is created.
#[derive(Debug)]
pub(super) struct ResetWatch {
    since: Instant,
    check: Pin<Box<Sleep>>,
}

impl ResetWatch {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), check: Box::pin(sleep(RESET_CHECK)) }
    }

    /// Ready after `max`, or with an error as soon as the socket is found to be reset.
    pub(super) fn poll(
        &mut self,
        socket: &impl Socket,
        max: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if let Some(error) = socket.take_error()? {
                return Poll::Ready(Err(error));
            }
            let now = Instant::now();
            if now >= self.since + max {
                return Poll::Ready(Ok(()));
            }
            if self.check.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.check.as_mut().reset(now + RESET_CHECK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::tests::sockets;

    #[tokio::test]
    async fn reset_ends_the_wait() {
        let (client, served) = sockets().await;
        let mut watch = ResetWatch::new();
        // With zero linger, closing the socket sends a reset.
        client.set_zero_linger().unwrap();
        drop(client);
        let max = Duration::from_secs(600);
        let began = Instant::now();
        let ended = std::future::poll_fn(|cx| watch.poll(&served, max, cx)).await;
        assert!(ended.is_err() && began.elapsed() < max, "{ended:?}");
    }
}
