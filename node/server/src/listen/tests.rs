//! Tests servers with small limits over real sockets.

use super::*;
use crate::access::PageRules;
use axum::{
    extract::{DefaultBodyLimit, RawQuery, rejection::StringRejection},
    routing::{get, post},
};
use bytes::Bytes;
use config::Config;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::sleep,
};

const MAX_BODY: usize = 8;

fn access() -> Access {
    let settings = config::Rest::default();
    Access::new(
        PageRules::QUERIES,
        ("rest.allowed-hosts", &settings.allowed_hosts),
        ("rest.cors-origins", &settings.cors_origins),
    )
}

fn budget(change: impl FnOnce(&mut Config)) -> Arc<Budget> {
    let mut config = Config::default();
    change(&mut config);
    Budget::new(&config)
}

fn router() -> Router {
    let post_text =
        |body: Result<String, StringRejection>| async { body.map_err(|error| error.status()) };
    let query = |RawQuery(query): RawQuery| async { query.unwrap_or_default() };
    Router::new()
        .route("/", post(post_text).get(query))
        .route("/health", get(|| async { "well" }))
        .route("/large", get(|| async { vec![b'7'; 1 << 20] }))
        .layer(DefaultBodyLimit::max(MAX_BODY))
}

async fn listener() -> Listener {
    Listener::bind("test", "--test.address", "127.0.0.1:0".parse().unwrap()).await.unwrap()
}

async fn start_server_with(budget: &Arc<Budget>, body: usize) -> Server {
    let bounds = Bounds {
        heights: None,
        connections: Arc::clone(&budget.rest),
        concurrent: 2,
        body,
        protocol: Protocol::Http { access: access(), health: &["/health"] },
    };
    serve(listener().await, bounds, budget, router())
}

async fn start_server() -> Server {
    start_server_with(&budget(|_| {}), MAX_BODY).await
}

/// Sends a request, and returns all bytes until the server closes the connection.
async fn response_to(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

async fn exchange(server: &Server, request: &str) -> String {
    response_to(&mut TcpStream::connect(server.address).await.unwrap(), request).await
}

fn post_request(body: &str) -> String {
    let length = body.len();
    format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

fn get_request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

/// Sends a request, closes the sending side, and returns all bytes of the response.
async fn exchange_and_half_close(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn client_that_closes_its_sending_side_receives_its_response() {
    let server = start_server().await;
    for _ in 0..20 {
        for request in [get_request("/?well"), post_request("well")] {
            for request in [request.clone(), request.replace("Connection: close\r\n", "")] {
                let text = exchange_and_half_close(&server, &request).await;
                assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("well"), "{text}");
            }
        }
        let text = exchange_and_half_close(&server, &get_request("/large")).await;
        assert_eq!(text.split_once("\r\n\r\n").unwrap().1.len(), 1 << 20);
    }
    // The client sends two requests, the last of which is incomplete.
    let requests = get_request("/?one").replace("close", "keep-alive")
        + &post_request("1234567").replace("67", "");
    let text = exchange_and_half_close(&server, &requests).await;
    assert_eq!(text.matches("HTTP/1.1 200").count(), 1, "{text}");
    server.stop().await;
}

#[tokio::test]
async fn unfinished_requests_take_no_permits() {
    let server = start_server().await;
    let mut halves = Vec::new();
    for _ in 0..10 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let whole = post_request("12345678");
        stream.write_all(&whole.as_bytes()[..whole.len() - 4]).await.unwrap();
        halves.push(stream);
    }
    let text = exchange(&server, &post_request("whole")).await;
    assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("whole"), "{text}");
    let text = exchange(&server, &post_request("123456789")).await;
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
    let text = response_to(&mut halves[9], "5678").await;
    assert!(text.ends_with("12345678"), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn plain_quotes_in_a_uri_are_accepted() {
    let server = start_server().await;
    let request = "GET /?query=\"tx.height=1\" HTTP/1.1\r\nHost: localhost\r\nX-Tag: \"x\"\r\nConnection: close\r\n\r\n";
    let text = exchange(&server, request).await;
    assert!(text.ends_with("query=%22tx.height=1%22"), "{text}");
    server.stop().await;
}

/// Lets the server read what the client has sent.
async fn settle() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

/// If a body grew, its last bytes would be parsed as the next request, which behind a proxy may be that of
/// another client.
#[tokio::test]
async fn body_that_looks_like_a_request_line_is_not_changed() {
    let server = start_server().await;
    let body = "GET \"ab\"";
    for framing in [
        "Content-Length: 8",
        "Content-Length: 8\r\nExpect: 100-continue",
        "Transfer-Encoding: chunked",
    ] {
        let chunked = framing.starts_with("Transfer");
        let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n");
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        settle().await;
        if chunked {
            stream.write_all(b"8\r\n").await.unwrap();
            settle().await;
        }
        stream.write_all(body.as_bytes()).await.unwrap();
        settle().await;
        if chunked {
            stream.write_all(b"\r\n0\r\n\r\n").await.unwrap();
        }
        // The next bytes are parsed as one request, whose own quotes are escaped because its line starts at the
        // beginning of a read.
        settle().await;
        let text = response_to(&mut stream, &get_request("/?x=\"y\"")).await;
        assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2, "{framing}: {text}");
        assert!(
            text.contains("\r\n\r\nGET \"ab\"") && text.ends_with("x=%22y%22"),
            "{framing}: {text}"
        );
    }
    // A body that is refused before it was received is not changed either.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    settle().await;
    stream.write_all(b"123456789").await.unwrap();
    settle().await;
    // This is the rest of the body. The server may already have closed the connection.
    let _ = stream.write_all(b"GET \"\"\"").await;
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text).await;
    assert_eq!(text.matches("HTTP/1.1").count(), 1, "{text}");
    server.stop().await;
}

