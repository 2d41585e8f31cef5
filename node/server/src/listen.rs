//! Runs HTTP servers with limits on connections and memory, which the clients of all servers share by one rule
//! ([`budget`]), on concurrent requests, and on the time to receive a request and to read a response.
//!
//! Health checks are answered even under load: they do not wait for other requests, and if all connections are
//! in use, a few more are accepted for them ([`reserve`]), except for gRPC with TLS.

mod body;
mod compress;
mod escape_quotes;
mod reserve;

pub use reserve::MAX_RESERVED;

use crate::{
    accept::{Serve, Tasks, accept, admit},
    access::Access,
    compression::accepts_gzip,
    connection::{self, Hold, Open, Requests, Socket, Timeouts},
    fair_permits::{FairPermit, FairPermits},
    heights::{HeightError, Heights},
    listener::Listener,
    stop::{Stop, Stopping},
    tls::{HandshakeError, Tls},
};
use axum::{
    Router,
    body::Body,
    http::{
        HeaderMap, HeaderValue, Request, Response, StatusCode,
        header::{CONNECTION, UPGRADE},
    },
    response::IntoResponse,
};
use body::{MAX_SLOW_TIME, UnreadPieces};
use budget::{Account, Budget, Evictable, Held, Resource};
use escape_quotes::Escape;
use hyper::body::Body as _;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use reserve::Reserve;
use std::{
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Semaphore,
    task::JoinHandle,
};
use tonic::Code;
use tower::ServiceExt;

/// Maximum bytes of a message to the reflection and health services: the name of a symbol or a service.
pub const MAX_NAME_MESSAGE_BYTES: usize = 16 * 1024;
/// Maximum wait at shutdown for responses in flight.
const STOP_WAIT: Duration = Duration::from_secs(2);
/// A connection without a complete request, or over HTTP/2 without traffic, for this long is closed. Clients reconnect.
const MAX_IDLE: Duration = Duration::from_secs(120);
const TIMEOUTS: Timeouts = Timeouts { idle: MAX_IDLE, slow: MAX_SLOW_TIME };
/// Maximum bytes of the head of a request, and of the next request that is read ahead, over HTTP/1.1: the longest
/// target that hyper accepts, 65,534 bytes, and 16 KiB of headers. A longer target is refused as such (414) only if
/// the whole head is read.
const MAX_HEAD_BYTES: usize = 80 * 1024;
/// Maximum concurrent gRPC requests of one connection.
const MAX_STREAMS: u32 = 64;
/// Maximum bytes of one gRPC request that the client may send before the server reads them.
const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
/// The same for all requests of a connection together.
const CONNECTION_WINDOW_BYTES: u32 = 256 * 1024;
/// Maximum bytes of a gRPC response that the HTTP library buffers until the client reads them.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// A request body or a frame of a response over HTTP/1.1 of at most this many bytes is not accounted.
const FREE_BYTES: usize = 16 * 1024;
/// Memory that is accounted for each gRPC request, for its task and headers.
const STREAM_BYTES: usize = 4 * 1024;
/// Memory that is accounted for each streaming request, which has a second task and an incomplete message.
const STREAMING_BYTES: usize = 2 * STREAM_BYTES + MAX_NAME_MESSAGE_BYTES;

/// The limits and the protocol of a server.
#[derive(Debug)]
pub struct Bounds {
    /// The resource that counts connections.
    pub connections: Arc<Resource>,
    /// Maximum number of concurrent requests. Further ones wait, and clients are served round-robin.
    pub concurrent: u32,
    /// The heights of the blocks that the server serves, for clients of several nodes; `None` if it serves no blocks to
    /// clients.
    pub heights: Option<Heights>,
    /// Maximum bytes of a request body. The body is read before the request gets a permit.
    pub body: usize,
    /// The protocol.
    pub protocol: Protocol,
}

/// The protocol of a server.
#[derive(Debug)]
pub enum Protocol {
    /// HTTP/1.1, and WebSockets if the router has any.
    Http {
        /// The hosts and origins that are accepted.
        access: Access,
        /// The paths of health checks.
        health: &'static [&'static str],
    },
    /// HTTP/2.
    Grpc {
        /// Encrypts connections.
        tls: Option<Tls>,
    },
}

