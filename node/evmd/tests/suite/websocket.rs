//! Tests that WebSockets conform to RFC 6455, and that their responses equal those over HTTP.

use crate::client::{MAX_WAIT, Node, exchange};
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

const FIN: u8 = 0x80;
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// A call and its response.
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;
const RESPONSE: &str = r#"{"jsonrpc":"2.0","id":1,"result":"0x40000"}"#;

/// Returns a client's handshake with this version of the protocol.
fn handshake(version: u8) -> String {
    format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: {version}\r\n\r\n"
    )
}

/// Returns a masked frame with this first byte.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x12, 0x34, 0x56, 0x78];
    let mut frame = match payload.len() {
        short @ 0..126 => vec![first, 0x80 | short as u8],
        long => {
            let mut head = vec![first, 0x80 | 127];
            head.extend((long as u64).to_be_bytes());
            head
        }
    };
    if let middle @ 126..0x1_0000 = payload.len() {
        let [high, low] = (middle as u16).to_be_bytes();
        frame = vec![first, 0x80 | 126, high, low];
    }
    frame.extend(MASK);
    frame.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ MASK[at % 4]));
    frame
}

/// A connection that sends and receives raw frames.
struct Raw(TcpStream);

impl Raw {
    async fn open(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(handshake(13).as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        assert!(head.starts_with("http/1.1 101"), "{head}");
        // This is the value in the RFC (section 1.3).
        assert!(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
        Self(stream)
    }

    async fn send(&mut self, frames: &[Vec<u8>]) {
        self.0.write_all(&frames.concat()).await.unwrap();
    }

    /// Returns the opcode and payload of the next frame.
    async fn receive(&mut self) -> (u8, Vec<u8>) {
        let read = async {
            let mut head = [0; 2];
            self.0.read_exact(&mut head).await.unwrap();
            assert_eq!(head[0] & 0xf0, FIN, "the server sends each message as one frame");
            let length = match head[1] {
                126 => self.0.read_u16().await.unwrap().into(),
                127 => self.0.read_u64().await.unwrap(),
                short => u64::from(short),
            };
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.0.read_exact(&mut payload).await.unwrap();
            (head[0] & 0x0f, payload)
        };
        timeout(MAX_WAIT, read).await.unwrap()
    }

    async fn receive_text(&mut self) -> String {
        let (opcode, payload) = self.receive().await;
        assert_eq!(opcode, TEXT, "{payload:x?}");
        String::from_utf8(payload).unwrap()
    }

    /// Returns the status in the next close frame. The server must then close the connection.
    async fn closed(mut self) -> u16 {
        let (opcode, payload) = self.receive().await;
        assert_eq!(opcode, CLOSE, "{payload:x?}");
        let mut rest = Vec::new();
        timeout(MAX_WAIT, self.0.read_to_end(&mut rest)).await.unwrap().unwrap();
        assert!(rest.is_empty());
        if payload.is_empty() { 1005 } else { u16::from_be_bytes(*payload.first_chunk().unwrap()) }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_violate_the_protocol_close_the_connection() {
    let node = Node::native().await;
    let unmasked = [&[FIN | TEXT, CALL.len() as u8][..], CALL.as_bytes()].concat();
    let snowman = "☃".as_bytes();
    let too_large = vec![b' '; 1_000_001];
    let cases: Vec<(&str, Vec<Vec<u8>>, u16)> = vec![
        ("not masked", vec![unmasked], 1002),
        ("a reserved bit", vec![frame(FIN | 0x40 | TEXT, CALL.as_bytes())], 1002),
        ("a reserved opcode", vec![frame(FIN | 3, b"")], 1002),
        ("a reserved control opcode", vec![frame(FIN | 11, b"")], 1002),
        ("a long ping", vec![frame(FIN | PING, &[0; 126])], 1002),
        ("a fragmented ping", vec![frame(PING, b"")], 1002),
        ("a continuation of nothing", vec![frame(FIN | CONTINUATION, b"x")], 1002),
        ("a message in a message", vec![frame(TEXT, b"{"), frame(FIN | TEXT, b"}")], 1002),
        ("no UTF-8", vec![frame(FIN | TEXT, b"\"\xff\"")], 1007),
        (
            "half a character",
            vec![frame(TEXT, &snowman[..2]), frame(FIN | CONTINUATION, b"x")],
            1007,
        ),
        ("too large", vec![frame(FIN | TEXT, &too_large)], 1009),
        (
            "too large in fragments",
            vec![frame(TEXT, &too_large[1..]), frame(FIN | CONTINUATION, b" ")],
            1009,
        ),
        ("a status that is reserved", vec![frame(FIN | CLOSE, &1005_u16.to_be_bytes())], 1002),
        ("a normal end", vec![frame(FIN | CLOSE, &1000_u16.to_be_bytes())], 1000),
        (
            "an end with a status of its own",
            vec![frame(FIN | CLOSE, &4000_u16.to_be_bytes())],
            4000,
        ),
        ("an end without a status", vec![frame(FIN | CLOSE, b"")], 1005),
    ];
    for address in [node.json_rpc, node.web_socket] {
        for (what, frames, status) in &cases {
            let mut raw = Raw::open(address).await;
            // A message before the violation is still answered.
            raw.send(&[frame(FIN | TEXT, CALL.as_bytes())]).await;
            assert_eq!(raw.receive_text().await, RESPONSE, "{what}");
            // The server may close the connection before all bytes are sent.
            let _ = raw.0.write_all(&frames.concat()).await;
            assert_eq!(raw.closed().await, *status, "{what}");
        }
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_valid_frames_are_answered() {
    let node = Node::native().await;
    let mut raw = Raw::open(node.web_socket).await;
    let (start, end) = CALL.as_bytes().split_at(20);
    raw.send(&[frame(FIN | BINARY, CALL.as_bytes())]).await;
    assert_eq!(raw.receive_text().await, RESPONSE);
    raw.send(&[
        frame(TEXT, b""),
        frame(CONTINUATION, start),
        frame(CONTINUATION, b""),
        frame(FIN | PING, b"between"),
        frame(CONTINUATION, end),
        frame(FIN | CONTINUATION, b""),
    ])
    .await;
    assert_eq!(raw.receive().await, (PONG, b"between".to_vec()));
    assert_eq!(raw.receive_text().await, RESPONSE);
    raw.send(&[frame(FIN | PONG, b"unsolicited"), frame(FIN | TEXT, b"")]).await;
    let error: Value = serde_json::from_str(&raw.receive_text().await).unwrap();
    assert_eq!(error["error"]["code"], -32700, "an empty message is not JSON");
    let text = CALL.replace("\"id\":1", "\"id\":\"☃\"");
    // Each frame carries one byte, so the snowman character is split.
    let (last, first) = text.as_bytes().split_last().unwrap();
    let mut frames: Vec<_> = first.iter().map(|byte| frame(CONTINUATION, &[*byte])).collect();
    frames[0][0] = TEXT;
    frames.push(frame(FIN | CONTINUATION, &[*last]));
    raw.send(&frames).await;
    assert_eq!(raw.receive_text().await, RESPONSE.replace("\"id\":1", "\"id\":\"☃\""));
    // This message has the maximum size.
    let largest = format!("{CALL}{}", " ".repeat(1_000_000 - CALL.len()));
    raw.send(&[frame(FIN | TEXT, largest.as_bytes())]).await;
    assert_eq!(raw.receive_text().await, RESPONSE);
    node.stop().await;
}

/// web3.js reconnects after this status, but not after 1000.
#[tokio::test(flavor = "multi_thread")]
async fn stopping_node_closes_with_going_away() {
    let node = Node::native().await;
    let (idle, mut used) = (Raw::open(node.json_rpc).await, Raw::open(node.json_rpc).await);
    used.send(&[frame(FIN | TEXT, CALL.as_bytes())]).await;
    assert_eq!(used.receive_text().await, RESPONSE);
    let (idle, used, _) = tokio::join!(idle.closed(), used.closed(), node.stop());
    assert_eq!((idle, used), (1001, 1001));
}

/// If each frame counted as a message, the connection would exceed its limit of unanswered messages and not be read.
#[tokio::test(flavor = "multi_thread")]
async fn empty_continuation_frames_are_not_messages() {
    const MANY: usize = 20_000;
    let node = Node::native().await;
    let mut raw = Raw::open(node.json_rpc).await;
    let mut frames = vec![frame(TEXT, CALL.as_bytes())];
    frames.extend(vec![frame(CONTINUATION, b""); MANY]);
    frames.push(frame(FIN | CONTINUATION, b""));
    raw.send(&frames).await;
    assert_eq!(raw.receive_text().await, RESPONSE);
    raw.send(&[frame(FIN | TEXT, CALL.as_bytes())]).await;
    assert_eq!(raw.receive_text().await, RESPONSE);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_are_checked() {
    let node = Node::native().await;
    for address in [node.json_rpc, node.web_socket] {
        let status = async |request: String| exchange(address, request.as_bytes()).await.0;
        assert_eq!(status(handshake(8).replace("Upgrade\r", "Upgrade, close\r")).await, 426);
        let no_key = handshake(13).replace("Sec-WebSocket-Key", "Sec-WebSocket-None");
        assert_eq!(status(no_key.replace("n: Upgrade", "n: Upgrade, close")).await, 400);
        let post = handshake(13).replace("GET", "POST").replace("n: Upgrade", "n: Upgrade, close");
        assert_eq!(status(post).await, 400);
        // The bytes of a body would otherwise be parsed as frames.
        let body = handshake(13).replace("n: Upgrade", "n: Upgrade, close");
        let body = body.replace("\r\n\r\n", "\r\nContent-Length: 5\r\n\r\nabcde");
        assert_eq!(status(body).await, 400);
    }
    // Java's HTTP client offers HTTP/2 in this way with its first request.
    let offer = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings, close\r\n\
         Upgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{CALL}",
        CALL.len()
    );
    let response = exchange(node.json_rpc, offer.as_bytes()).await;
    assert_eq!(response, (200, RESPONSE.to_owned()));
    node.stop().await;
}

/// Ids as JSON text, and whether each is valid.
const IDS: [(&str, bool); 17] = [
    ("0", true),
    ("-1", true),
    ("1.5", true),
    ("1.0", true),
    ("1e3", true),
    ("-0", true),
    ("18446744073709551615", true),
    ("18446744073709551616", true),
    ("123456789012345678901234567890.5", true),
    ("\"a\"", true),
    ("\"\"", true),
    (r#""a\u0041\"\\\n☃""#, true),
    ("null", true),
    ("{}", false),
    ("[1]", false),
    ("true", false),
    ("false", false),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_id_receives_the_response_that_http_sends() {
    let node = Node::native().await;
    let mut socket = node.websocket(node.web_socket).await;
    let mut all = Vec::new();
    for (id, is_id) in IDS {
        for method in ["eth_chainId", "eth_nothing"] {
            let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#);
            let batch = format!("[{call}, 1, {call}]");
            for body in [&call, &batch] {
                let (_, over_http) = node.post_as("application/json", body.as_bytes()).await;
                socket.send(body).await;
                let over_websocket = timeout(MAX_WAIT, socket.receive_text()).await.unwrap();
                assert_eq!(over_websocket, over_http, "{body}");
                let expected = if is_id { id } else { "null" };
                assert!(over_http.contains(&format!("\"id\":{expected},")), "{over_http}");
            }
            all.push(call);
        }
    }
    let all = format!("[{}]", all.join(","));
    socket.send(&all).await;
    let received = timeout(MAX_WAIT, socket.receive_text()).await.unwrap();
    let (_, over_http) = node.post_as("application/json", all.as_bytes()).await;
    assert_eq!(received, over_http);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_are_opened_and_closed_by_calls_with_any_id() {
    let node = Node::native().await;
    let mut socket = node.websocket(node.json_rpc).await;
    for (id, is_id) in IDS {
        let call = |method: &str, params: Value| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
        };
        socket.send(&call("eth_subscribe", json!(["syncing"]))).await;
        let text = timeout(MAX_WAIT, socket.receive_text()).await.unwrap();
        let response: Value = serde_json::from_str(&text).unwrap();
        if !is_id {
            assert_eq!(response["error"]["code"], -32600, "{text}");
            continue;
        }
        let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"0x"#);
        assert!(text.starts_with(&start), "{text}");
        let subscription = &response["result"];
        let pushed = timeout(MAX_WAIT, socket.receive()).await.unwrap();
        let expected = json!({ "subscription": subscription, "result": false });
        assert_eq!((&pushed["method"], &pushed["params"]), (&json!("eth_subscription"), &expected));
        for (params, outcome) in [
            (json!(["oldHeads"]), "\"error\":{\"code\":-32601,"),
            (json!([7]), "\"error\":{\"code\":-32602,"),
        ] {
            socket.send(&call("eth_subscribe", params)).await;
            let text = timeout(MAX_WAIT, socket.receive_text()).await.unwrap();
            let start = format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}"#);
            assert!(text.starts_with(&start), "{text}");
        }
        socket.send(&call("eth_unsubscribe", json!([subscription]))).await;
        let text = timeout(MAX_WAIT, socket.receive_text()).await.unwrap();
        assert_eq!(text, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":true}}"#));
    }
    // A request without an id is a notification: it opens no subscription and receives no response.
    socket.send(r#"{"jsonrpc":"2.0","method":"eth_subscribe","params":["syncing"]}"#).await;
    assert_eq!(socket.call("eth_chainId", json!([])).await, "0x40000");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_of_a_connection_are_limited() {
    const MAX: u32 = 3;
    let node = Node::native_with(|config| config.json_rpc.max_subscriptions = MAX).await;
    let mut socket = node.websocket(node.json_rpc).await;
    let mut open = Vec::new();
    for _ in 0..MAX {
        open.push(socket.call("eth_subscribe", json!(["newPendingTransactions"])).await);
    }
    let error = socket.response("eth_subscribe", json!(["newPendingTransactions"])).await;
    assert_eq!(
        (&error["error"]["code"], &error["error"]["data"]["limit"]),
        (&json!(-32006), &json!(MAX))
    );
    let mut other = node.websocket(node.json_rpc).await;
    let refused = other.response("eth_unsubscribe", json!([open[0]])).await;
    assert_eq!(refused["error"]["code"], -32000, "it is the subscription of another connection");
    assert_eq!(socket.call("eth_unsubscribe", json!([open[0]])).await, true);
    // The permit of a subscription is released once its task has ended.
    let again = async {
        while socket.response("eth_subscribe", json!(["newHeads"])).await.get("error").is_some() {}
    };
    timeout(MAX_WAIT, again).await.expect("a subscription is possible again");
    node.stop().await;
}

/// Memory of subscription filters is charged to the client.
#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_use_the_memory_of_clients() {
    let node = Node::native().await;
    let used = async || {
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let (_, text) = exchange(node.metrics, request.as_bytes()).await;
        let start = "evmd_client_resource_used{resource=\"memory_bytes\"} ";
        let value = text.lines().find_map(|line| line.strip_prefix(start));
        value.unwrap().parse::<usize>().unwrap()
    };
    let addresses: Vec<_> = (0..1000).map(|number| format!("0x{number:040x}")).collect();
    let params = json!(["logs", { "address": addresses }]);
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": params });
    let mut raw = Raw::open(node.web_socket).await;
    for number in 1..=10 {
        raw.send(&[frame(FIN | TEXT, call.to_string().as_bytes())]).await;
        let opened: Value = serde_json::from_str(&raw.receive_text().await).unwrap();
        assert!(opened["result"].is_string(), "{opened}");
        assert!(used().await >= number * 20 * 1000, "{number}");
    }
    drop(raw);
    let freed = async {
        while used().await > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(MAX_WAIT, freed).await.unwrap();
    node.stop().await;
}
