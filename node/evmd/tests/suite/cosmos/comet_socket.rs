//! Makes calls to CometBFT's RPC over a WebSocket, and compares the events of subscriptions with calls for the same
//! blocks.

use super::{
    comet::{RECEIVER, signed_send},
    served::Served,
};
use crate::{client::MAX_WAIT, common::signed::address_of};
use alloy_primitives::hex;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use futures_util::{SinkExt, StreamExt};
use keys::bech32;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpStream;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

/// A WebSocket connection.
struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    async fn open(served: &Served) -> Self {
        let url = format!("ws://{}/websocket", served.node.comet);
        Self(connect_async(url).await.unwrap().0)
    }

    async fn send(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    /// Returns the next JSON message.
    async fn next(&mut self) -> Value {
        let next = async {
            loop {
                if let Message::Text(text) = self.0.next().await.unwrap().unwrap() {
                    return serde_json::from_str(&text).unwrap();
                }
            }
        };
        tokio::time::timeout(MAX_WAIT, next).await.expect("a message")
    }

    /// Sends a call and returns its response. Skips the events before it.
    async fn call(&mut self, id: u64, method: &str, params: Value) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&call.to_string()).await;
        loop {
            let response = self.next().await;
            if response["id"] == json!(id) {
                return response;
            }
        }
    }

    async fn subscribe(&mut self, id: u64, query: &str) {
        let response = self.call(id, "subscribe", json!({ "query": query })).await;
        assert_eq!(response, json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
    }

    /// Returns the next event of the subscription `id`.
    async fn next_event(&mut self, id: u64) -> Value {
        loop {
            let mut message = self.next().await;
            if message["id"] == json!(id) {
                return message["result"].take();
            }
        }
    }
}