/// Start of the paths of streaming requests, whose bodies are not read in advance.
const STREAMING_PATH: &str = "/grpc.reflection.";
/// Start of the paths of gRPC health checks.
const GRPC_HEALTH_PATH: &str = "/grpc.health.v1.Health/";

/// A running server.
#[derive(Debug)]
pub struct Server {
    /// The address of the server.
    pub address: SocketAddr,
    stop: Stop,
    task: JoinHandle<()>,
}

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
enum ConnectionError {
    #[error(transparent)]
    Http(#[from] hyper::Error),
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
}

/// The state that the connections of a server share.
struct Shared {
    budget: Arc<Budget>,
    connections: Arc<Resource>,
    reserve: Reserve,
    permits: Arc<FairPermits>,
    next_connection: AtomicU64,
    compressions: Arc<Semaphore>,
    heights: Option<Heights>,
    body: usize,
    protocol: Protocol,
    router: Router,
    stopping: Stopping,
}

/// The state of one connection, which its layers and its requests share.
#[derive(Debug)]
pub struct Peer {
    address: IpAddr,
    number: u64,
    evictable: Arc<Evictable>,
    unread: UnreadPieces,
    /// The requests over HTTP/1.1.
    requests: Arc<Requests>,
    /// The last request has an `Upgrade` header, so the next bytes may belong to a WebSocket.
    upgrade_requested: AtomicBool,
    /// The connection permit; `None` for a connection of the reserve.
    _connection: Option<Held>,
}

/// Serves a router until [`Server::stop`].
///
/// # Panics
/// Outside a Tokio runtime.
pub fn serve(listener: Listener, bounds: Bounds, budget: &Arc<Budget>, router: Router) -> Server {
    let Listener { socket, address } = listener;
    let (stop, stopping) = Stop::new();
    let shared = Arc::new(Shared {
        budget: Arc::clone(budget),
        connections: bounds.connections,
        reserve: Reserve::default(),
        permits: FairPermits::new(bounds.concurrent as usize),
        next_connection: AtomicU64::new(0),
        compressions: Arc::new(Semaphore::new(compress::MAX_COMPRESSIONS)),
        heights: bounds.heights,
        body: bounds.body,
        protocol: bounds.protocol,
        router,
        stopping: stopping.clone(),
    });
    Server { address, stop, task: tokio::spawn(accept(socket, shared, stopping)) }
}

impl Server {
    /// Stops the server. Waits for responses in flight for at most 2 seconds.
    pub async fn stop(self) {
        let Self { stop, mut task, .. } = self;
        stop.signal();
        let ended = async {
            // A panic of the task has already been reported.
            let _ = (&mut task).await;
            // WebSockets have tasks of their own, each with a `Stopping`.
            stop.all_stopped().await;
        };
        if tokio::time::timeout(STOP_WAIT, ended).await.is_err() {
            task.abort();
        }
    }
}

impl Serve for Shared {
    type Moved = Infallible;

    fn start(self: &Arc<Self>, tasks: &mut Tasks<Infallible>, stream: TcpStream, from: SocketAddr) {
        let shared = Arc::clone(self);
        tasks.spawn(async move {
            shared.serve(stream, from.ip()).await;
            None
        });
    }

    fn resume(self: &Arc<Self>, _: &mut Tasks<Infallible>, moved: Infallible) {
        match moved {}
    }
}

impl Shared {
    /// Serves one connection to its end.
    async fn serve(self: Arc<Self>, stream: TcpStream, from: IpAddr) {
        let evictable = Arc::<Evictable>::default();
        let permit = admit(&self.budget, &self.connections, from, &evictable).ok();
        if permit.is_none() && matches!(self.protocol, Protocol::Grpc { tls: Some(_) }) {
            // A handshake costs more than a health check, so TLS connections have no reserve.
            return;
        }
        let reserved = permit.is_none().then(|| self.reserve.enter(from, &evictable));
        let peer = Arc::new(Peer {
            address: from,
            number: self.next_connection.fetch_add(1, Relaxed),
            evictable: Arc::clone(&evictable),
            unread: UnreadPieces::default(),
            requests: Arc::default(),
            upgrade_requested: AtomicBool::new(false),
            _connection: permit,
        });
        let is_http = matches!(self.protocol, Protocol::Http { .. });
        let served = async {
            match &self.protocol {
                Protocol::Http { .. } => {
                    self.serve_http(stream, &peer).await.map_err(ConnectionError::from)
                }
                Protocol::Grpc { tls } => self.serve_grpc(stream, &peer, tls.as_ref()).await,
            }
        };
        let ended = match reserved {
            Some(reserved) => {
                let ended = tokio::time::timeout(reserve::MAX_TIME, served).await;
                drop(reserved);
                ended.unwrap_or(Ok(()))
            }
            None => tokio::select! {
                ended = served => ended,
                // Bytes that wait for an HTTP/2 window do not reach the layer of the socket that finds slow clients.
                () = peer.unread.slow(), if !is_http => Ok(()),
            },
        };
        if let Err(error) = ended {
            tracing::debug!(%error, %from, "a connection ended early");
        }
    }

