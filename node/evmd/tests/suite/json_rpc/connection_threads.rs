//! Moving a connection between threads has no effect that its client can observe.

use crate::client::{MAX_WAIT, Node};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Number of calls in a batch whose response is large: each call returns a block, which includes a bloom filter.
const CALLS: u64 = 150;
/// Number of small responses after which a connection has moved back to its first thread.
const SMALL: u64 = 70;

/// Starts a node with one thread for each kind of connection.
async fn node() -> Node {
    Node::native_with(|config| {
        config.json_rpc.threads = 2;
        config.json_rpc.max_batch = CALLS as u32;
    })
    .await
}

fn call(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn request(body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

async fn receive(stream: &mut TcpStream) -> Value {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// Waits until the only connection is on this thread.
async fn wait_for_thread(node: &Node, thread: &str) {
    let one = format!("evmd_rpc_connections{{thread=\"{thread}\"}} 1\n");
    let moved = async { while !node.get("/metrics").await.1.contains(&one) {} };
    timeout(MAX_WAIT, moved).await.unwrap_or_else(|_| panic!("the connection is not on {thread}"));
}

/// Each request is sent together with the first bytes of the next one. The old thread reads these bytes.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_begin_before_a_move_are_answered_after_it() {
    const NEXT_BYTES: usize = 30;
    let node = node().await;
    let block = |id| call(id, "eth_getBlockByNumber", json!(["0x0", false]));
    let mut requests = Vec::new();
    for _ in 0..2 {
        requests.push(Value::from_iter((0..CALLS).map(block)));
        requests.extend((0..SMALL).map(|id| call(id, "eth_chainId", json!([]))));
    }
    let raw: Vec<_> = requests.iter().map(request).collect();
    let mut stream = TcpStream::connect(node.json_rpc).await.unwrap();
    let mut written = 0;
    for (index, body) in requests.iter().enumerate() {
        let mut bytes = raw[index][written..].to_vec();
        let next = raw.get(index + 1).map_or(&[][..], |next| &next[..NEXT_BYTES]);
        bytes.extend_from_slice(next);
        written = next.len();
        stream.write_all(&bytes).await.unwrap();
        let response = timeout(MAX_WAIT, receive(&mut stream)).await.unwrap();
        match body.as_array() {
            Some(calls) => {
                let ids: Vec<_> =
                    response.as_array().unwrap().iter().map(|call| &call["id"]).collect();
                assert!(ids.iter().copied().eq(calls.iter().map(|call| &call["id"])), "{ids:?}");
                assert!(response.to_string().len() > 64 * 1024);
                wait_for_thread(&node, "bulk-0").await;
            }
            None => {
                assert_eq!(
                    (&response["id"], &response["result"]),
                    (&body["id"], &json!("0x40000"))
                );
            }
        }
        if body["id"] == json!(SMALL - 1) {
            wait_for_thread(&node, "serve-0").await;
        }
    }
    node.stop().await;
}

/// The client does not wait for responses, and the connection moves whenever the server is idle. Most bytes have
/// been read before the first move.
#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_order() {
    let node = node().await;
    let block = |id| call(id, "eth_getBlockByNumber", json!(["0x0", false]));
    let mut stream = TcpStream::connect(node.json_rpc).await.unwrap();
    // After a large request, the server reads in larger chunks.
    let mut long = call(1, "eth_chainId", json!([]));
    long["long"] = json!(" ".repeat(900_000));
    stream.write_all(&request(&long)).await.unwrap();
    assert_eq!(timeout(MAX_WAIT, receive(&mut stream)).await.unwrap()["result"], json!("0x40000"));
    let requests = (0..3 * SMALL).flat_map(|id| match id % SMALL {
        0 => request(&Value::from_iter((0..CALLS).map(block))),
        _ => request(&call(id, "eth_chainId", json!([]))),
    });
    let (mut from, mut to) = stream.into_split();
    let requests: Vec<_> = requests.collect();
    let writing = tokio::spawn(async move { to.write_all(&requests).await.map(|()| to) });
    let mut text = Vec::new();
    let last = format!("\"id\":{},", 3 * SMALL - 1);
    let read = async {
        while !text.windows(last.len()).rev().take(4096).any(|part| part == last.as_bytes()) {
            assert!(from.read_buf(&mut text).await.unwrap() > 0, "the connection was closed");
        }
    };
    timeout(MAX_WAIT, read).await.unwrap();
    drop(writing.await.unwrap().unwrap());
    let text = String::from_utf8(text).unwrap();
    assert!(text.len() > 3 * 64 * 1024, "{}", text.len());
    let mut small: Vec<_> = text.split(",\"result\":\"0x40000\"").collect();
    small.pop();
    let ids = small.iter().map(|before| before.rsplit(':').next().unwrap().parse::<u64>().unwrap());
    assert!(ids.eq((0..3 * SMALL).filter(|id| id % SMALL > 0)));
    assert_eq!(text.matches("HTTP/1.1 200").count() as u64, 3 * SMALL);
    node.stop().await;
}

/// If the head of a request is refused, the server must not treat the rest of its body as the next request.
#[tokio::test(flavor = "multi_thread")]
async fn rest_of_a_refused_body_is_not_parsed_as_a_request() {
    let node = node().await;
    let block = |id| call(id, "eth_getBlockByNumber", json!(["0x0", false]));
    let large = request(&Value::from_iter((0..CALLS).map(block)));
    let smuggled = request(&call(666, "eth_chainId", json!([])));
    let refused = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n1",
        1 + smuggled.len()
    );
    let mut stream = TcpStream::connect(node.json_rpc).await.unwrap();
    stream.write_all(&[&large, refused.as_bytes()].concat()).await.unwrap();
    let mut text = Vec::new();
    let read = async {
        let is_refused =
            |text: &[u8]| text.windows(12).rev().take(4096).any(|part| part == b"HTTP/1.1 415");
        while !is_refused(&text) {
            assert!(stream.read_buf(&mut text).await.unwrap() > 0, "the connection was closed");
        }
        // The connection may already have been closed.
        let _ = stream.write_all(&smuggled).await;
        let _ = stream.shutdown().await;
        let _ = stream.read_to_end(&mut text).await;
    };
    timeout(MAX_WAIT, read).await.unwrap();
    assert!(!String::from_utf8_lossy(&text).contains("666"));
    node.stop().await;
}
