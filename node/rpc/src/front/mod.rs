//! Serves the sockets of JSON-RPC. HTTP requests are read, answered and written here, without jsonrpsee, so that large
//! cached results are written without copying. WebSocket messages are handled in the same way (`docs/adr/0008`,
//! `docs/adr/0023`).
//!
//! Input: connections. Output: calls to the dispatcher, responses to clients. State: the open connections. Limits: the
//! connections in total and per address, and the bytes of unread responses. A connection that sends no request or does
//! not read its response is closed. Requests and connections above a limit are refused with an error.

mod compress;
mod connection;
mod http;
mod listen;
mod threads;
mod websocket;

pub(crate) use listen::Listening;
pub use threads::ConnectionsPerThread;
pub(crate) use threads::Threads;

use self::{
    connection::{Connection, Progress, into_parts, new_connection},
    listen::group_of,
    threads::ThreadConnection,
};
use crate::{
    client::Client,
    dispatch::{Dispatcher, Respond, Transport},
    large_bodies::{LARGE_BODY_BYTES, LargeBodies},
    subscribe,
    subscription::Ids,
};
use budget::{Budget, Held};
use config::JsonRpc;
use hyper::{
    body::{Bytes, Incoming},
    header::HeaderMap,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use jsonrpsee::Methods;
use server::{
    access::{Access, PageRules},
    connection::Timeouts,
    heights::Heights,
    stop::Stopping,
};
use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, OnceLock, atomic::AtomicU64},
    task::Poll,
    time::Duration,
};
use tokio::net::TcpStream;

/// A single call must begin in this many bytes of the body. Any other body counts as a batch until it is parsed, so
/// that threads that serve sockets do not scan megabytes of spaces.
const MAX_LEADING_SPACE: usize = 128;
/// Maximum bytes of the head of a request, which is not accounted.
const MAX_HEAD_BYTES: usize = 32 * 1024;
/// Maximum bytes that are read from a socket at a time.
const MAX_READ_BYTES: usize = 128 * 1024;

/// The state that all connections share.
#[derive(Debug)]
pub(crate) struct Front {
    dispatcher: Arc<Dispatcher>,
    access: Access,
    next_id: AtomicU64,
    large_bodies: Arc<LargeBodies>,
    /// The queue of responses that are compressed on the same threads.
    compressions: Arc<LargeBodies>,
    /// The methods of jsonrpsee that open and close subscriptions.
    methods: Methods,
    subscription_ids: Arc<Ids>,
    max_subscriptions: u32,
    max_request_bytes: usize,
    timeouts: Timeouts,
    heights: Heights,
}

/// The permit and thread of a connection, released when dropped.
#[derive(Debug)]
struct ConnectionPermit {
    thread: ThreadConnection,
    _held: Held,
}

/// A connection that no thread serves yet, or that is to be served by another thread.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: std::net::TcpStream,
    /// Bytes that were read but not processed.
    read: Bytes,
    client: Arc<Client>,
    progress: Arc<Progress>,
    permit: ConnectionPermit,
}

impl Front {
    pub(crate) fn new(dispatcher: Arc<Dispatcher>, threads: &Threads, config: &JsonRpc) -> Self {
        let heights = Heights::of(&dispatcher.context.published);
        let methods = subscribe::module(Arc::clone(&dispatcher)).expect("the names differ");
        Self {
            dispatcher,
            access: Access::new(
                PageRules::JSON_RPC,
                ("json-rpc.allowed-hosts", &config.allowed_hosts),
                ("json-rpc.cors-origins", &config.cors_origins),
            ),
            next_id: AtomicU64::new(0),
            large_bodies: Arc::new(LargeBodies::new(threads.large())),
            compressions: Arc::new(LargeBodies::new(threads.large())),
            methods: methods.into(),
            subscription_ids: Arc::default(),
            max_subscriptions: config.max_subscriptions,
            max_request_bytes: config.max_request_bytes as usize,
            timeouts: Timeouts {
                idle: Duration::from_secs(config.idle_timeout_s),
                slow: Duration::from_secs(config.slow_client_s),
            },
            heights,
        }
    }

