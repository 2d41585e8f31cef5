//! Tests that batches and large bodies are limited, and that the node serves other clients meanwhile.

use crate::client::{MAX_WAIT, Node, exchange};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

/// Time limit of each call and of each batch, in milliseconds.
const LIMIT_MS: u64 = 100;

async fn node() -> Node {
    Node::native_with(|config| {
        config.json_rpc.gas_cap = 0;
        config.json_rpc.max_request_bytes = 5_000_000;
        config.json_rpc.call_timeout_ms = LIMIT_MS;
        config.json_rpc.trace_timeout_ms = LIMIT_MS;
        config.json_rpc.logs_timeout_ms = LIMIT_MS;
    })
    .await
}

fn call(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params })
}

/// Returns a call of a contract that loops until its gas is used up: JUMPDEST PUSH0 JUMP.
fn endless() -> Value {
    let to = "0x00000000000000000000000000000000000000aa";
    let params =
        json!([{ "to": to, "gas": "0xffffffffffff" }, "latest", { to: { "code": "0x5b5f56" } }]);
    call("eth_call", &params)
}

/// A call may take as long as the whole batch, so the first call leaves no time for the others.
#[tokio::test(flavor = "multi_thread")]
async fn batch_has_one_deadline_for_all_its_calls() {
    let node = node().await;
    let mut calls = vec![endless(); 20];
    calls.push(json!(1));
    calls.push(call("eth_sendRawTransaction", &json!(["0x"])));
    let batch = Value::from(calls).to_string();
    let over_http = node.post(&batch).await;
    let mut socket = node.websocket(node.web_socket).await;
    socket.send(&batch).await;
    let over_websocket = timeout(MAX_WAIT, socket.receive()).await.unwrap();
    for responses in [over_http, over_websocket] {
        let errors: Vec<_> =
            responses.as_array().unwrap().iter().map(|response| &response["error"]).collect();
        assert_eq!(errors.len(), 22);
        let timed_out = json!({
            "code": -32002, "message": "request timed out", "data": { "limit": LIMIT_MS }
        });
        assert!(errors[1..20].iter().all(|error| **error == timed_out), "{responses}");
        assert_eq!(errors[20]["code"], -32600, "an invalid call has its own error");
        assert_eq!(*errors[21], timed_out);
    }
    // The threads are available again.
    let cheap = call("eth_chainId", &json!([]));
    let responses = node.post(&json!([cheap, cheap]).to_string()).await;
    assert_eq!(
        (&responses[0]["result"], &responses[1]["result"]),
        (&json!("0x40000"), &json!("0x40000"))
    );
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_have_the_same_responses_as_small_ones() {
    let node = node().await;
    let spaces = " ".repeat(100_000);
    let mut socket = node.websocket(node.web_socket).await;
    for (small, expected) in [
        (call("eth_chainId", &json!([])).to_string(), "\"result\":\"0x40000\""),
        (format!("[{0},{0}]", call("eth_chainId", &json!([]))), "\"result\":\"0x40000\""),
        ("{\"jsonrpc\":\"2.0\",\"id\":7}".to_owned(), "-32600"),
        ("{".to_owned(), "-32700"),
        (format!("[{}]", vec!["1"; 101].join(",")), "batch too large"),
    ] {
        let large = format!("{spaces}{small}{spaces}");
        let (status, response) = node.post_as("application/json", large.as_bytes()).await;
        assert!(status == 200 && response.contains(expected), "{small}: {response}");
        assert_eq!(
            (status, response.clone()),
            node.post_as("application/json", small.as_bytes()).await
        );
        socket.send(&small).await;
        assert_eq!(timeout(MAX_WAIT, socket.receive_text()).await.unwrap(), response);
    }
    // This request subscribes to the logs of many addresses.
    let addresses = vec![alloy_primitives::Address::ZERO; 1000];
    let mut subscription = call("eth_subscribe", &json!(["logs", { "address": addresses }]));
    subscription["padding"] = json!(" ".repeat(40_000));
    socket.send_long(&subscription.to_string()).await;
    let response = timeout(MAX_WAIT, socket.receive()).await.unwrap();
    assert!(response["result"].is_string(), "{response}");
    node.stop().await;
}

/// The node stops parsing each large batch at the first call above the limit, and refuses the batch. Meanwhile, it
/// answers calls of another client.
#[tokio::test(flavor = "multi_thread")]
async fn floods_of_items_are_refused_and_others_are_answered() {
    const CLIENTS: usize = 20;
    let node = node().await;
    let body = format!("[{}1]", "1,".repeat(2_000_000));
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let flood = [head.as_bytes(), body.as_bytes()].concat();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let (address, flood) = (node.json_rpc, flood.clone());
        clients.push(tokio::spawn(async move { exchange(address, &flood).await }));
    }
    for _ in 0..50 {
        assert_eq!(node.call("eth_chainId", json!([])).await, "0x40000");
    }
    for client in clients {
        let (status, response) = client.await.unwrap();
        assert!(status == 200 && response.contains("batch too large"), "{status}: {response}");
    }
    // An incomplete request occupies no thread.
    let mut half = TcpStream::connect(node.json_rpc).await.unwrap();
    half.write_all(&flood[..flood.len() - 1]).await.unwrap();
    assert_eq!(node.call("eth_chainId", json!([])).await, "0x40000");
    node.stop().await;
}
