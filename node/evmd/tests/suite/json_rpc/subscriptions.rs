//! Events are pushed to subscriptions over a WebSocket, and collected by filters, which are polled.

use crate::{
    client::{MAX_WAIT, Node, is_replica},
    common::{CHAIN_ID, FEE_CAP, sign, transfer},
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, TxKind, keccak256};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::collections::HashMap;
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread")]
async fn every_new_head_is_pushed_in_order() {
    let node = Node::native().await;
    let mut socket = node.websocket(node.web_socket).await;
    let id = socket.call("eth_subscribe", json!(["newHeads"])).await;
    let fees = socket.call("eth_subscribe", json!(["newFees", [10, 50]])).await;
    assert!(id.as_str().unwrap().starts_with("0x") && id != fees);
    let (mut heads, mut rows) = (Vec::new(), Vec::new());
    while heads.len() < 5 || rows.len() < 5 {
        let pushed = timeout(MAX_WAIT, socket.receive()).await.unwrap();
        assert_eq!(pushed["method"], "eth_subscription");
        let result = pushed["params"]["result"].clone();
        let kind = if pushed["params"]["subscription"] == id { &mut heads } else { &mut rows };
        kind.push(result);
    }
    for pair in heads.windows(2) {
        assert_eq!(pair[1]["parentHash"], pair[0]["hash"], "no block is skipped");
    }
    for head in &heads {
        let block = node.call("eth_getBlockByHash", json!([head["hash"], false])).await;
        assert_eq!((&block["number"], &block["gasUsed"]), (&head["number"], &head["gasUsed"]));
        assert!(head.get("transactions").is_none() && head.get("size").is_none());
    }
    let number = &rows[0]["number"];
    let history = node.call("eth_feeHistory", json!([1, number, [10, 50]])).await;
    assert_eq!(history["baseFeePerGas"][1], rows[0]["nextBaseFeePerGas"]);
    assert_eq!(history["reward"][0], rows[0]["reward"]);
    assert_eq!(socket.call("eth_unsubscribe", json!([id])).await, json!(true));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn syncing_subscription_reports_that_the_node_is_not_syncing() {
    let node = Node::native().await;
    let mut socket = node.websocket(node.json_rpc).await;
    let id = socket.call("eth_subscribe", json!(["syncing"])).await;
    let pushed = timeout(MAX_WAIT, socket.receive()).await.unwrap();
    assert_eq!(pushed["params"], json!({ "subscription": id, "result": false }));
    assert_eq!(socket.call("eth_unsubscribe", json!([id])).await, json!(true));
    for unknown in [id, json!("0x1"), json!([])] {
        let error = socket.response("eth_unsubscribe", json!([unknown])).await["error"].clone();
        let expected = json!({ "code": -32000, "message": "subscription not found" });
        assert_eq!(error, expected, "{unknown}");
    }
    node.stop().await;
}

/// Opens many connections, because a few could all receive the frame by chance.
#[tokio::test(flavor = "multi_thread")]
async fn every_websocket_receives_a_close_frame_at_shutdown() {
    let node = Node::native().await;
    let mut sockets = Vec::new();
    for index in 0..60 {
        let address = if index % 2 == 0 { node.json_rpc } else { node.web_socket };
        let mut socket = node.websocket(address).await;
        socket.call("eth_subscribe", json!(["newHeads"])).await;
        sockets.push(socket);
    }
    node.stop().await;
    for socket in &mut sockets {
        assert_eq!(timeout(MAX_WAIT, socket.closing()).await.unwrap(), 1001);
    }
}

/// The tests of the module `flow` check how many responses are buffered.
#[tokio::test(flavor = "multi_thread")]
async fn slow_reader_receives_all_responses() {
    const CALLS: usize = 600;
    let node = Node::native().await;
    let mut socket = node.websocket(node.web_socket).await;
    // The code returns 50,000 bytes (100,000 in JSON, 60 MB in total). The client starts to read after the last call.
    let code =
        json!({ "0x00000000000000000000000000000000000c0de0": { "code": "0x61c3506000f3" } });
    let to = json!({ "to": "0x00000000000000000000000000000000000c0de0" });
    let call =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": [to, "latest", code] });
    for _ in 0..CALLS {
        socket.send(&call.to_string()).await;
    }
    for _ in 0..CALLS {
        let response = timeout(MAX_WAIT, socket.receive()).await.unwrap();
        assert_eq!(response["result"].as_str().map(str::len), Some(100_002), "{response}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_transactions_are_pushed_and_polled() {
    let node = Node::native().await;
    let mut socket = node.websocket(node.json_rpc).await;
    if is_replica() {
        let refused = socket.response("eth_subscribe", json!(["newPendingTransactions"])).await;
        let text = refused["error"]["message"].as_str().unwrap().to_owned();
        assert!(text.contains("this node follows another one"), "{text}");
        assert_eq!(node.fail("eth_newPendingTransactionFilter", json!([])).await.1, text);
        return node.stop().await.close().unwrap();
    }
    socket.call("eth_subscribe", json!(["newPendingTransactions"])).await;
    let filter = node.call("eth_newPendingTransactionFilter", json!([])).await;
    let whole = node.call("eth_newPendingTransactionFilter", json!([true])).await;
    let hash = node.call("eth_sendRawTransaction", json!([transfer(4, 0, Address::ZERO)])).await;
    let pushed = timeout(MAX_WAIT, socket.receive()).await.unwrap();
    assert_eq!(pushed["params"]["result"], hash);
    assert_eq!(node.call("eth_getFilterChanges", json!([filter])).await, json!([hash]));
    assert_eq!(node.call("eth_getFilterChanges", json!([filter])).await, json!([]));
    let changes = node.call("eth_getFilterChanges", json!([whole])).await;
    assert_eq!(changes.as_array().map(Vec::len), Some(1), "{changes}");
    assert_eq!((&changes[0]["hash"], &changes[0]["blockHash"]), (&hash, &Value::Null));
    assert_eq!(node.call("eth_getFilterChanges", json!([whole])).await, json!([]));
    node.stop().await;
}

/// The distribution of the transactions over blocks varies between runs.
#[tokio::test(flavor = "multi_thread")]
async fn receipts_are_pushed_block_by_block() {
    const TRANSFERS: u64 = 40;
    let node = Node::native().await;
    let mut socket = node.websocket(node.web_socket).await;
    let raw: Vec<_> = (0..TRANSFERS).map(|nonce| transfer(4, nonce, Address::ZERO)).collect();
    let hashes: Vec<_> = raw.iter().map(|raw| json!(keccak256(raw))).collect();
    let odd: Vec<_> = hashes.iter().skip(1).step_by(2).cloned().collect();
    let mut subscribe = async |filter: Value| {
        socket.call("eth_subscribe", json!(["transactionReceipts", filter])).await
    };
    let all = subscribe(Value::Null).await;
    let of_odd = subscribe(json!({ "transactionHashes": odd })).await;
    let all_again = subscribe(json!({ "transactionHashes": [] })).await;
    subscribe(json!({ "transactionHashes": [B256::ZERO] })).await;
    for raw in &raw {
        node.call("eth_sendRawTransaction", json!([raw])).await;
    }
    let mut received: HashMap<Value, Vec<Value>> = HashMap::new();
    let wanted = [(&all, &hashes), (&of_odd, &odd), (&all_again, &hashes)];
    while wanted.iter().any(|(id, hashes)| received.get(*id).map_or(0, Vec::len) < hashes.len()) {
        let pushed = timeout(MAX_WAIT, socket.receive()).await.unwrap();
        let (id, result) = (&pushed["params"]["subscription"], &pushed["params"]["result"]);
        let receipts = result.as_array().unwrap();
        assert!(!receipts.is_empty(), "a notification contains receipts");
        let number = &receipts[0]["blockNumber"];
        let of_block = node.call("eth_getBlockReceipts", json!([number])).await;
        let mut of_block = of_block.as_array().unwrap().clone();
        if *id == of_odd {
            of_block.retain(|receipt| odd.contains(&receipt["transactionHash"]));
        }
        assert_eq!(*receipts, of_block, "a notification contains all matching receipts of a block");
        received.entry(id.clone()).or_default().extend(of_block);
    }
    assert_eq!(received.len(), wanted.len(), "a subscription to other receipts has no events");
    for (id, hashes) in wanted {
        let hashes_received = received[id].iter().map(|receipt| receipt["transactionHash"].clone());
        assert_eq!(hashes_received.collect::<Vec<_>>(), *hashes);
    }
    node.stop().await;
}

/// Sends more messages of each kind than may be unanswered. If one kind counted as unanswered forever, the connection
/// would block.
#[tokio::test(flavor = "multi_thread")]
async fn messages_of_every_kind_stop_counting_as_unanswered() {
    const EACH: usize = 10_000;
    let node = Node::native().await;
    let mut socket = node.websocket(node.web_socket).await;
    let notification = r#"{"jsonrpc":"2.0","method":"eth_chainId"}"#;
    let batch = format!("[{notification}]");
    for message in [notification, &batch] {
        for _ in 0..EACH {
            socket.send(message).await;
        }
    }
    for invalid in ["x", "{}", "[]", "[1]"] {
        for _ in 0..EACH {
            socket.send(invalid).await;
        }
        for _ in 0..EACH {
            let response = timeout(MAX_WAIT, socket.receive()).await.unwrap();
            let error = response.get(0).unwrap_or(&response)["error"]["code"].as_i64();
            assert!([-32700, -32600].contains(&error.unwrap()), "{invalid}: {response}");
        }
    }
    assert_eq!(socket.call("eth_chainId", json!([])).await, json!("0x40000"));
    node.stop().await;
}

/// The client reads tens of megabytes of events only after the last block: each subscription receives all its events in
/// order. The tests of the module `flow` check the memory that these events use.
#[tokio::test(flavor = "multi_thread")]
async fn reader_that_starts_after_all_events_receives_them() {
    const BLOCKS: u64 = 6;
    const SUBSCRIBERS: usize = 8;
    const BYTES: usize = 250_000;
    let node = Node::native().await;
    let mut socket = node.websocket(node.web_socket).await;
    let mut received: HashMap<Value, Vec<Value>> = HashMap::new();
    for kind in ["transactionReceipts", "logs"] {
        for _ in 0..SUBSCRIBERS {
            let id = socket.call("eth_subscribe", json!([kind])).await;
            received.insert(id, Vec::new());
        }
    }
    // Init code that emits a log with this many bytes of memory: PUSH3 length, PUSH0 offset, LOG0.
    let code = [&[0x62][..], &(BYTES as u32).to_be_bytes()[1..], &[0x5f, 0xa0]].concat();
    let mut hashes = Vec::new();
    for nonce in 0..BLOCKS {
        let creation = TxEip1559 {
            chain_id: CHAIN_ID,
            nonce,
            gas_limit: 3_000_000,
            max_fee_per_gas: FEE_CAP,
            to: TxKind::Create,
            input: code.clone().into(),
            ..TxEip1559::default()
        };
        let raw = sign(4, creation);
        let receipt = node.call("eth_sendRawTransactionSync", json!([raw, 30_000])).await;
        assert_eq!(receipt["status"], "0x1", "{receipt}");
        hashes.push(receipt["transactionHash"].clone());
    }
    let mut left = received.len() * hashes.len();
    while left > 0 {
        let pushed = timeout(MAX_WAIT, socket.receive()).await.unwrap();
        let (id, result) = (&pushed["params"]["subscription"], &pushed["params"]["result"]);
        let one = if result.is_array() { &result[0] } else { result };
        received.get_mut(id).unwrap().push(one["transactionHash"].clone());
        left -= 1;
    }
    assert!(received.values().all(|hashes_received| *hashes_received == hashes), "{received:?}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_return_changes() {
    let node = Node::native().await;
    let blocks = node.call("eth_newBlockFilter", json!([])).await;
    let raw = transfer(5, 0, Address::ZERO);
    let receipt = node.call("eth_sendRawTransactionSync", json!([raw, 30_000])).await;
    assert_eq!(receipt["from"], json!(DEV_ACCOUNTS[5].address));
    let hashes = node.call("eth_getFilterChanges", json!([blocks])).await;
    assert!(hashes.as_array().unwrap().contains(&receipt["blockHash"]), "{hashes}");
    assert_eq!(node.call("eth_uninstallFilter", json!([blocks])).await, json!(true));
    assert_eq!(node.call("eth_uninstallFilter", json!([blocks])).await, json!(false));
    assert_eq!(node.fail("eth_getFilterChanges", json!([blocks])).await.0, -32000);
    let logs = node.call("eth_newFilter", json!([{ "fromBlock": "earliest" }])).await;
    assert_eq!(node.call("eth_getFilterLogs", json!([logs])).await, json!([]));
    assert_eq!(node.call("eth_getFilterChanges", json!([logs])).await, json!([]));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_filter_ids_are_not_found() {
    let node = Node::native().await;
    let wide = format!("0x1{:032x}", 0);
    for id in [
        json!(null),
        json!(""),
        json!("mine"),
        json!("7"),
        json!("0x"),
        json!("0x07"),
        json!("0x7"),
        json!(wide),
    ] {
        assert_eq!(node.call("eth_uninstallFilter", json!([id])).await, json!(false), "{id}");
        for method in ["eth_getFilterChanges", "eth_getFilterLogs"] {
            let expected = (-32000, "filter not found".to_owned());
            assert_eq!(node.fail(method, json!([id])).await, expected, "{method} {id}");
        }
    }
    for method in ["eth_uninstallFilter", "eth_getFilterChanges", "eth_getFilterLogs"] {
        for id in [json!(7), json!({}), json!(["0x7"])] {
            assert_eq!(node.fail(method, json!([id])).await.0, -32602, "{method} {id}");
        }
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_with_an_empty_range_are_refused() {
    let node = Node::native().await;
    for (filter, text) in [
        (json!({ "fromBlock": "0x2", "toBlock": "0x1" }), "invalid block range params"),
        (json!({ "fromBlock": "0x1", "toBlock": "earliest" }), "invalid block range params"),
        (json!({ "fromBlock": "pending" }), "pending logs are not supported"),
        (json!({ "toBlock": "pending" }), "pending logs are not supported"),
    ] {
        let (code, message) = node.fail("eth_newFilter", json!([filter])).await;
        assert_eq!((code, message.as_str()), (-32602, text), "{filter}");
    }
    // A filter may start at a future block.
    for filter in [json!({ "fromBlock": "0xffffff" }), json!({ "fromBlock": "latest" })] {
        let id = node.call("eth_newFilter", json!([filter])).await;
        assert_eq!(node.call("eth_getFilterChanges", json!([id])).await, json!([]));
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_subscriptions_are_refused() {
    let node = Node::native().await;
    let mut socket = node.websocket(node.web_socket).await;
    for params in [
        json!([]),
        json!([7]),
        json!(["logs", []]),
        json!(["transactionReceipts", []]),
        json!(["transactionReceipts", { "transactionHashes": "0x" }]),
        json!(["transactionReceipts", { "transactionHashes": ["0x12"] }]),
        json!({}),
    ] {
        let response: Value = socket.response("eth_subscribe", params.clone()).await;
        assert_eq!(response["error"]["code"], -32602, "{params}: {response}");
    }
    let hashes = |count: usize| json!({ "transactionHashes": vec![B256::ZERO; count] });
    socket.call("eth_subscribe", json!(["transactionReceipts", hashes(200)])).await;
    let refused =
        socket.response("eth_subscribe", json!(["transactionReceipts", hashes(201)])).await;
    let expected =
        "exceed max number of transaction hashes allowed per transactionReceipts subscription";
    assert_eq!(refused["error"], json!({ "code": -32000, "message": expected }));
    let refused = socket.response("eth_subscribe", json!(["oldHeads"])).await;
    let expected = "no \"oldHeads\" subscription in eth namespace";
    assert_eq!(refused["error"], json!({ "code": -32601, "message": expected }));
    let refused = socket.response("eth_subscribe", json!(["newFees", [50, 20]])).await;
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    let over_http = node.response("eth_subscribe", json!(["newHeads"])).await;
    assert!(over_http.get("error").is_some(), "{over_http}");
    node.stop().await;
}
