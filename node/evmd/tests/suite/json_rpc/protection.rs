//! One client can neither overload the node nor block other clients.

use crate::{
    client::{MAX_WAIT, Node, exchange},
    common::transfer,
};
use alloy_primitives::Address;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Returns the parameters of a call to a contract that loops until its gas is used up: JUMPDEST PUSH0 JUMP.
fn endless() -> Value {
    let code = json!({ "0x00000000000000000000000000000000000000aa": { "code": "0x5b5f56" } });
    json!([{ "to": "0x00000000000000000000000000000000000000aa", "gas": "0xffffffffffff" },
           "latest", code])
}

fn body(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

fn request(host: &str, extra: &str, body: &str) -> String {
    format!(
        "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{extra}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_hosts_and_origins_are_refused() {
    let node = Node::native().await;
    let call = body("eth_chainId", &json!([]));
    let post_with = async |host: &str, extra: &str| {
        let extra = format!("Connection: close\r\n{extra}");
        let request = request(host, &extra, &call);
        let mut stream = TcpStream::connect(node.json_rpc).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        timeout(MAX_WAIT, stream.read_to_string(&mut response)).await.unwrap().unwrap();
        response.to_lowercase()
    };
    for host in ["localhost:8545", "127.0.0.1", "[::1]:8545"] {
        assert!(post_with(host, "").await.starts_with("http/1.1 200"), "{host}");
    }
    assert!(post_with("evil.example", "").await.starts_with("http/1.1 403"));
    let allowed = post_with("localhost", "Origin: http://localhost:3000\r\n").await;
    assert!(allowed.contains("access-control-allow-origin: http://localhost:3000"), "{allowed}");
    let foreign = post_with("localhost", "Origin: https://evil.example\r\n").await;
    assert!(!foreign.contains("access-control-allow-origin"), "{foreign}");
    // A browser sends no preflight request before it opens a WebSocket.
    let upgrade = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
        Connection: Upgrade\r\nOrigin: https://evil.example\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    for address in [node.json_rpc, node.web_socket] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(upgrade.as_bytes()).await.unwrap();
        let mut head = [0; 12];
        timeout(MAX_WAIT, stream.read_exact(&mut head)).await.unwrap().unwrap();
        assert_eq!(&head, b"HTTP/1.1 403");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_address_serves_its_namespaces() {
    let node = Node::native_with(|config| config.json_rpc.ws_api = vec!["net".to_owned()]).await;
    let call = body("eth_chainId", &json!([]));
    let chain = node.call_over_websocket(node.web_socket, &call).await;
    assert_eq!(chain["error"]["code"], -32601);
    let mut socket = node.websocket(node.web_socket).await;
    assert_eq!(socket.call("net_version", json!([])).await, "262144");
    let mut socket = node.websocket(node.json_rpc).await;
    assert_eq!(socket.call("eth_chainId", json!([])).await, "0x40000");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limit_error_contains_the_limit() {
    let node = Node::native_with(|config| config.json_rpc.rate_per_connection = 25).await;
    let call = body("eth_chainId", &json!([]));
    let batch = format!("[{}]", vec![call.as_str(); 60].join(","));
    let responses = node.post(&batch).await;
    let responses = responses.as_array().unwrap();
    let refused: Vec<_> = responses.iter().filter(|item| item.get("error").is_some()).collect();
    assert!((30..=35).contains(&refused.len()), "{}", refused.len());
    assert_eq!(refused[0]["error"]["code"], -32005);
    assert_eq!(refused[0]["error"]["data"]["limit"], 25);
    assert!(refused[0]["error"]["data"]["retryAfterMs"].as_u64().unwrap() > 0);
    // The response to a refused single call has the HTTP status 429.
    let mut stream = TcpStream::connect(node.json_rpc).await.unwrap();
    let many = request("localhost", "", &call).repeat(60)
        + &request("localhost", "Connection: close\r\n", &call);
    stream.write_all(many.as_bytes()).await.unwrap();
    let mut text = String::new();
    timeout(MAX_WAIT, stream.read_to_string(&mut text)).await.unwrap().unwrap();
    assert!(text.contains("HTTP/1.1 429") && text.contains("retry-after: 1"), "{text}");
    assert!(text.contains("\"id\":1,\"error\":") && !text.contains("\"id\":null"), "{text}");
    assert_eq!(node.call("eth_chainId", json!([])).await, "0x40000", "others are not limited");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_per_ip_are_limited() {
    let node = Node::native_with(|config| config.json_rpc.max_connections_per_ip = 2).await;
    let first = node.websocket(node.json_rpc).await;
    let second = node.websocket(node.web_socket).await;
    let (status, response) = node.post_as("application/json", b"{}").await;
    let response: Value = serde_json::from_str(&response).unwrap();
    assert_eq!((status, &response["error"]["data"]["limit"]), (503, &json!(2)));
    drop((first, second));
    let served = async { while node.post_as("application/json", b"{}").await.0 == 503 {} };
    timeout(MAX_WAIT, served).await.expect("permits are free again");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_contain_the_limit() {
    let node = Node::native_with(|config| {
        config.json_rpc.max_batch = 10;
        config.json_rpc.max_response_bytes = 20_000;
    })
    .await;
    let limit = |response: &Value, code: i64| {
        assert_eq!(response["error"]["code"], code, "{response}");
        response["error"]["data"]["limit"].as_u64().unwrap()
    };
    let call = body("eth_getBlockByNumber", &json!(["0x0", false]));
    let eleven = format!("[{}]", [call.as_str(); 11].join(","));
    assert_eq!(limit(&node.post(&eleven).await[0], -32600), 10);
    let mut socket = node.websocket(node.web_socket).await;
    socket.send(&eleven).await;
    let responses = socket.receive().await;
    assert_eq!((limit(&responses[0], -32600), &responses[0]["id"]), (10, &json!(1)));
    // Each error contains the method name of 3,000 characters, so the last calls exceed the response size limit.
    let big = body("web3_sha3", &json!(["0x"])).replace("web3_sha3", &"m".repeat(3000));
    let ten = format!("[{}]", [big.as_str(); 10].join(","));
    let responses = node.post(&ten).await;
    let responses = responses.as_array().unwrap();
    assert_eq!(responses.len(), 10);
    assert_eq!(limit(&responses[9], -32003), 20_000);
    let (status, response) = node.post_as("application/json", &[b' '; 1_000_001]).await;
    assert_eq!(status, 413);
    assert_eq!(limit(&serde_json::from_str(&response).unwrap(), -32005), 1_000_000);
    let refused = node.fail("eth_getLogs", json!([{ "address": vec![Address::ZERO; 1001] }])).await;
    assert_eq!(refused.0, -32602);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_call_ends_at_its_timeout() {
    let node = Node::native_with(|config| {
        config.json_rpc.gas_cap = 0;
        config.json_rpc.call_timeout_ms = 200;
        config.json_rpc.trace_timeout_ms = 200;
        config.json_rpc.api.push("debug".to_owned());
    })
    .await;
    for method in ["eth_call", "eth_estimateGas", "eth_createAccessList"] {
        let response = node.response(method, endless()).await;
        // The gas of an estimate is limited to that of a block, so it may end before the timeout.
        if method != "eth_estimateGas" || !response["error"]["data"].is_null() {
            let message = "execution aborted (timeout = 200ms)";
            assert_eq!(response["error"]["message"], message, "{method}: {response}");
            assert_eq!(response["error"]["code"], -32000);
            assert_eq!(response["error"]["data"]["limit"], 200);
        }
    }
    let simulated = json!([{ "blockStateCalls": [{
        "stateOverrides": endless()[2], "calls": [{ "to": endless()[0]["to"] }],
    }] }]);
    let response = node.response("eth_simulateV1", simulated).await;
    assert!(response.get("error").is_some() || response["result"].is_array(), "{response}");
    assert_eq!(node.call("eth_call", json!([{ "to": Address::ZERO }])).await, "0x");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_aborted_when_the_client_disconnects() {
    let node = Node::native_with(|config| {
        config.json_rpc.gas_cap = 0;
        config.json_rpc.call_timeout_ms = 3_600_000;
    })
    .await;
    let call = request("localhost", "", &body("eth_call", &endless()));
    // The test sends more calls than there are threads to execute them.
    let mut streams = Vec::new();
    for _ in 0..70 {
        let mut stream = TcpStream::connect(node.json_rpc).await.unwrap();
        stream.write_all(call.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    assert_eq!(node.call("eth_chainId", json!([])).await, "0x40000", "cheap calls are served");
    drop(streams);
    let served = node.call("eth_call", json!([{ "to": Address::ZERO }]));
    assert_eq!(timeout(MAX_WAIT, served).await.expect("threads are free again"), "0x");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_silent_and_slow_clients_are_closed() {
    let node = Node::native_with(|config| {
        config.json_rpc.idle_timeout_s = 1;
        config.json_rpc.slow_client_s = 1;
    })
    .await;
    let mut streams = Vec::new();
    for beginning in ["", "POST / HTTP/1.1\r\nHost: local"] {
        let mut stream = TcpStream::connect(node.json_rpc).await.unwrap();
        stream.write_all(beginning.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    for mut stream in streams {
        let mut rest = Vec::new();
        timeout(MAX_WAIT, stream.read_to_end(&mut rest)).await.expect("closed").unwrap();
    }
    // The client sends calls without reading the responses: writing blocks, and fails when the node disconnects it.
    let mut stream = TcpStream::connect(node.json_rpc).await.unwrap();
    let call = request("localhost", "", &body("rpc_discover", &json!([])));
    let flood = async { while stream.write_all(call.as_bytes()).await.is_ok() {} };
    timeout(MAX_WAIT, flood).await.expect("the connection is closed");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_of_transactions_is_submitted_together() {
    let node = Node::native().await;
    let send = |nonce| body("eth_sendRawTransaction", &json!([transfer(7, nonce, Address::ZERO)]));
    let batch = |first: u64| {
        let calls: Vec<_> = (first..first + 20).map(send).collect();
        format!("[{}]", calls.join(","))
    };
    let over_http = node.post(&batch(0)).await;
    let mut socket = node.websocket(node.web_socket).await;
    socket.send(&batch(20)).await;
    let over_websocket = socket.receive().await;
    let mut last = Value::Null;
    for response in over_http.as_array().unwrap().iter().chain(over_websocket.as_array().unwrap()) {
        assert!(response.get("error").is_none(), "{response}");
        last = response["result"].clone();
    }
    node.wait_for("eth_getTransactionReceipt", json!([last])).await;
    let sender = chain::DEV_ACCOUNTS[7].address;
    assert_eq!(node.call("eth_getTransactionCount", json!([sender])).await, "0x28");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_of_one_client_does_not_block_others() {
    const FLOOD: u32 = 100;
    const CALL_MS: u64 = 1_000;
    let node = Node::native_with(|config| {
        config.json_rpc.gas_cap = 0;
        config.json_rpc.call_timeout_ms = CALL_MS;
    })
    .await;
    // One connection requests 100 seconds of work at once.
    let mut flood = node.websocket(node.web_socket).await;
    for _ in 0..FLOOD {
        flood.send(&body("eth_call", &endless())).await;
    }
    let begun = Instant::now();
    assert_eq!(node.call("eth_call", json!([{ "to": Address::ZERO }])).await, "0x");
    let flood_time = FLOOD * Duration::from_millis(CALL_MS);
    assert!(begun.elapsed() < flood_time / 4, "the call did not wait for the flood");
    let (status, _) = exchange(
        node.json_rpc,
        request("localhost", "Connection: close\r\n", &body("eth_chainId", &json!([]))).as_bytes(),
    )
    .await;
    assert_eq!(status, 200);
    drop(flood);
    node.stop().await;
}
