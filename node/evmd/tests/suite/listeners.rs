//! Tests the rules that apply to all servers: hosts, origins, and how clients share resources.

use crate::{
    client::{MAX_WAIT, Node, any_port, exchange},
    common::{native_home, producing},
};
use config::Comet;
use cosmos_api::comet;
use pipeline::Pipeline;
use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

/// The address of another client on this machine.
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Connects from the given address of this machine.
async fn connect_from(source: IpAddr, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(source, 0)).unwrap();
    socket.connect(to).await.unwrap()
}

/// Sends a request. Returns everything that is received until the connection is closed.
async fn response(mut stream: TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    timeout(MAX_WAIT, stream.read_to_string(&mut text)).await.unwrap().unwrap();
    text
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n")
}

/// Returns the value of a metric about a resource that clients share.
async fn metric(node: &Node, name: &str, resource: &str) -> u64 {
    let request = get("/metrics", "Host: localhost\r\n");
    let (_, text) = exchange(node.metrics, request.as_bytes()).await;
    let start = format!("{name}{{resource=\"{resource}\"}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&start));
    value.unwrap().parse().unwrap()
}

#[tokio::test]
async fn every_server_checks_hosts_and_origins() {
    let node = Node::native().await;
    let queries = node.queries.clone();
    let comet = comet::serve(&Comet::default(), any_port().await, &node.budget, queries);
    for (server, address, path) in [
        ("json-rpc", node.json_rpc, "/"),
        ("rest", node.rest, "/cosmos/base/tendermint/v1beta1/syncing"),
        ("comet", comet.address, "/health"),
        ("metrics", node.metrics, "/health"),
    ] {
        let fetch = async |headers: &str| {
            let (status, text) = exchange(address, get(path, headers).as_bytes()).await;
            (status, text)
        };
        let status = async |headers: &str| fetch(headers).await.0;
        assert_eq!(status("Host: localhost\r\n").await, 200, "{server}");
        assert_eq!(status(&format!("Host: {address}\r\n")).await, 200, "{server}");
        let (refused, text) = fetch("Host: evil.example\r\n").await;
        assert_eq!(refused, 403, "{server}");
        assert!(text.contains(&format!("{server}.allowed-hosts")), "{text}");
        assert_eq!(status("").await, 400, "{server}: no host");
        assert_eq!(status("Host: localhost\r\nHost: localhost\r\n").await, 400, "{server}: two");
        let probe = format!("GET {path} HTTP/1.0\r\n\r\n");
        let (probed, _) = exchange(address, probe.as_bytes()).await;
        assert_eq!(probed, 200, "{server}: a health check");
        let allowed = async |origin: &str| {
            let headers = format!("Host: localhost\r\nOrigin: {origin}\r\n");
            let stream = TcpStream::connect(address).await.unwrap();
            response(stream, &get(path, &headers)).await.contains("access-control-allow-origin")
        };
        assert!(allowed("http://localhost:3000").await, "{server}");
        assert!(!allowed("https://evil.example").await, "{server}");
        let two = "http://localhost:3000\r\nOrigin: https://evil.example";
        let (refused, text) = fetch(&format!("Host: localhost\r\nOrigin: {two}\r\n")).await;
        assert_eq!(refused, 400, "{server}");
        assert!(text.contains("at most one Origin"), "{server}: {text}");
        let post = "POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\
                    Content-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
        let (posted, _) = exchange(address, post.as_bytes()).await;
        assert!(posted >= 400, "{server}: a cross-origin POST");
    }
    comet.stop().await;
    node.stop().await;
}

/// One address uses all JSON-RPC connections, and another one is still served.
#[tokio::test]
async fn other_clients_are_served_if_one_uses_all_connections() {
    let node = Node::native_with(|config| config.json_rpc.max_connections = 4).await;
    let request = get("/", "Host: localhost\r\n").replace("Connection: close\r\n", "");
    let mut open = Vec::new();
    for _ in 0..4 {
        let mut stream = connect_from(OTHER, node.json_rpc).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'H');
        open.push(stream);
    }
    let request = get("/", "Host: localhost\r\n");
    let refused = response(connect_from(OTHER, node.json_rpc).await, &request).await;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    let stream = TcpStream::connect(node.json_rpc).await.unwrap();
    let served = response(stream, &get("/", "Host: localhost\r\n")).await;
    assert!(served.starts_with("HTTP/1.1 200"), "{served}");
    // The node has closed exactly one of the first connections for the new client.
    let mut reading = tokio::task::JoinSet::new();
    for mut stream in open {
        reading.spawn(async move {
            while stream.read(&mut [0; 4096]).await.is_ok_and(|count| count > 0) {}
        });
    }
    timeout(MAX_WAIT, reading.join_next()).await.unwrap();
    assert_eq!(
        metric(&node, "evmd_client_resource_evicted_total", "json_rpc_connections").await,
        1
    );
    drop(reading);
    node.stop().await;
}

