//! HTTP servers with bounds: so many connections at once, each closed when nothing has moved on it
//! for a while, and so many requests answered at once. One client cannot take all places for ever by
//! opening them and saying nothing.

use crate::pipeline::Fault;
use axum::{Router, serve::Listener};
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    task::JoinHandle,
    time::{Instant, Sleep, sleep},
};
use tower::limit::GlobalConcurrencyLimitLayer;

/// A connection on which nothing moves for this long is closed. Clients open another.
const IDLE_MAX: Duration = Duration::from_secs(120);

/// Longest wait at the end for answers in flight.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// Where to listen, and how much to take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Where.
    pub(crate) address: SocketAddr,
    /// Most connections at once.
    pub(crate) connections: u32,
    /// Most requests answered at once; others wait in their connections.
    pub(crate) concurrent: u32,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

/// Serves a router until [`Server::stop`]; `what` names it should the address be taken.
pub(crate) async fn serve(what: &str, bounds: Bounds, router: Router) -> Result<Server, Fault> {
    let fault = |source| Fault::Socket { what: format!("{what} on {}", bounds.address), source };
    let connections = bounds.connections as usize;
    let listener = BoundedListener::bind(bounds.address, connections).await.map_err(fault)?;
    let address = listener.local_addr().map_err(fault)?;
    let router = router.layer(GlobalConcurrencyLimitLayer::new(bounds.concurrent as usize));
    let (stop, stopped) = oneshot::channel();
    let until = async {
        // An error means that the sender is gone: an end as well.
        let _ = stopped.await;
    };
    let serving = axum::serve(listener, router).with_graceful_shutdown(until).into_future();
    Ok(Server { address, stop, task: tokio::spawn(serving) })
}

impl Server {
    /// Ends the server; answers in flight are finished for a while.
    pub async fn stop(self) {
        let Self { stop, mut task, .. } = self;
        // An error says that the server has ended already.
        let _ = stop.send(());
        if tokio::time::timeout(STOP_WAIT, &mut task).await.is_err() {
            task.abort();
        }
    }
}

/// A listener that takes a connection only when it has a place for it.
#[derive(Debug)]
struct BoundedListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl BoundedListener {
    /// Listens for up to `connections` at once.
    async fn bind(address: SocketAddr, connections: usize) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { listener, places: Arc::new(Semaphore::new(connections)) })
    }
}

impl Listener for BoundedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.expect("the places are never closed");
        let (stream, address) = Listener::accept(&mut self.listener).await;
        // Without it answers only come later.
        let _ = stream.set_nodelay(true);
        (Connection { stream, idle: Box::pin(sleep(IDLE_MAX)), _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that keeps its place until it is closed.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// Passes a result on, and starts the clock again if something moved.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.idle.as_mut().reset(Instant::now() + IDLE_MAX);
            return result;
        }
        ready!(self.idle.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.watch(cx, result)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_place_is_free_again_after_its_connection() {
        let mut listener = BoundedListener::bind("127.0.0.1:0".parse().unwrap(), 1).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut first = TcpStream::connect(address).await.unwrap();
        let (mut served, _) = listener.accept().await;
        first.write_all(b"x").await.unwrap();
        assert_eq!(served.read_u8().await.unwrap(), b'x');
        assert_eq!(listener.places.available_permits(), 0);
        drop(served);
        assert_eq!(listener.places.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_connection() {
        let mut listener = BoundedListener::bind("127.0.0.1:0".parse().unwrap(), 1).await.unwrap();
        let address = listener.local_addr().unwrap();
        let _client = TcpStream::connect(address).await.unwrap();
        let (mut served, _) = listener.accept().await;
        assert_eq!(served.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
