//! Tests clients that close their sending side after a request and wait for the response.

use crate::client::{MAX_WAIT, Node};
use serde_json::{Value, json};
use std::{net::SocketAddr, time::Instant};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Sends a request and closes the sending side. Returns all bytes that are received.
async fn exchange_half_closed(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut received = Vec::new();
    // The node may reset an abandoned connection.
    let _ = stream.read_to_end(&mut received).await;
    String::from_utf8(received).unwrap()
}

fn post(body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// Returns a call that runs this code.
fn call(code: &str) -> Value {
    let to = "0x00000000000000000000000000000000000c0de0";
    let params = json!([{ "to": to, "gas": "0xffffffffffff" }, "latest", { to: { "code": code } }]);
    json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": params })
}

/// Returns the body of a response, which must be complete.
fn body(received: &str) -> &str {
    let (head, body) = received.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{received:?}"));
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let length = head
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    assert_eq!(length, Some(body.len()), "{head}");
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn response_is_sent_to_a_client_that_has_closed_its_sending_side() {
    let node = Node::native().await;
    let chain_id = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_chainId" });
    let long = json!({ "jsonrpc": "2.0", "id": "7".repeat(100_000), "method": "eth_chainId" });
    // Each call returns 60,000 bytes.
    let large = Value::Array(vec![call("0x61ea606000f3"); 20]);
    for _ in 0..20 {
        for request in [&chain_id, &call("0x00"), &json!([chain_id, call("0x00")]), &long, &large] {
            let received = exchange_half_closed(node.json_rpc, &post(request)).await;
            let response: Value = serde_json::from_str(body(&received)).unwrap();
            let responses = response.as_array().cloned().unwrap_or_else(|| vec![response]);
            assert!(responses.iter().all(|response| response["result"].is_string()));
        }
        let received = exchange_half_closed(node.rest, &get("/cosmos/auth/v1beta1/params")).await;
        assert!(body(&received).starts_with('{'));
        let received = exchange_half_closed(node.metrics, &get("/metrics")).await;
        assert!(body(&received).contains("# HELP"));
    }
    node.stop().await;
}

/// The node cannot distinguish this client from one that has disconnected.
#[tokio::test(flavor = "multi_thread")]
async fn request_is_abandoned_some_time_after_a_half_close() {
    let node = Node::native_with(|config| {
        config.json_rpc.gas_cap = 0;
        config.json_rpc.call_timeout_ms = 600_000;
    })
    .await;
    let began = Instant::now();
    let received = exchange_half_closed(node.json_rpc, &post(&call("0x5b600056"))).await;
    assert_eq!(received, "", "no response");
    assert!(began.elapsed() < MAX_WAIT);
    // A request with an incomplete body is not executed.
    let part = post(&call("0x00"));
    let received = exchange_half_closed(node.json_rpc, &part[..part.len() - 1]).await;
    assert!(!received.contains("result"), "{received}");
    node.stop().await;
}
