//! Closes a connection whose client seems to have disconnected.

use super::{Activity, Layer, Socket};
use budget::Evictable;
use std::{
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::ReadBuf,
    time::{Instant, Sleep, sleep},
};

/// Fails a read after a period without activity. Activity also protects the connection from eviction.
#[derive(Debug)]
pub struct Idle {
    activity: Activity,
    evictable: Arc<Evictable>,
    max: Duration,
    /// The number of complete requests at the last read.
    requests_seen: u32,
    active_at: Instant,
    /// Activity does not reset the timer. When it expires, it is reset to the time at which the connection times out.
    timer: Pin<Box<Sleep>>,
}

impl Idle {
    /// A connection without activity for `max` is closed.
    pub fn new(activity: Activity, evictable: Arc<Evictable>, max: Duration) -> Self {
        let (active_at, timer) = (Instant::now(), Box::pin(sleep(max)));
        Self { activity, evictable, max, requests_seen: 0, active_at, timer }
    }

    /// Ready after `max` without activity.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let now = Instant::now();
            if self.activity.is_answering() {
                self.active_at = now;
            }
            let until = self.active_at + self.max;
            if until <= now {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(until);
        }
    }
}

impl Layer for Idle {
    fn poll_read<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(inner).poll_read(cx, buffer);
        if self.activity.is_new(&mut self.requests_seen, result.is_ready()) {
            self.active_at = Instant::now();
            self.evictable.touch();
        }
        if result.is_ready() || self.activity.is_websocket() {
            return result;
        }
        ready!(self.poll_idle(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_write<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(inner).poll_write_vectored(cx, pieces);
        if matches!(result, Poll::Ready(Ok(_))) {
            self.active_at = Instant::now();
            if self.activity.is_traffic() {
                self.evictable.touch();
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Requests;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
        time::timeout,
    };

    const IDLE: Duration = Duration::from_secs(100);

    fn idle(activity: Activity) -> (DuplexStream, super::super::Layered<Idle, DuplexStream>) {
        let (client, served) = duplex(1000);
        (client, served.layer(Idle::new(activity, Arc::default(), IDLE)))
    }

    /// The time for which a connection stays open if its client sends a byte every 30 seconds, at most `5 * IDLE`.
    async fn time_open(activity: Activity) -> Duration {
        let (mut client, mut served) = idle(activity);
        let began = Instant::now();
        let trickle = async {
            loop {
                client.write_all(b"x").await.unwrap();
                sleep(Duration::from_secs(30)).await;
            }
        };
        let read = async { while served.read_u8().await.is_ok() {} };
        tokio::select! {
            () = trickle => unreachable!("the client does not end"),
            () = read => {}
            () = sleep(5 * IDLE) => {}
        }
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_keep_a_connection_open_only_if_requests_are_not_tracked() {
        let requests = time_open(Activity::Requests(Arc::default())).await;
        assert!(requests >= IDLE && requests < 2 * IDLE, "{requests:?}");
        assert!(time_open(Activity::Traffic).await >= 5 * IDLE);
    }

    #[tokio::test(start_paused = true)]
    async fn each_complete_request_keeps_a_connection_open() {
        let requests = Arc::<Requests>::default();
        let (_client, mut served) = idle(Activity::Requests(Arc::clone(&requests)));
        for request in 0..5 {
            // Alternately without and with a body.
            let open = requests.open(request % 2 == 0);
            if request % 2 == 1 {
                requests.body_read();
            }
            drop(open);
            assert!(timeout(IDLE * 3 / 4, served.read_u8()).await.is_err(), "{request}");
        }
        let error = served.read_u8().await.expect_err("nothing more arrives");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn silent_connection_is_closed_if_requests_are_not_tracked() {
        let (_client, mut served) = idle(Activity::Traffic);
        served.write_all(b"x").await.unwrap();
        let began = Instant::now();
        let error = served.read_u8().await.expect_err("nothing arrives");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= IDLE && began.elapsed() < 2 * IDLE);
    }
}
