//! A client's socket, closed when nobody is behind it: when no request, or for a WebSocket nothing
//! at all, arrives for a while, and when what is sent is not taken.

use super::Place;
use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};

/// Bytes a slow client must take within the time it is given.
const TAKEN_LEAST: usize = 64 * 1024;

/// What the one who reads requests tells the socket.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Requests that arrived whole.
    requests: AtomicU32,
    /// A WebSocket now: pings tell whether somebody is there.
    upgraded: AtomicBool,
}

impl Progress {
    /// A request has arrived whole.
    pub(super) fn request(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    /// The connection is a WebSocket from now on.
    pub(super) fn upgrade(&self) {
        self.upgraded.store(true, Relaxed);
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    progress: Arc<Progress>,
    requests_seen: u32,
    idle_max: Duration,
    idle: Pin<Box<Sleep>>,
    slow_max: Duration,
    slow: Pin<Box<Sleep>>,
    /// Bytes taken since the client was found slow; `None` while it is not.
    taken: Option<usize>,
    /// Kept as long as the socket, which a WebSocket takes with it.
    _place: Option<Place>,
}

impl Connection {
    pub(super) fn new(
        stream: TcpStream,
        progress: Arc<Progress>,
        (idle_max, slow_max): (Duration, Duration),
        place: Option<Place>,
    ) -> Self {
        Self {
            stream,
            progress,
            requests_seen: 0,
            idle_max,
            idle: Box::pin(sleep(idle_max)),
            slow_max,
            slow: Box::pin(sleep(slow_max)),
            taken: None,
            _place: place,
        }
    }

    /// Passes the result of a write on, and gives up on a client that does not take enough.
    fn watch_write(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(Ok(written)) => {
                self.taken = self.taken.map(|taken| taken + written);
                if self.taken.is_some_and(|taken| taken >= TAKEN_LEAST) {
                    self.taken = None;
                }
                Poll::Ready(Ok(written))
            }
            Poll::Ready(error) => Poll::Ready(error),
            Poll::Pending => {
                if self.taken.is_none() {
                    self.taken = Some(0);
                    self.slow.as_mut().reset(Instant::now() + self.slow_max);
                }
                ready!(self.slow.as_mut().poll(cx));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let requests = self.progress.requests.load(Relaxed);
        let heard = result.is_ready() && self.progress.upgraded.load(Relaxed);
        if heard || requests != self.requests_seen {
            self.requests_seen = requests;
            let until = Instant::now() + self.idle_max;
            self.idle.as_mut().reset(until);
        }
        if result.is_ready() {
            return result;
        }
        ready!(self.idle.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch_write(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.watch_write(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called once everything is written: the client has taken it.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.taken = None;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    const IDLE: Duration = Duration::from_secs(100);
    const SLOW: Duration = Duration::from_secs(10);

    async fn pair() -> (TcpStream, Connection, Arc<Progress>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (served, _) = listener.accept().await.unwrap();
        let progress = Arc::<Progress>::default();
        let served = Connection::new(served, Arc::clone(&progress), (IDLE, SLOW), None);
        (client, served, progress)
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_make_no_request_do_not_keep_a_connection() {
        let (mut client, mut served, progress) = pair().await;
        let began = Instant::now();
        let trickle = async {
            loop {
                if client.write_all(b"x").await.is_err() {
                    return;
                }
                sleep(Duration::from_secs(30)).await;
            }
        };
        let read = async {
            loop {
                if let Err(error) = served.read_u8().await {
                    return error.kind();
                }
            }
        };
        progress.request();
        tokio::select! {
            () = trickle => panic!("the client does not end"),
            error = read => assert_eq!(error, io::ErrorKind::TimedOut),
        }
        assert!(began.elapsed() >= IDLE && began.elapsed() < 2 * IDLE);
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_takes_nothing_is_given_up() {
        let (_client, mut served, _) = pair().await;
        let began = Instant::now();
        let much = vec![0; 64 << 20];
        let error = served.write_all(&much).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= SLOW && began.elapsed() < 2 * SLOW);
    }
}