/// A client must not mistake the shutdown of the node for a close that it requested, because it would not
/// reconnect.
#[tokio::test(flavor = "multi_thread")]
async fn stopping_node_sends_a_close_frame() {
    let served = Served::start().await;
    let mut idle = Socket::open(&served).await;
    let mut subscribed = Socket::open(&served).await;
    subscribed.subscribe(1, "tm.event='NewBlock'").await;
    served.stop().await;
    for socket in [&mut idle, &mut subscribed] {
        let closed = async {
            loop {
                if let Message::Close(frame) = socket.0.next().await.unwrap().unwrap() {
                    return frame.unwrap();
                }
            }
        };
        let frame = tokio::time::timeout(MAX_WAIT, closed).await.expect("a close frame");
        assert_eq!(u16::from(frame.code), 1001, "{frame}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_receive_block_events() {
    let served = Served::start().await;
    let mut socket = Socket::open(&served).await;
    socket.subscribe(1, "tm.event='NewBlock'").await;
    socket.subscribe(2, "tm.event = 'NewBlockHeader'").await;
    let events =
        "tm.event='NewBlockEvents' AND block_gas.height EXISTS AND block_bloom.bloom EXISTS";
    socket.subscribe(3, events).await;
    served.mined(&signed_send(0)).await;
    let mut heights = Vec::new();
    let event = loop {
        let event = socket.next_event(1).await;
        let block = &event["data"]["value"]["block"];
        heights.push(block["header"]["height"].as_str().unwrap().parse::<u64>().unwrap());
        if block["data"]["txs"] == json!([BASE64.encode(signed_send(0))]) {
            break event;
        }
    };
    assert!(heights.is_sorted_by(|before, after| before + 1 == *after), "{heights:?}");
    let height = &event["data"]["value"]["block"]["header"]["height"];
    assert_eq!(event["query"], "tm.event='NewBlock'");
    assert_eq!(event["data"]["type"], "tendermint/event/NewBlock");
    assert_eq!(event["events"]["tm.event"], json!(["NewBlock"]));
    assert_eq!(event["events"]["block_gas.height"], json!([height]));
    let by_call = served.comet("block", json!({ "height": height })).await;
    let value = &event["data"]["value"];
    assert_eq!((&value["block"], &value["block_id"]), (&by_call["block"], &by_call["block_id"]));
    let results = served.comet("block_results", json!({ "height": height })).await;
    assert_eq!(value["result_finalize_block"]["events"], results["finalize_block_events"]);
    // The header and then the events of the same block follow this event.
    let header = socket.next().await;
    let of_header = &header["result"]["data"];
    assert_eq!(
        (&header["id"], &of_header["type"]),
        (&json!(2), &json!("tendermint/event/NewBlockHeader"))
    );
    assert_eq!(of_header["value"]["header"], by_call["block"]["header"]);
    assert_eq!(header["result"]["events"], json!({ "tm.event": ["NewBlockHeader"] }));
    let events = socket.next().await;
    let of_events = &events["result"]["data"]["value"];
    assert_eq!((&events["id"], &of_events["height"]), (&json!(3), height));
    assert_eq!(
        (&of_events["num_txs"], &of_events["events"]),
        (&json!("1"), &results["finalize_block_events"])
    );
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_receive_transaction_events() {
    let served = Served::start().await;
    let mut socket = Socket::open(&served).await;
    let raw = [signed_send(0), signed_send(1)];
    let hash = |raw: &[u8]| hex::encode_upper(Sha256::digest(raw));
    let to = bech32("cosmos", RECEIVER);
    socket.subscribe(1, &format!("tm.event='Tx' AND tx.hash='{}'", hash(&raw[1]))).await;
    socket.subscribe(2, &format!("tm.event='Tx' AND transfer.recipient='{to}'")).await;
    // This query never matches, because a block event has no such attribute.
    socket.subscribe(3, &format!("tm.event='NewBlock' AND transfer.recipient='{to}'")).await;
    socket.subscribe(4, "message.sender='cosmos1nobody'").await;
    for raw in &raw {
        served.mined(raw).await;
    }
    let first = socket.next().await;
    assert_eq!(
        (&first["id"], &first["result"]["events"]["tx.hash"]),
        (&json!(2), &json!([hash(&raw[0])]))
    );
    // Both queries match the second transaction.
    let mut second = [socket.next().await, socket.next().await];
    second.sort_by_key(|message| message["id"].as_u64());
    assert_eq!([&second[0]["id"], &second[1]["id"]], [1, 2]);
    assert_eq!(second[0]["result"]["data"], second[1]["result"]["data"]);
    let by_hash = json!({ "hash": BASE64.encode(Sha256::digest(&raw[1])) });
    let by_call = served.comet("tx", by_hash).await;
    let data = &second[0]["result"]["data"];
    assert_eq!(data["type"], "tendermint/event/Tx");
    let event = &data["value"]["TxResult"];
    assert_eq!(
        (&event["height"], &event["tx"], &event["result"]),
        (&by_call["height"], &by_call["tx"], &by_call["tx_result"])
    );
    let events = &second[0]["result"]["events"];
    assert_eq!(events["message.sender"][0], json!(address_of(0)));
    assert_eq!(
        (&events["tm.event"], &events["tx.height"]),
        (&json!(["Tx"]), &json!([by_call["height"]]))
    );
    // The event of an Ethereum transaction contains the transaction hash that is also in the receipt.
    let (_, number) = served.mine_transfer(0).await;
    let query = format!("tx.height>{number} AND message.txType EXISTS AND tx.fee EXISTS");
    socket.subscribe(5, &query).await;
    let (moved, _) = served.mine_transfer(1).await;
    let event = socket.next_event(5).await;
    assert_eq!(event["events"]["tx.hash"], json!([moved]));
    // The events of the transaction's checks and of its message both contain the hash.
    let hash = format!("0x{}", moved.to_lowercase());
    assert_eq!(event["events"]["ethereum_tx.ethereumTxHash"], json!([hash, hash]));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn websocket_calls_are_answered_and_malformed_ones_refused() {
    const QUERY: &str = "tm.event='NewBlock'";
    let served = Served::start().await;
    let mut socket = Socket::open(&served).await;
    let genesis = socket.call(1, "genesis", json!({})).await;
    assert_eq!(genesis["result"], served.comet("genesis", json!({})).await);
    let error_of = |response: Value| {
        let error = &response["error"];
        (error["code"].as_i64().unwrap(), error["data"].as_str().unwrap().to_owned())
    };
    for (id, method, params, code, expected) in [
        (2, "nothing", json!({}), -32601, "unknown method"),
        (3, "subscribe", json!({}), -32602, "parameter query is missing"),
        (4, "subscribe", json!({ "query": "NewBlock" }), -32603, "expected type.attribute"),
        (5, "subscribe", json!({ "query": "" }), -32603, "query cannot be empty"),
        (6, "unsubscribe", json!({ "query": QUERY }), -32603, "subscription not found"),
        (7, "unsubscribe_all", json!({}), -32603, "subscription not found"),
    ] {
        let (found, text) = error_of(socket.call(id, method, params).await);
        assert!(found == code && text.contains(expected), "{method}: {found} {text}");
    }
    for text in ["{", "[]", "7"] {
        socket.send(text).await;
        let response = socket.next().await;
        assert!(response["id"] == json!(-1) && response["error"].is_object(), "{text}: {response}");
    }
    socket.subscribe(8, QUERY).await;
    assert_eq!(error_of(socket.call(9, "subscribe", json!([QUERY])).await).1, "already subscribed");
    for (id, height) in (10..).zip(0..4) {
        socket.subscribe(id, &format!("tx.height={height}")).await;
    }
    let (_, text) = error_of(socket.call(20, "subscribe", json!(["tx.height=5"])).await);
    assert!(text.contains("at most 5 subscriptions"), "{text}");
    // No event of a subscription follows the response to its `unsubscribe`.
    let ended = socket.call(21, "unsubscribe", json!([QUERY])).await;
    assert_eq!(ended["result"], json!({}));
    served.mined(&signed_send(0)).await;
    let ended = socket.call(22, "unsubscribe_all", json!([])).await;
    assert_eq!(ended["result"], json!({}));
    socket.send(r#"{"jsonrpc":"2.0","id":23,"method":"health"}"#).await;
    assert_eq!(socket.next().await["id"], json!(23));
    served.stop().await;
}