#[tokio::test]
async fn hosts_and_origins_are_checked() {
    let server = start_server().await;
    let status = async |headers: &str| {
        let request = format!("GET / HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        exchange(&server, &request).await.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(status("Host: localhost\r\n").await, "200");
    assert_eq!(status("Host: evil.example\r\n").await, "403");
    assert_eq!(status("").await, "400");
    assert_eq!(status("Host: localhost\r\nHost: localhost\r\n").await, "400");
    let probe = exchange(&server, "GET /health HTTP/1.0\r\n\r\n").await;
    assert!(probe.starts_with("HTTP/1.0 200"), "{probe}");
    let origin = "Host: localhost\r\nOrigin: http://localhost:3000\r\n";
    let request = format!("GET / HTTP/1.1\r\n{origin}Connection: close\r\n\r\n");
    let text = exchange(&server, &request).await;
    assert!(text.contains("access-control-allow-origin: http://localhost:3000"), "{text}");
    server.stop().await;
}

/// All connections are used by one address, which is also that of the health check.
#[tokio::test]
async fn health_check_is_answered_when_all_connections_are_in_use() {
    let budget = budget(|config| config.rest.max_connections = 2);
    let server = start_server_with(&budget, MAX_BODY).await;
    let mut taken = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'H');
        taken.push(stream);
    }
    for _ in 0..100 {
        let text = exchange(&server, &get_request("/health")).await;
        assert!(text.ends_with("well"), "{text}");
    }
    let text = exchange(&server, &get_request("/")).await;
    assert!(text.starts_with("HTTP/1.1 503") && text.contains("maximum is 2"), "{text}");
    // Clients that open connections and send nothing do not block health checks either.
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    let text = exchange(&server, &get_request("/health")).await;
    assert!(text.ends_with("well"), "{text}");
    server.stop().await;
}

/// An incomplete body uses memory until it times out. A body that does not fit is refused.
#[tokio::test]
async fn memory_of_unfinished_bodies_is_limited() {
    let limit = 1 << 20;
    let budget = budget(|config| config.server.max_client_bytes = limit);
    let server = start_server_with(&budget, 4 << 20).await;
    let mut open = Vec::new();
    for _ in 0..10 {
        let before = budget.memory.reading();
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 300001\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        // A refused body is not read to its end.
        let _ = stream.write_all(&[b'7'; 300_000]).await;
        // Either all but the last byte is read, or the body is refused.
        loop {
            let now = budget.memory.reading();
            assert!(now.used <= limit);
            if now.used >= before.used + 300_000 || now.refused > before.refused {
                break;
            }
            tokio::task::yield_now().await;
        }
        open.push(stream);
    }
    let reading = budget.memory.reading();
    assert!(reading.used >= 900_000 && reading.refused == 7, "{reading:?}");
    let mut text = String::new();
    open[9].read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 503") && text.contains("server.max-client-bytes"), "{text}");
    drop(open);
    server.stop().await;
    assert_eq!(budget.memory.reading().used, 0);
}