    fn budget(&self) -> &Arc<Budget> {
        &self.dispatcher.context.budget
    }

    /// Returns the client of a request. If the connection comes from a trusted proxy, the headers name the client.
    fn client_behind(&self, client: &Arc<Client>, headers: &HeaderMap) -> Arc<Client> {
        let budget = self.budget();
        if !budget.proxies.contains(client.address) {
            return Arc::clone(client);
        }
        let address = budget.proxies.client(client.address, headers);
        Arc::new(Client {
            id: client.id,
            address,
            rate: Arc::clone(&client.rate),
            endpoint: Arc::clone(&client.endpoint),
            flow: Arc::clone(&client.flow),
            account: budget.account(address, &client.account.owner),
        })
    }

    /// Serves a connection until it ends, or returns it if another thread must serve it.
    async fn serve(self: Arc<Self>, socket: Socket, mut stopping: Stopping) -> Option<Socket> {
        let Socket { stream, read, client, progress, permit } = socket;
        let address = client.address;
        let lost = |error| tracing::debug!(%error, %address, "a connection could not be moved to another thread");
        let stream = TcpStream::from_std(stream).map_err(lost).ok()?;
        let group = permit.thread.group();
        let io = new_connection(stream, read, &progress, self.timeouts, permit);
        let websocket = OnceLock::new();
        let service = service_fn(|request: hyper::Request<Incoming>| {
            http::serve(&self, &client, &progress, &websocket, request)
        });
        let mut serving = http1::Builder::new()
            .half_close(false)
            .max_buf_size(MAX_READ_BYTES)
            .max_header_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(io), service)
            .with_upgrades();
        let to_move = || {
            let elsewhere =
                group.is_some_and(|group| group != group_of(&client.endpoint, &progress));
            elsewhere && progress.requests.is_between_requests()
        };
        let ended_or_to_move = poll_fn(|cx| match Pin::new(&mut serving).poll(cx) {
            Poll::Pending if to_move() => Poll::Ready(None),
            polled => polled.map(Some),
        });
        let ended = tokio::select! {
            // Without `biased`, each poll would generate a random number.
            biased;
            ended = ended_or_to_move => ended,
            () = stopping.wait() => {
                Pin::new(&mut serving).graceful_shutdown();
                Some((&mut serving).await)
            }
        };
        match ended {
            None => {
                let parts = serving.into_parts().expect("the connection has not been upgraded");
                let (stream, rest, permit) =
                    into_parts(parts.io.into_inner()).map_err(lost).ok()?;
                let read = joined(parts.read_buf, rest);
                return Some(Socket { stream, read, client, progress, permit });
            }
            Some(Err(error)) => tracing::debug!(%error, %address, "a connection ended early"),
            Some(Ok(())) => {
                drop(serving);
                if let Some((upgrade, client)) = websocket.into_inner() {
                    // Boxed, so that the futures of the many HTTP connections stay small.
                    Box::pin(websocket::serve(Arc::clone(&self), client, upgrade, stopping)).await;
                }
            }
        }
        None
    }

    /// Answers the body of a request or a message. A large body is parsed and answered on threads that do not serve
    /// sockets.
    async fn respond(&self, client: &Arc<Client>, body: Bytes, transport: Transport) -> Respond {
        // If a WebSocket client does not read its responses, its calls wait here without blocking a thread. A batch
        // holds its permit until its response is counted.
        let start = &body[..body.len().min(MAX_LEADING_SPACE)];
        let permit = if start.trim_ascii_start().first() == Some(&b'{') {
            client.flow.until_writable().await;
            None
        } else {
            Some(client.flow.batch().await)
        };
        let response = self.answer(client, body, &transport).await;
        if let (Transport::WebSocket(_), Respond::Reply(reply) | Respond::TooMany(reply)) =
            (&transport, &response)
        {
            client.flow.add_pending(reply.len());
        }
        drop(permit);
        response
    }

    async fn answer(&self, client: &Arc<Client>, body: Bytes, transport: &Transport) -> Respond {
        if body.len() < LARGE_BODY_BYTES {
            return self.dispatcher.respond(&body.into(), client, transport, None).await;
        }
        let (dispatcher, caller) = (Arc::clone(&self.dispatcher), Arc::clone(client));
        let arrived_by = transport.clone();
        let answer = |permit| async move {
            dispatcher.respond(&body.into(), &caller, &arrived_by, Some(permit)).await
        };
        let answered = self.large_bodies.answer(client, answer).await;
        answered.unwrap_or_else(|error| Respond::refused(transport, error))
    }
}

