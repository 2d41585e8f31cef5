//! Invalid input from a client causes an error response and does not affect other clients.

use crate::client::{MAX_WAIT, Node, exchange};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};

#[tokio::test(flavor = "multi_thread")]
async fn invalid_bodies_are_refused() {
    let node = Node::native().await;
    let code = |response: &Value| response["error"]["code"].as_i64();
    let deep = "[".repeat(100_000);
    let nested = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_call\",\"params\":[{}{}]}}",
        "[".repeat(50_000),
        "]".repeat(50_000)
    );
    for (body, expected) in [
        ("", -32700),
        ("garbage", -32700),
        ("{\"jsonrpc\":", -32700),
        ("\u{0}\u{1}", -32700),
        ("[]", -32600),
        (deep.as_str(), -32700),
        (nested.as_str(), -32602),
    ] {
        let response = node.post(body).await;
        let shown: String = body.chars().take(40).collect();
        assert_eq!(code(&response), Some(expected), "{shown}: {response}");
    }
    for body in ["{}", "null", "1", "\"text\"", "[1,null]", "{\"id\":1}"] {
        let response = node.post(body).await;
        let first = response.get(0).unwrap_or(&response);
        assert!(code(first).is_some(), "{body}: {response}");
    }
    let batch = vec![json!({"jsonrpc":"2.0","id":1,"method":"eth_chainId"}); 101];
    let response = node.post(&Value::from(batch).to_string()).await;
    let refused = (response.as_array().map(Vec::len), code(&response[0]), &response[0]["id"]);
    assert_eq!(refused, (Some(1), Some(-32600), &json!(1)), "a batch over the limit: {response}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_of_a_batch_has_its_own_response() {
    let node = Node::native().await;
    let call = |id: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "eth_chainId" });
    let notification = json!({ "jsonrpc": "2.0", "method": "eth_chainId" });
    let batch = json!([
        call(json!(7)),
        null,
        { "jsonrpc": "2.0", "id": "a", "method": "eth_nothing" },
        notification,
        { "jsonrpc": "1.0", "id": 8, "method": "eth_chainId" },
        call(json!("last")),
        [call(json!(9))],
        call(Value::Null),
    ]);
    let responses = node.post(&batch.to_string()).await;
    let shape = |response: &Value| (response["id"].clone(), response["error"]["code"].as_i64());
    let shapes: Vec<_> = responses.as_array().unwrap().iter().map(shape).collect();
    let expected = [
        (json!(7), None),
        (Value::Null, Some(-32600)),
        (json!("a"), Some(-32601)),
        (json!(8), Some(-32600)),
        (json!("last"), None),
        (Value::Null, Some(-32600)),
        (Value::Null, None),
    ];
    assert_eq!(shapes, expected, "{responses}");
    // A notification has no response.
    for body in [notification.to_string(), json!([notification, notification]).to_string()] {
        let response = node.post_as("application/json", body.as_bytes()).await;
        assert_eq!(response, (200, String::new()), "{body}");
    }
    let mut socket = node.websocket(node.web_socket).await;
    socket.send(&json!([call(json!(1)), null, notification, call(json!(2))]).to_string()).await;
    let responses = socket.receive().await;
    let shapes: Vec<_> = responses.as_array().unwrap().iter().map(shape).collect();
    assert_eq!(shapes, [(json!(1), None), (Value::Null, Some(-32600)), (json!(2), None)]);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn content_type_and_body_must_be_json() {
    let node = Node::native().await;
    let body = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\"}";
    for kind in [
        "application/json",
        "application/json; charset=utf-8",
        "APPLICATION/JSON",
        "application/json-rpc",
        "application/jsonrequest",
    ] {
        assert_eq!(node.post_as(kind, body).await.0, 200, "{kind}");
    }
    for kind in ["", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "json"] {
        assert_eq!(node.post_as(kind, body).await.0, 415, "{kind}");
    }
    let without_type = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}",
        body.len(),
        str::from_utf8(body).unwrap()
    );
    assert_eq!(exchange(node.json_rpc, without_type.as_bytes()).await.0, 415);
    for method in ["PUT", "DELETE", "PATCH"] {
        let request =
            format!("{method} / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert_eq!(exchange(node.json_rpc, request.as_bytes()).await.0, 405, "{method}");
    }
    for text in [&b"\xff\xfe{}"[..], b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}"] {
        let (status, response) = node.post_as("application/json", text).await;
        let response: Value = serde_json::from_str(&response).unwrap();
        assert_eq!((status, &response["error"]["code"]), (200, &json!(-32700)), "{response}");
    }
    // The same request with a chunked body, which a client sends if it does not know the length.
    let (first, rest) = body.split_at(9);
    let mut chunked = b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
        Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        .to_vec();
    for piece in [first, rest, b""] {
        chunked.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        chunked.extend_from_slice(piece);
        chunked.extend_from_slice(b"\r\n");
    }
    let (status, response) = exchange(node.json_rpc, &chunked).await;
    assert_eq!((status, response.contains("0x40000")), (200, true), "{response}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_json_posts_preflights_and_health_checks_are_accepted() {
    let node = Node::native().await;
    let body = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\"}";
    assert_eq!(node.post_as("text/plain", body).await.0, 415);
    assert_eq!(node.post_as("application/json", &[b' '; 1_100_000]).await.0, 413);
    let preflight = b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
        Origin: http://localhost:3000\r\nAccess-Control-Request-Method: POST\r\n\r\n";
    assert_eq!(exchange(node.json_rpc, preflight).await.0, 200);
    let get = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(node.json_rpc, get).await, (200, String::new()), "a health check");
    let query =
        b"GET /?method=eth_chainId HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(node.json_rpc, query).await.0, 405);
    assert_eq!(exchange(node.json_rpc, b"\x16\x03\x01 not HTTP at all\r\n\r\n").await.0, 400);
    assert!(exchange(node.web_socket, get).await.0 >= 400, "the WebSocket port refuses plain HTTP");
    let invalid_length = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: minus one\r\n\r\n";
    assert_eq!(exchange(node.json_rpc, invalid_length).await.0, 400);
    assert_eq!(node.call("eth_chainId", json!([])).await, "0x40000", "requests are still served");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_1_1_request_must_have_exactly_one_host_header() {
    let node = Node::native().await;
    let body = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\"}";
    for address in [node.json_rpc, node.web_socket] {
        let status = async |version: &str, hosts: &str| {
            let request = format!(
                "POST / HTTP/{version}\r\n{hosts}Connection: close\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            exchange(address, request.as_bytes()).await.0
        };
        let served = if address == node.json_rpc { 200 } else { 403 };
        assert_eq!(status("1.1", "Host: localhost\r\n").await, served);
        assert_eq!(status("1.1", "").await, 400);
        assert_eq!(status("1.1", "Host: localhost\r\nHost: localhost\r\n").await, 400);
        assert_eq!(status("1.1", "Host: \u{fffd}\r\n").await, 400);
        assert_eq!(status("1.0", "").await, served);
    }
    let probe = async |request: &str| exchange(node.json_rpc, request.as_bytes()).await.0;
    assert_eq!(probe("GET / HTTP/1.0\r\n\r\n").await, 200, "a health check");
    assert_eq!(probe("GET / HTTP/1.1\r\nConnection: close\r\n\r\n").await, 400);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_parameters_are_refused() {
    let node = Node::native().await;
    let zero = "0x0000000000000000000000000000000000000000";
    let invalid = |index: usize| format!("invalid argument {index}: ");
    let missing = |index: usize| format!("missing value for required argument {index}");
    for (method, params, text) in [
        ("eth_getBalance", json!([]), missing(0)),
        ("eth_getBalance", json!([null]), missing(0)),
        ("eth_getBalance", json!(["0x12"]), invalid(0)),
        ("eth_getBalance", json!([7]), invalid(0)),
        ("eth_getBalance", json!([zero, "newest"]), invalid(1)),
        ("eth_getBalance", json!([zero, 1]), invalid(1)),
        ("eth_getBalance", json!([zero, "latest", 1]), "too many arguments, want at most 2".into()),
        ("eth_getBalance", json!({"address": zero}), "non-array args".into()),
        ("eth_getBlockByNumber", json!(["0x1"]), missing(1)),
        ("eth_getBlockByNumber", json!(["0x1", "yes"]), invalid(1)),
        ("eth_getBlockByHash", json!(["0x1", true]), invalid(0)),
        ("eth_chainId", json!([1]), "too many arguments, want at most 0".into()),
        ("eth_sendRawTransaction", json!(["0xabc"]), invalid(0)),
        ("eth_feeHistory", json!(["ten", "latest", []]), invalid(0)),
        ("eth_feeHistory", json!([1, "latest", ["a"]]), invalid(2)),
        ("eth_getLogs", json!([[]]), invalid(0)),
        ("eth_call", json!([{"gas": "lots"}]), invalid(0)),
        ("eth_getStorageAt", json!([zero, "0xasdf"]), "invalid hex in storage key".into()),
    ] {
        let (code, message) = node.fail(method, params.clone()).await;
        assert_eq!(code, -32602, "{method} {params}: {message}");
        assert!(message.starts_with(&text), "{method} {params}: {message}");
    }
    let blobs = json!({ "blobVersionedHashes": [alloy_primitives::B256::ZERO] });
    let no_blobs = json!({ "to": zero, "blobVersionedHashes": [] });
    let delegating = json!({ "authorizationList": [] });
    let create = "EIP-7702 transaction cannot be used to create contract (sender 0x0000";
    let beacon = json!({ "beaconRoot": alloy_primitives::B256::ZERO });
    let unsupported = "block override \"beaconRoot\" is not supported for this RPC method";
    for (method, params, text) in [
        ("eth_getBalance", json!([zero, "0xffffff"]), "header not found"),
        ("eth_call", json!([{"to": zero}, "0xffffff"]), "header not found"),
        ("eth_feeHistory", json!([1, "0xffffff", []]), "request beyond head block"),
        ("eth_feeHistory", json!([1, "latest", [50, 20]]), "invalid reward percentile: #0"),
        ("eth_sendRawTransaction", json!(["0x"]), "typed transaction too short"),
        ("eth_sendRawTransaction", json!(["0x02"]), "typed transaction too short"),
        ("eth_sendRawTransaction", json!(["0x02c0"]), "rlp: "),
        ("eth_sendRawTransaction", json!(["0xffff"]), "rlp: "),
        ("eth_sendRawTransaction", json!(["0x05c0"]), "transaction type not supported"),
        ("eth_sendRawTransaction", json!(["0x00c0"]), "transaction type not supported"),
        ("eth_sendRawTransaction", json!(["0x80"]), "rlp: "),
        ("eth_call", json!([blobs]), "blob transaction of type create"),
        ("eth_call", json!([no_blobs]), "blob transaction missing blob hashes"),
        ("eth_estimateGas", json!([delegating]), create),
        ("eth_call", json!([{ "to": zero }, "latest", {}, beacon]), unsupported),
        ("eth_estimateGas", json!([{ "to": zero }, "latest", {}, beacon]), unsupported),
    ] {
        let (code, message) = node.fail(method, params.clone()).await;
        assert_eq!(code, -32000, "{method} {params}: {message}");
        assert!(message.starts_with(text), "{method} {params}: {message}");
    }
    // Empty strings mean empty data and zero. In `eth_call`, `input` takes precedence over a different `data`.
    let empty = json!({ "to": zero, "data": "", "value": "", "gasPrice": "" });
    assert_eq!(node.call("eth_call", json!([empty])).await, "0x");
    let differing = json!({ "to": zero, "data": "0x01", "input": "0x02" });
    assert_eq!(node.call("eth_call", json!([differing])).await, "0x");
    let (code, message) = node.fail("eth_fillTransaction", json!([differing])).await;
    let expected = "both \"data\" and \"input\" are set and not equal";
    assert!(code == -32000 && message.starts_with(expected), "{code} {message}");
    let simulated = json!([{ "blockStateCalls": [{}], "validation": null }]);
    assert!(node.call("eth_simulateV1", simulated).await.is_array());
    let slots = vec![alloy_primitives::B256::ZERO; 1025];
    let (code, message) = node.fail("eth_getStorageValues", json!([{ zero: slots }])).await;
    assert_eq!((code, message.as_str()), (-38026, "too many slots (max 1024)"));
    assert_eq!(node.call("eth_protocolVersion", json!([])).await, "0x41");
    for method in ["eth_subscribe", "eth_unsubscribe"] {
        let (code, message) = node.fail(method, json!(["newHeads"])).await;
        assert_eq!((code, message.as_str()), (-32601, "notifications not supported"), "{method}");
    }
    let (code, message) = node.fail("eth_mineBitcoin", json!([])).await;
    assert_eq!(code, -32601);
    assert_eq!(message, "the method eth_mineBitcoin does not exist/is not available");
    node.stop().await;
}

/// As in geth, `null` means `false` for a flag, an empty list for a list, and an empty filter for a filter.
#[tokio::test(flavor = "multi_thread")]
async fn null_is_accepted_as_the_zero_value() {
    let node = Node::native().await;
    let zero = "0x0000000000000000000000000000000000000000";
    let hash = node.call("eth_getBlockByNumber", json!(["0x0", false])).await["hash"].clone();
    for (method, null, plain) in [
        ("eth_getBlockByNumber", json!(["0x0", null]), json!(["0x0", false])),
        ("eth_getBlockByHash", json!([hash, null]), json!([hash, false])),
        ("eth_getProof", json!([zero, null, "0x0"]), json!([zero, [], "0x0"])),
        ("eth_getLogs", json!([null]), json!([{}])),
    ] {
        let response = node.call(method, null).await;
        assert_eq!(response, node.call(method, plain).await, "{method}");
        assert!(!response.is_null(), "{method}");
    }
    let filter = node.call("eth_newFilter", json!([null])).await;
    assert_eq!(node.call("eth_getFilterChanges", json!([filter])).await, json!([]));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_and_half_open_connections_do_not_delay_the_shutdown() {
    let node = Node::native().await;
    let mut connections = Vec::new();
    for address in [node.json_rpc, node.web_socket, node.metrics] {
        for beginning in ["", "POST / HTTP/1.1\r\nHost: local"] {
            let mut connection = TcpStream::connect(address).await.unwrap();
            connection.write_all(beginning.as_bytes()).await.unwrap();
            connections.push(connection);
        }
    }
    assert_eq!(node.call("eth_chainId", json!([])).await, "0x40000", "requests are still served");
    tokio::time::timeout(MAX_WAIT, node.stop()).await.expect("the node stops in time");
}