/// The memory of a response is held until the client has read it.
#[tokio::test]
async fn responses_are_accounted_until_they_are_read() {
    let budget = budget(|_| {});
    let router = Router::new().route("/", get(|| async { vec![b'7'; 16 << 20] }));
    let bounds = Bounds {
        heights: None,
        connections: Arc::clone(&budget.rest),
        concurrent: 1,
        body: 0,
        protocol: Protocol::Http { access: access(), health: &[] },
    };
    let server = serve(listener().await, bounds, &budget, router);
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(get_request("/").as_bytes()).await.unwrap();
    let mut part = [0; 1024];
    slow.read_exact(&mut part).await.unwrap();
    // More bytes than the kernel buffers are still in memory.
    assert!(budget.memory.reading().used > 1 << 20, "{:?}", budget.memory.reading());
    // The permit has been released, because the memory limit applies to slow clients.
    let mut rest = Vec::new();
    let mut other = TcpStream::connect(server.address).await.unwrap();
    other.write_all(get_request("/").as_bytes()).await.unwrap();
    other.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() > 16 << 20);
    let mut left = Vec::new();
    slow.read_to_end(&mut left).await.unwrap();
    assert_eq!(left.len() + part.len(), rest.len());
    server.stop().await;
    assert_eq!(budget.memory.reading().used, 0);
}

#[tokio::test]
async fn response_above_the_memory_limit_is_refused() {
    let budget = budget(|config| config.server.max_client_bytes = (1 << 20) - 1);
    let server = start_server_with(&budget, MAX_BODY).await;
    let text = exchange(&server, &get_request("/large")).await;
    assert!(text.starts_with("HTTP/1.1 503") && text.contains("server.max-client-bytes"), "{text}");
    server.stop().await;
}

/// Serves a health check and a path like a unary gRPC method, which responds with 100,000 bytes.
async fn grpc_server(budget: &Arc<Budget>, handled: &Arc<AtomicUsize>) -> Server {
    let handled = Arc::clone(handled);
    let router = Router::new()
        .route(
            "/test/Large",
            post(move |body: Bytes| async move {
                handled.fetch_add(1, SeqCst);
                drop(body);
                vec![b'7'; 100_000]
            }),
        )
        .route("/grpc.health.v1.Health/Check", post(|| async { "well" }));
    let bounds = Bounds {
        heights: None,
        connections: Arc::clone(&budget.grpc),
        concurrent: 2,
        body: 1000,
        protocol: Protocol::Grpc { tls: None },
    };
    serve(listener().await, bounds, budget, router)
}

/// A minimal HTTP/2 client, which sends requests and does not open flow-control windows by itself.
mod h2 {
    use super::*;

    pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    fn literal(name: &str, value: &str) -> Vec<u8> {
        let mut bytes = vec![0];
        for text in [name, value] {
            bytes.push(u8::try_from(text.len()).unwrap());
            bytes.extend(text.as_bytes());
        }
        bytes
    }

    pub(super) fn headers(path: &str) -> Vec<u8> {
        [
            literal(":method", "POST"),
            literal(":scheme", "http"),
            literal(":path", path),
            literal(":authority", "localhost"),
            literal("content-type", "application/grpc"),
        ]
        .concat()
    }

    pub(super) const END_STREAM: u8 = 1;
    pub(super) const END_HEADERS: u8 = 4;

    /// A connection whose client initially accepts no bytes of response bodies.
    pub(super) async fn connect(server: &Server) -> TcpStream {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        // SETTINGS_INITIAL_WINDOW_SIZE is 0.
        stream.write_all(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 0])).await.unwrap();
        stream
    }

    /// Reads frames until one of this kind arrives on this stream, and returns its payload.
    pub(super) async fn read(stream: &mut TcpStream, kind: u8, of: u32) -> Vec<u8> {
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            stream.read_exact(&mut payload).await.unwrap();
            if head[3] == kind && u32::from_be_bytes([head[5], head[6], head[7], head[8]]) == of {
                return payload;
            }
        }
    }
}