/// One address sends 20 incomplete bodies. The node still answers a call from another client, and memory stays below the
/// limit.
#[tokio::test]
async fn unfinished_bodies_of_json_rpc_are_limited_and_evicted() {
    const LIMIT: u64 = 4 << 20;
    const BODY: usize = 900_000;
    let node = Node::native_with(|config| config.server.max_client_bytes = LIMIT).await;
    let head = |length: usize| {
        format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Connection: close\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let mut open = Vec::new();
    for _ in 0..20 {
        let mut stream = connect_from(OTHER, node.json_rpc).await;
        stream.write_all(head(BODY).as_bytes()).await.unwrap();
        // The node stops reading a body that it refuses, so this write may fail.
        let _ = stream.write_all(&vec![b' '; BODY - 1]).await;
        open.push(stream);
    }
    // A call from another client needs memory that the first client holds.
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}"#;
    let body = format!("{call}{}", " ".repeat(BODY - call.len()));
    let stream = TcpStream::connect(node.json_rpc).await.unwrap();
    let text = response(stream, &format!("{}{body}", head(BODY))).await;
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("\"result\":\"0x"), "{text}");
    assert!(metric(&node, "evmd_client_resource_refused_total", "memory_bytes").await > 0);
    assert!(metric(&node, "evmd_client_resource_used", "memory_bytes").await <= LIMIT);
    drop(open);
    node.stop().await;
}

/// Without `server.trusted-proxies`, a noisy client behind a proxy would use up the limit of a quiet client.
#[tokio::test]
async fn clients_behind_a_trusted_proxy_have_separate_limits() {
    let node = Node::native_with(|config| {
        config.json_rpc.rate_per_ip = 20;
        config.server.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    })
    .await;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}"#;
    let status = async |client: &str| {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {client}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        exchange(node.json_rpc, request.as_bytes()).await.0
    };
    let mut refused = 0;
    for _ in 0..60 {
        refused += u32::from(status("203.0.113.1").await == 429);
    }
    assert!(refused > 0, "the noisy client reaches its limit");
    for _ in 0..3 {
        assert_eq!(status("203.0.113.2").await, 200, "the quiet client is served");
    }
    node.stop().await;
}

/// The memory of a request head is not charged to the client, so the size of the head is limited.
#[tokio::test]
async fn request_head_is_limited() {
    const LIMIT: usize = 32 * 1024;
    let node = Node::native().await;
    let head = |bytes: usize| {
        let rest = get("/", "Host: localhost\r\nX-Padding: \r\n").len();
        get("/", &format!("Host: localhost\r\nX-Padding: {}\r\n", "x".repeat(bytes - rest)))
    };
    for (bytes, expected) in [(LIMIT - 1, 200), (LIMIT, 200), (LIMIT + 1, 431)] {
        let request = head(bytes);
        assert_eq!(request.len(), bytes);
        let (status, _) = exchange(node.json_rpc, request.as_bytes()).await;
        assert_eq!(status, expected, "{bytes} bytes");
    }
    node.stop().await;
}

/// One address uses all ingest connections, and a frame from another one is still answered.
#[test]
fn other_ingest_clients_are_served_if_one_uses_all_connections() {
    let folder = tempfile::tempdir().unwrap();
    let mut home = native_home(folder.path());
    home.config.ingest.max_connections = 4;
    let pipeline = Pipeline::start(&home, producing(None)).unwrap();
    let address = pipeline.ingest_address.unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connect = |source| {
        let stream = runtime.block_on(connect_from(source, address)).into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(MAX_WAIT)).unwrap();
        stream
    };
    // A response shows that the connection was accepted; the frame contains no transaction.
    let exchange_frame = |stream: &mut std::net::TcpStream| {
        stream.write_all(&[0, 0, 0, 1, 0xff])?;
        let mut status = [0];
        stream.read_exact(&mut status).map(|()| status[0])
    };
    let mut open: Vec<_> = (0..4).map(|_| connect(OTHER)).collect();
    for stream in &mut open {
        assert_eq!(exchange_frame(stream).unwrap(), 1);
    }
    let mut fifth = connect(OTHER);
    let closed = exchange_frame(&mut fifth).unwrap_err().kind();
    assert!(matches!(
        closed,
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    ));
    let mut other = connect(IpAddr::V4(Ipv4Addr::LOCALHOST));
    assert_eq!(exchange_frame(&mut other).unwrap(), 1);
    pipeline.stop();
    pipeline.join().unwrap();
}
