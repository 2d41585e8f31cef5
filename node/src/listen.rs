//! HTTP servers with bounds: so many connections at once, each closed when nothing has moved on it
//! for a while, and so many requests answered at once. One client cannot take all places for ever by
//! opening them and saying nothing, nor by saying the half of a request.

mod quotes;

use crate::pipeline::Fault;
use axum::{
    Router,
    body::Body,
    extract::Request,
    http::StatusCode,
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    serve::Listener,
};
use bytes::BytesMut;
use http_body_util::BodyExt;
use quotes::Escape;
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

/// Longest that the body of a request is waited for (CometBFT's `read_timeout`).
const BODY_WAIT: Duration = Duration::from_secs(10);

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
    /// Most bytes of a body. A request has its body before it takes one of the places; `None` where bodies
    /// are streams.
    pub(crate) body: Option<usize>,
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
    let router = match bounds.body {
        Some(most) => router.layer(from_fn(move |request, next| with_body(request, next, most))),
        None => router,
    };
    let (stop, stopped) = oneshot::channel();
    let until = async {
        // An error means that the sender is gone: an end as well.
        let _ = stopped.await;
    };
    let serving = axum::serve(listener, router).with_graceful_shutdown(until).into_future();
    Ok(Server { address, stop, task: tokio::spawn(serving) })
}

/// Reads a request's body before anything else is done for it: up to one byte more than it may have, which
/// whoever answers it refuses in its own words.
async fn with_body(request: Request, next: Next, most: usize) -> Response {
    let (head, mut body) = request.into_parts();
    let mut bytes = BytesMut::new();
    let read = async {
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            bytes.extend_from_slice(&data[..data.len().min(most + 1 - bytes.len())]);
            if bytes.len() > most {
                break;
            }
        }
        Ok::<_, axum::Error>(())
    };
    let refused = match tokio::time::timeout(BODY_WAIT, read).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => {
            Some((StatusCode::BAD_REQUEST, format!("the request's body is broken: {error}\n")))
        }
        Err(_) => Some((
            StatusCode::REQUEST_TIMEOUT,
            format!("the request was not whole after {} s\n", BODY_WAIT.as_secs()),
        )),
    };
    if let Some(refused) = refused {
        return refused.into_response();
    }
    next.run(Request::from_parts(head, Body::from(bytes.freeze()))).await
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
        let idle = Box::pin(sleep(IDLE_MAX));
        let connection = Connection { stream, idle, escape: Escape::default(), _place: place };
        (connection, address)
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
    escape: Escape,
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
        if self.escape.give(buffer) {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.escape.take(buffer, before);
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
    use axum::{
        extract::{DefaultBodyLimit, RawQuery, rejection::StringRejection},
        routing::post,
    };
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

    async fn served() -> Server {
        let bounds = Bounds {
            address: "127.0.0.1:0".parse().unwrap(),
            connections: 100,
            concurrent: 2,
            body: Some(8),
        };
        let told =
            |body: Result<String, StringRejection>| async { body.map_err(|error| error.status()) };
        let asked = |RawQuery(query): RawQuery| async { query.unwrap_or_default() };
        let router = Router::new().route("/", post(told).get(asked));
        serve("test", bounds, router.layer(DefaultBodyLimit::max(8))).await.unwrap()
    }

    /// What comes until the server closes.
    async fn answer(stream: &mut TcpStream, request: &str) -> String {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    fn posted(body: &str) -> String {
        let length = body.len();
        format!(
            "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    }

    #[tokio::test]
    async fn halves_of_requests_take_no_places() {
        let server = served().await;
        let mut halves = Vec::new();
        for _ in 0..10 {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            let whole = posted("12345678");
            stream.write_all(&whole.as_bytes()[..whole.len() - 4]).await.unwrap();
            halves.push(stream);
        }
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let text = answer(&mut stream, &posted("whole")).await;
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("whole"), "{text}");
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let text = answer(&mut stream, &posted("123456789")).await;
        assert!(text.starts_with("HTTP/1.1 413"), "{text}");
        let text = answer(&mut halves[9], "5678").await;
        assert!(text.ends_with("12345678"), "{text}");
        server.stop().await;
    }

    #[tokio::test]
    async fn plain_quotes_in_a_uri_are_taken() {
        let server = served().await;
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let asked = "GET /?query=\"tx.height=1\" HTTP/1.1\r\nHost: x\r\nX-Tag: \"x\"\r\nConnection: close\r\n\r\n";
        let text = answer(&mut stream, asked).await;
        assert!(text.ends_with("query=%22tx.height=1%22"), "{text}");
        server.stop().await;
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