#[tokio::test]
async fn memory_of_grpc_clients_with_closed_windows_is_limited() {
    use h2::{END_HEADERS, END_STREAM, connect, frame, headers, read};
    let limit = 1 << 20;
    let budget = budget(|config| config.server.max_client_bytes = limit);
    let handled = Arc::default();
    let server = grpc_server(&budget, &handled).await;
    let mut client = connect(&server).await;
    let count = 30_u32;
    for number in 0..count {
        let request = frame(1, END_HEADERS | END_STREAM, 2 * number + 1, &headers("/test/Large"));
        client.write_all(&request).await.unwrap();
        // The headers of the response or error.
        read(&mut client, 1, 2 * number + 1).await;
        assert!(budget.memory.reading().used <= limit);
    }
    let used = budget.memory.reading().used;
    assert!(used > limit / 2 && budget.memory.reading().refused > 0, "{used}");
    // The health check is answered on another connection, although all memory and all permits are in use.
    let mut other = connect(&server).await;
    let window = frame(8, 0, 1, &1000_u32.to_be_bytes());
    other
        .write_all(&frame(1, END_HEADERS | END_STREAM, 1, &headers("/grpc.health.v1.Health/Check")))
        .await
        .unwrap();
    other.write_all(&window).await.unwrap();
    read(&mut other, 1, 1).await;
    assert_eq!(read(&mut other, 0, 1).await, b"well");
    drop((client, other));
    server.stop().await;
    assert_eq!(budget.memory.reading().used, 0);
}

/// A streaming request is open until its client ends it, and its memory is accounted until then.
#[tokio::test]
async fn streaming_requests_are_accounted_until_they_end() {
    use h2::{END_HEADERS, connect, frame, headers, read};
    let limit = 1 << 20;
    let budget = budget(|config| config.server.max_client_bytes = limit);
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
        .build_v1()
        .unwrap();
    let bounds = Bounds {
        heights: None,
        connections: Arc::clone(&budget.grpc),
        concurrent: 2,
        body: 1000,
        protocol: Protocol::Grpc { tls: None },
    };
    let routes = tonic::service::Routes::new(reflection).into_axum_router();
    let server = serve(listener().await, bounds, &budget, routes);
    let mut client = connect(&server).await;
    let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let streams = limit as usize / STREAMING_BYTES;
    for number in 0..u32::try_from(streams).unwrap() {
        let stream = 2 * number + 1;
        client.write_all(&frame(1, END_HEADERS, stream, &headers(path))).await.unwrap();
        read(&mut client, 1, stream).await;
        let used = budget.memory.reading().used;
        assert_eq!(used, u64::from(number + 1) * STREAMING_BYTES as u64);
    }
    let last = u32::try_from(2 * streams + 1).unwrap();
    client.write_all(&frame(1, END_HEADERS, last, &headers(path))).await.unwrap();
    read(&mut client, 1, last).await;
    assert_eq!(budget.memory.reading().refused, 1);
    drop(client);
    server.stop().await;
    // Each stream has its own task, which notices the end of the connection later.
    let freed = async {
        while budget.memory.reading().used > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), freed).await.expect("the memory is released");
}

/// Requests whose bodies do not arrive hold no permits, so other requests are answered.
#[tokio::test]
async fn unfinished_grpc_requests_take_no_permits() {
    use h2::{END_HEADERS, END_STREAM, connect, frame, headers, read};
    let (budget, handled) = (budget(|_| {}), Arc::default());
    let server = grpc_server(&budget, &handled).await;
    let mut client = connect(&server).await;
    for number in 0..10 {
        let request = frame(1, END_HEADERS, 2 * number + 1, &headers("/test/Large"));
        client.write_all(&request).await.unwrap();
    }
    let request = frame(1, END_HEADERS | END_STREAM, 21, &headers("/test/Large"));
    client.write_all(&request).await.unwrap();
    read(&mut client, 1, 21).await;
    assert_eq!(handled.load(SeqCst), 1);
    drop(client);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn idle_connection_is_closed() {
    let server = start_server().await;
    let mut client = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
}

/// Bytes that do not complete a request do not keep a connection open.
#[tokio::test(start_paused = true)]
async fn connection_whose_request_is_never_complete_is_closed() {
    let server = start_server().await;
    let mut client = TcpStream::connect(server.address).await.unwrap();
    let request = get_request("/");
    // The server closes the connection long before all bytes are sent, one every 30 seconds.
    let mut bytes = request.bytes();
    let sending = async {
        for byte in bytes.by_ref() {
            if client.write_all(&[byte]).await.is_err() {
                break;
            }
            sleep(MAX_IDLE / 4).await;
        }
    };
    sending.await;
    assert!(bytes.len() > request.len() / 2, "{} bytes were not sent", bytes.len());
}
