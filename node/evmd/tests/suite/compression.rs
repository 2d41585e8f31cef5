//! Tests that large responses over HTTP are compressed for clients that accept compression.

use crate::client::Node;
use flate2::bufread::GzDecoder;
use serde_json::{Value, json};
use std::{io::Read, net::SocketAddr};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

struct Received {
    head: String,
    body: Vec<u8>,
}

impl Received {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    fn is_compressed(&self) -> bool {
        self.header("content-encoding") == Some("gzip")
    }

    /// Returns the decompressed body.
    fn text(&self) -> String {
        assert_eq!(self.header("content-length"), Some(self.body.len().to_string().as_str()));
        if !self.is_compressed() {
            return String::from_utf8(self.body.clone()).unwrap();
        }
        let mut text = String::new();
        GzDecoder::new(&self.body[..]).read_to_string(&mut text).unwrap();
        text
    }
}

async fn exchange(address: SocketAddr, request: &str) -> Received {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await.unwrap();
    let end = received.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(received[..end].to_vec()).unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    Received { head, body: received[end + 4..].to_vec() }
}

async fn post(address: SocketAddr, accepted: &str, body: &str) -> Received {
    let request = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{accepted}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    exchange(address, &request).await
}

async fn get(address: SocketAddr, accepted: &str, path: &str) -> Received {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{accepted}\r\n");
    exchange(address, &request).await
}

/// Returns a call whose result has this many bytes, and thus twice as many hex digits.
fn returning(bytes: u16) -> Value {
    let to = "0x00000000000000000000000000000000000c0de0";
    let code = format!("0x61{bytes:04x}6000f3");
    let params = json!([{ "to": to }, "latest", { to: { "code": code } }]);
    json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": params })
}

const GZIP: &str = "Accept-Encoding: br, gzip;q=0.8\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn large_json_rpc_responses_are_compressed_if_the_client_accepts_it() {
    let node = Node::native().await;
    let address = node.json_rpc;
    let one = returning(50_000);
    let batch = json!([one, returning(10), returning(30_000), one]);
    for body in [one.to_string(), batch.to_string()] {
        let plain = post(address, "", &body).await;
        assert!(!plain.is_compressed());
        assert_eq!(plain.header("vary"), Some("accept-encoding"));
        let compressed = post(address, GZIP, &body).await;
        assert!(compressed.is_compressed(), "{}", compressed.head);
        assert_eq!(compressed.header("vary"), Some("accept-encoding"));
        assert_eq!(compressed.header("content-type"), Some("application/json"));
        assert!(10 * compressed.body.len() < plain.body.len());
        assert_eq!(compressed.text(), plain.text());
        for refusing in
            ["Accept-Encoding: gzip;q=0\r\n", "Accept-Encoding: identity, gzip;q=0.5\r\n"]
        {
            assert!(!post(address, refusing, &body).await.is_compressed(), "{refusing}");
        }
    }
    // Small responses are not compressed.
    let small = post(address, GZIP, &returning(2_000).to_string()).await;
    assert!(!small.is_compressed() && small.header("vary").is_none(), "{}", small.head);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_receive_complete_compressed_responses_at_once() {
    let node = Node::native().await;
    let (address, body) = (node.json_rpc, returning(60_000).to_string());
    let expected = post(address, "", &body).await.text();
    let clients = (0..40).map(|_| {
        let (body, expected) = (body.clone(), expected.clone());
        tokio::spawn(async move {
            for _ in 0..5 {
                let received = post(address, GZIP, &body).await;
                assert_eq!(received.text(), expected);
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_rest_responses_are_compressed_too() {
    let node = Node::native().await;
    let path = "/openapi.json";
    let plain = get(node.rest, "", path).await;
    assert!(!plain.is_compressed() && plain.body.len() > 16 * 1024);
    assert!(plain.head.to_lowercase().contains("vary: accept-encoding"), "{}", plain.head);
    let compressed = get(node.rest, GZIP, path).await;
    assert!(compressed.is_compressed(), "{}", compressed.head);
    assert!(compressed.body.len() < plain.body.len());
    assert_eq!(compressed.text(), plain.text());
    // The file is stored compressed, so the node decompresses it for clients that do not accept compression.
    let path = "/swagger/swagger-ui.css";
    let compressed = get(node.rest, GZIP, path).await;
    assert!(compressed.is_compressed());
    assert_eq!(compressed.text(), get(node.rest, "", path).await.text());
    let small = get(node.rest, GZIP, "/cosmos/auth/v1beta1/params").await;
    assert!(!small.is_compressed());
    node.stop().await;
}