    async fn serve_http(
        self: &Arc<Self>,
        stream: TcpStream,
        peer: &Arc<Peer>,
    ) -> hyper::Result<()> {
        let mut stopping = self.stopping.clone();
        let io = http1_socket(stream, peer);
        let service = service_fn(|request| {
            // This is not part of the response future, because the HTTP library may read a part of the body
            // before it polls that future.
            let open = peer.begin(&request);
            Arc::clone(self).answer(Arc::clone(peer), Some(open), request)
        });
        let connection = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(io, service)
            .with_upgrades();
        let mut connection = pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = stopping.wait() => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    }

    async fn serve_grpc(
        self: &Arc<Self>,
        stream: TcpStream,
        peer: &Arc<Peer>,
        tls: Option<&Tls>,
    ) -> Result<(), ConnectionError> {
        let socket = connection::http2(stream, &peer.evictable, TIMEOUTS);
        let socket = socket.layer(Hold(Arc::clone(peer)));
        match tls {
            None => self.serve_http2(socket, peer).await?,
            Some(tls) => self.serve_http2(tls.accept(socket).await?, peer).await?,
        }
        Ok(())
    }

    async fn serve_http2(
        self: &Arc<Self>,
        socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: &Arc<Peer>,
    ) -> hyper::Result<()> {
        let mut stopping = self.stopping.clone();
        let io = TokioIo::new(socket);
        let (shared, peer) = (Arc::clone(self), Arc::clone(peer));
        let service =
            service_fn(move |request| Arc::clone(&shared).answer(Arc::clone(&peer), None, request));
        let connection = http2::Builder::new(TokioExecutor::new())
            .max_concurrent_streams(MAX_STREAMS)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(SEND_BUFFER_BYTES)
            .serve_connection(io, service);
        let mut connection: Pin<&mut _> = pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = stopping.wait() => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    }

    async fn answer(
        self: Arc<Self>,
        peer: Arc<Peer>,
        open: Option<Open>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        Ok(self.try_answer(&peer, open, request).await.unwrap_or_else(|refusal| *refusal))
    }

    async fn try_answer(
        &self,
        peer: &Arc<Peer>,
        open: Option<Open>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Box<Response<Body>>> {
        let is_health = self.is_health(request.uri().path());
        if peer.is_reserved() && !is_health {
            let limit = self.connections.limit();
            let mut refusal = self.refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                Code::Unavailable,
                format!("too many connections: the maximum is {limit}"),
            );
            // HTTP/2 has no `Connection` header.
            if matches!(self.protocol, Protocol::Http { .. }) {
                refusal.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            return Err(refusal);
        }
        let cors = match &self.protocol {
            Protocol::Http { access, .. } => {
                Some(access.check(&request).map_err(|refusal| Box::new(refusal.map(Body::from)))?)
            }
            Protocol::Grpc { .. } => None,
        };
        let accepts_gzip = accepts_gzip(request.headers());
        let client = self.budget.proxies.client(peer.address, request.headers());
        let account = self.budget.account(client, &peer.evictable);
        let (mut request, received) = self.receive(&account, peer, request).await?;
        self.wait_for_height(request.headers()).await?;
        // A WebSocket needs these as long as it is open.
        request.extensions_mut().insert(Arc::clone(&account));
        request.extensions_mut().insert(self.stopping.clone());
        let permit = match is_health {
            true => None,
            false => Some(self.permit(client, peer).await?),
        };
        let is_stream = self.is_stream(request.uri().path());
        let mut response = self.router.clone().oneshot(request).await.into_response();
        if matches!(self.protocol, Protocol::Http { .. }) {
            response = self.compress(&account, accepts_gzip, response).await;
        }
        drop(permit);
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            peer.requests.upgrade();
        }
        // A streaming request continues as long as its response.
        let kept = is_stream.then_some(received);
        let mut response = self.account_response(&account, peer, (open, kept), response)?;
        if let Some(heights) = &self.heights {
            heights.state(response.headers_mut());
        }
        if let Some(cors) = cors {
            cors.apply(response.headers_mut());
        }
        Ok(response)
    }