/// Joins the unprocessed bytes in hyper's buffer and those that the previous thread had read. Usually at most one of
/// the two exists.
fn joined(read: Bytes, rest: Bytes) -> Bytes {
    if rest.is_empty() { read } else { [read, rest].concat().into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{reply::Reply, unsent_responses::UnsentResponses};
    use hyper::{Response, server::conn::http1::Builder};
    use rpc_types::text::Json;
    use server::connection::{Requests, http1};
    use std::{convert::Infallible, sync::Mutex};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    #[test]
    fn unprocessed_bytes_keep_their_order() {
        let [read, rest] = ["GET / ", "HTTP/1.1"].map(Bytes::from);
        assert_eq!(joined(read.clone(), Bytes::new()), read);
        assert_eq!(joined(read, rest), "GET / HTTP/1.1");
    }

    /// hyper flushes in the middle of a body when it holds 16 pieces, and the socket accepts only part of a body.
    #[tokio::test]
    async fn a_connection_taken_from_hyper_has_sent_its_whole_response() {
        const TIMEOUTS: Timeouts =
            Timeouts { idle: Duration::from_secs(60), slow: Duration::from_secs(60) };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let counts = [1, 7, 8, 9, 15, 16, 17, 18, 33, 200];
        let sizes = [16_384, 16_402, 20_000, 33_000];
        for (results, bytes) in counts.into_iter().flat_map(|count| sizes.map(|size| (count, size)))
        {
            let result = Json::from_text(vec![b'7'; bytes]);
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (socket, _) = listener.accept().await.unwrap();
            let (requests, evictable) = (Arc::<Requests>::default(), Arc::default());
            let io = http1(socket, Bytes::new(), &requests, &evictable, TIMEOUTS);
            let mut reply = Reply::default();
            (0..results).for_each(|_| reply.answer("1", Ok(result.clone())));
            let length = reply.len();
            let body = Mutex::new(Some(reply.finish(&UnsentResponses::default())));
            let service = service_fn(|_: hyper::Request<Incoming>| {
                let mut body = body.lock().unwrap().take().unwrap();
                body.hold(requests.open(true));
                std::future::ready(Ok::<_, Infallible>(Response::new(body)))
            });
            let mut connection = Builder::new().serve_connection(TokioIo::new(io), service);
            let taking = async {
                poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
                    Poll::Pending => {
                        let is_answered = body.lock().unwrap().is_none();
                        let complete = is_answered && requests.is_between_requests();
                        if complete { Poll::Ready(()) } else { Poll::Pending }
                    }
                    Poll::Ready(ended) => panic!("{ended:?}"),
                })
                .await;
                drop(connection.into_parts());
            };
            let mut received = Vec::new();
            let reading = async {
                client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
                client.read_to_end(&mut received).await.unwrap();
            };
            tokio::join!(taking, reading);
            let head = received.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
            assert_eq!(received.len() - head, length, "{results} results of {bytes} bytes");
        }
    }
}