    /// Waits until the node has the block that a request requires.
    async fn wait_for_height(&self, headers: &HeaderMap) -> Result<(), Box<Response<Body>>> {
        let Some(heights) = &self.heights else { return Ok(()) };
        heights.wait(headers).await.map_err(|error| {
            let (status, code) = match error {
                HeightError::Invalid => (StatusCode::BAD_REQUEST, Code::InvalidArgument),
                HeightError::NotReached { .. } => {
                    (StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable)
                }
            };
            let mut refusal = self.refusal(status, code, error.to_string());
            heights.state(refusal.headers_mut());
            refusal
        })
    }

    /// Waits for a permit to process a request of this client.
    async fn permit(&self, client: IpAddr, peer: &Peer) -> Result<FairPermit, Box<Response<Body>>> {
        let permit = self.permits.acquire(client, peer.number).await;
        permit.map_err(|refused| {
            let (status, code) = (StatusCode::SERVICE_UNAVAILABLE, Code::ResourceExhausted);
            self.refusal(status, code, refused.to_string())
        })
    }

    fn is_health(&self, path: &str) -> bool {
        match self.protocol {
            Protocol::Http { health, .. } => health.contains(&path),
            Protocol::Grpc { .. } => path.starts_with(GRPC_HEALTH_PATH),
        }
    }

    /// Whether the body of a request is not read in advance.
    fn is_stream(&self, path: &str) -> bool {
        matches!(self.protocol, Protocol::Grpc { .. }) && path.starts_with(STREAMING_PATH)
    }

    /// An error response in the format of the protocol.
    fn refusal(&self, status: StatusCode, code: Code, text: String) -> Box<Response<Body>> {
        Box::new(match self.protocol {
            Protocol::Http { .. } => (status, format!("{text}\n")).into_response(),
            Protocol::Grpc { .. } => tonic::Status::new(code, text).into_http(),
        })
    }

    /// The maximum size of a message that is not accounted, in bytes.
    const fn free_bytes(&self) -> usize {
        match self.protocol {
            Protocol::Http { .. } => FREE_BYTES,
            Protocol::Grpc { .. } => 0,
        }
    }
}

/// The socket of a client over HTTP/1.1. It holds `peer`, and so the connection permit, also as a WebSocket.
fn http1_socket(
    stream: TcpStream,
    peer: &Arc<Peer>,
) -> TokioIo<impl AsyncRead + AsyncWrite + Unpin + Send + 'static> {
    let (nothing, escape) = (bytes::Bytes::new(), Escape::new(Arc::clone(peer)));
    let socket = connection::http1(stream, nothing, &peer.requests, &peer.evictable, TIMEOUTS);
    TokioIo::new(socket.layer(escape))
}

impl Peer {
    /// Records that the head of a request has arrived. The request is open until hyper has taken its response.
    fn begin(&self, request: &Request<Incoming>) -> Open {
        self.upgrade_requested.store(request.headers().contains_key(UPGRADE), Relaxed);
        self.requests.open(request.body().is_end_stream())
    }

    /// Whether the next bytes belong to the head of a request. If the last body was not read to its end, this
    /// is unknown, and the result is `false` until the next head.
    fn expects_head(&self) -> bool {
        !self.upgrade_requested.load(Relaxed) && !self.requests.is_body_unread()
    }

    const fn is_reserved(&self) -> bool {
        self._connection.is_none()
    }
}

#[cfg(test)]
mod tests;
