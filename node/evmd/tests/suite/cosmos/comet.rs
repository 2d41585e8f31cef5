//! Compares blocks and the node's status in CometBFT's RPC with REST and JSON-RPC, and makes invalid calls.

use super::served::Served;
use crate::{
    client::exchange,
    common::{
        CHAIN_ID, FEE_CAP, sign,
        signed::{send, signed},
        transfer,
    },
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, TxKind, hex};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use keys::bech32;
use serde_json::{Value, json};

/// The recipient of coins and ether.
pub(crate) const RECEIVER: Address = Address::repeat_byte(0x77);

/// Converts a base64 hash to upper-case hex.
fn upper_hex(base64: &Value) -> Value {
    json!(hex::encode_upper(BASE64.decode(base64.as_str().unwrap()).unwrap()))
}

/// Returns a signed transaction of account 0 with one `MsgSend`.
pub(crate) fn signed_send(sequence: u64) -> Vec<u8> {
    signed(0, sequence, vec![send(0, &bech32("cosmos", RECEIVER), 7)])
}

impl Served {
    /// Posts any body; returns status and JSON of the response.
    async fn comet_post(&self, body: &str) -> (u16, Value) {
        let head = format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let (status, text) = exchange(self.node.comet, format!("{head}{body}").as_bytes()).await;
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Requests a URI; returns status and JSON of the response.
    pub(crate) async fn comet_get(&self, path: &str) -> (u16, Value) {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let (status, text) = exchange(self.node.comet, request.as_bytes()).await;
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Returns the whole response to a call.
    pub(crate) async fn comet_response(&self, method: &str, params: Value) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let (status, response) = self.comet_post(&call.to_string()).await;
        assert_eq!((status, &response["id"]), (200, &json!(7)), "{method}: {response}");
        response
    }

    /// Returns the result of a call, which must succeed.
    pub(crate) async fn comet(&self, method: &str, params: Value) -> Value {
        let mut response = self.comet_response(method, params).await;
        assert!(response.get("error").is_none(), "{method}: {response}");
        response["result"].take()
    }

    /// Returns the code and error text of a call, which must fail.
    pub(crate) async fn comet_error(&self, method: &str, params: Value) -> (i64, String) {
        let response = self.comet_response(method, params).await;
        let error = response.get("error").unwrap_or_else(|| panic!("{method}: {response}"));
        (error["code"].as_i64().unwrap(), error["data"].as_str().unwrap().to_owned())
    }

    /// Mines an Ethereum transfer; returns its hash in upper-case hex and the number of its block.
    pub(crate) async fn mine_transfer(&self, nonce: u64) -> (String, u64) {
        let raw = transfer(1, nonce, RECEIVER);
        let hash = self.node.call("eth_sendRawTransaction", json!([raw])).await;
        let receipt = self.node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
        let number = receipt["blockNumber"].as_str().unwrap();
        let number = u64::from_str_radix(&number[2..], 16).unwrap();
        (hash.as_str().unwrap()[2..].to_uppercase(), number)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn block_has_a_bloom_event() {
    let served = Served::start().await;
    // Init code that emits a log with one topic and no data: `log1(0, 0, 7)`.
    let input = vec![0x60, 7, 0x60, 0, 0x60, 0, 0xa1];
    let logging = TxEip1559 {
        chain_id: CHAIN_ID,
        gas_limit: 100_000,
        max_fee_per_gas: FEE_CAP,
        to: TxKind::Create,
        input: input.into(),
        ..TxEip1559::default()
    };
    let hash = served.node.call("eth_sendRawTransaction", json!([sign(2, logging)])).await;
    let receipt = served.node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    let number = u64::from_str_radix(&receipt["blockNumber"].as_str().unwrap()[2..], 16).unwrap();
    // The previous block may be empty.
    for number in [number, number - 1] {
        let hex = format!("{number:#x}");
        let block = served.node.call("eth_getBlockByNumber", json!([hex, false])).await;
        let results = served.comet("block_results", json!({ "height": number.to_string() })).await;
        let ended = results["finalize_block_events"].as_array().unwrap();
        let bloom = ended.iter().find(|event| event["type"] == "block_bloom").unwrap();
        let attribute = json!({ "key": "bloom", "value": block["logsBloom"], "index": true });
        assert_eq!(bloom["attributes"], json!([attribute]), "{number}");
    }
    assert_ne!(receipt["logsBloom"], format!("0x{:0512}", 0));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_equal_those_of_rest() {
    let served = Served::start().await;
    let raw = signed_send(0);
    let mined = served.mined(&raw).await;
    let height = &mined["height"];
    let path = format!("/cosmos/base/tendermint/v1beta1/blocks/{}", height.as_str().unwrap());
    let rest = served.get(&path).await;
    let block = served.comet("block", json!({ "height": height })).await;
    let hash = &block["block_id"]["hash"];
    assert_eq!(hash, &upper_hex(&rest["block_id"]["hash"]));
    let (header, other) = (&block["block"]["header"], &rest["block"]["header"]);
    for name in ["chain_id", "height", "time"] {
        assert_eq!(header[name], other[name], "{name}");
    }
    for name in ["data_hash", "app_hash", "last_results_hash", "proposer_address"] {
        assert_eq!(header[name], upper_hex(&other[name]), "{name}");
    }
    assert_eq!(header["last_block_id"]["hash"], upper_hex(&other["last_block_id"]["hash"]));
    assert_eq!(header["version"], json!({ "block": "11", "app": "0" }));
    assert_eq!(block["block"]["data"]["txs"], json!([BASE64.encode(&raw)]));
    assert_eq!(block["block"]["last_commit"]["block_id"], header["last_block_id"]);
    assert_eq!(block["block"]["last_commit"]["height"], rest["block"]["last_commit"]["height"]);
    assert_eq!(block["block"]["last_commit"]["signatures"], json!([]));
    // Other methods return the same block.
    let bytes = hex::decode(hash.as_str().unwrap()).unwrap();
    let by_hash = json!({ "hash": BASE64.encode(bytes) });
    assert_eq!(served.comet("block_by_hash", by_hash).await, block);
    let only = json!({ "header": header });
    assert_eq!(served.comet("header", json!([height])).await, only);
    assert_eq!(served.comet("header_by_hash", json!({ "hash": hash })).await, only);
    let commit = served.comet("commit", json!({ "height": height })).await;
    assert_eq!(commit["signed_header"]["header"], *header);
    assert_eq!(commit["signed_header"]["commit"]["block_id"], block["block_id"]);
    assert_eq!(commit["canonical"], true);
    let list = served.comet("blockchain", json!([height, height])).await;
    let metas = list["block_metas"].as_array().unwrap();
    assert_eq!((metas.len(), &metas[0]["header"]), (1, header));
    assert_eq!((&metas[0]["num_txs"], &metas[0]["block_id"]), (&json!("1"), &block["block_id"]));
    let results = served.comet("block_results", json!({ "height": height })).await;
    let result = &results["txs_results"][0];
    for name in ["code", "codespace", "gas_used", "gas_wanted", "events"] {
        assert_eq!(result[name], mined[name], "{name}");
    }
    let ended = results["finalize_block_events"].as_array().unwrap();
    let kinds: Vec<_> = ended.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["fee_market", "evm_fee_market", "block_bloom", "block_gas"]);
    assert_eq!(ended[3]["attributes"][0]["value"], *height, "{ended:?}");
    let validators = served.comet("validators", json!({ "height": height })).await;
    let validator = &validators["validators"][0];
    assert_eq!(validator["address"], header["proposer_address"]);
    assert_eq!((&validator["voting_power"], &validators["total"]), (&json!("1"), &json!("1")));
    let params = served.comet("consensus_params", json!({ "height": height })).await;
    let number = format!("0x{:x}", height.as_str().unwrap().parse::<u64>().unwrap());
    let eth = served.node.call("eth_getBlockByNumber", json!([number, false])).await;
    let gas = params["consensus_params"]["block"]["max_gas"].as_str().unwrap().parse::<u64>();
    assert_eq!(format!("0x{:x}", gas.unwrap()), eth["gasLimit"].as_str().unwrap());
    // REST formats durations in seconds.
    let mut same = params["consensus_params"].clone();
    same["evidence"]["max_age_duration"] = json!("0s");
    let (_, response) = served.ask_at("/cosmos/consensus/v1/params", height.as_str()).await;
    assert_eq!(response, json!({ "params": same }));
    // A URI returns the same as a call.
    let height = height.as_str().unwrap();
    let (status, response) = served.comet_get(&format!("/block?height={height}")).await;
    assert_eq!((status, &response["id"], &response["result"]), (200, &json!(-1), &block));
    let hash = hash.as_str().unwrap();
    let (_, response) = served.comet_get(&format!("/block_by_hash?hash=0x{hash}")).await;
    assert_eq!(response["result"], block);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_and_info_describe_the_node() {
    let served = Served::start().await;
    let status = served.comet("status", json!({})).await;
    let (info, sync) = (&status["node_info"], &status["sync_info"]);
    assert_eq!(info["network"], json!(CHAIN_ID.to_string()));
    assert!(info["version"].as_str().unwrap().starts_with("0.38."), "{info}");
    assert_eq!(info["protocol_version"], json!({ "p2p": "8", "block": "11", "app": "0" }));
    assert_eq!(
        (&sync["catching_up"], &sync["earliest_block_height"]),
        (&json!(false), &json!("1"))
    );
    let height = &sync["latest_block_height"];
    let block = served.comet("block", json!([height])).await;
    assert_eq!(block["block_id"]["hash"], sync["latest_block_hash"]);
    assert_eq!(block["block"]["header"]["app_hash"], sync["latest_app_hash"]);
    assert_eq!(status["validator_info"]["pub_key"]["type"], "tendermint/PubKeyEd25519");
    assert_eq!(served.comet("health", Value::Null).await, json!({}));
    let abci = served.comet("abci_info", json!([])).await["response"].take();
    assert_eq!(abci["data"], "evmd");
    let peers = served.comet("net_info", json!({})).await;
    assert_eq!((&peers["n_peers"], &peers["peers"]), (&json!("0"), &json!([])));
    let genesis = served.comet("genesis", json!({})).await["genesis"].take();
    let zero = served.node.call("eth_getBlockByNumber", json!(["0x0", false])).await;
    let root = zero["stateRoot"].as_str().unwrap()[2..].to_uppercase();
    assert_eq!((&genesis["app_hash"], &genesis["chain_id"]), (&json!(root), &info["network"]));
    assert_eq!(genesis["app_state"]["evmd"]["config"]["chainId"], CHAIN_ID);
    // Without a maximum height, the list contains the newest twenty blocks.
    served.node.wait_for("eth_getBlockByNumber", json!(["0x16", false])).await;
    let list = served.comet("blockchain", json!({ "minHeight": "1" })).await;
    let metas = list["block_metas"].as_array().unwrap();
    assert_eq!((metas.len(), &metas[0]["header"]["height"]), (20, &list["last_height"]));
    let (status, methods) = served.comet_get("/").await;
    let methods = methods.as_str().unwrap();
    assert!(status == 200 && methods.contains("\nblockchain(minHeight, maxHeight)\n"), "{methods}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_calls_are_refused() {
    let served = Served::start().await;
    for (method, params, code, text) in [
        ("nothing", json!({}), -32601, "unknown method \"nothing\""),
        ("subscribe", json!({ "query": "tm.event='NewBlock'" }), -32603, "over a WebSocket"),
        ("unsubscribe", json!(["tm.event='NewBlock'"]), -32603, "over a WebSocket"),
        ("block", json!({ "height": "x" }), -32602, "parameter height: \"x\" is not a 64-bit"),
        ("block", json!({ "heigth": 1 }), -32602, "unknown parameter \"heigth\""),
        ("block", json!([1, 2]), -32602, "got 2 values"),
        ("block", json!({ "height": "0" }), -32603, "must be greater than 0, but got 0"),
        ("header", json!([-1]), -32603, "must be greater than 0, but got -1"),
        ("commit", json!([1_000_000_000]), -32603, "less than or equal to the current blockchain"),
        ("block_by_hash", json!(["AAAA"]), -32603, "block 000000 not found"),
        ("block_by_hash", json!({}), -32602, "parameter hash is missing"),
        ("blockchain", json!([2, 1]), -32603, "min height 2 can't be greater than max height 1"),
        ("blockchain", json!([-2, 1]), -32603, "but got -2"),
        ("validators", json!({ "page": 2 }), -32603, "page should be within [1, 1] range, given 2"),
        ("tx", json!({ "hash": "AAAA" }), -32603, "invalid hash: expected 64 hex digits, got 6"),
        ("tx", json!({ "hash": BASE64.encode([1; 32]) }), -32603, "tx not found"),
        ("tx_search", json!({ "query": "" }), -32603, "query cannot be empty"),
        ("tx_search", json!({ "query": "tx.height=1", "page": 0 }), -32602, "0 is not 1 or more"),
        ("tx_search", json!({ "query": "tx.height=1", "order_by": "up" }), -32602, "asc, desc"),
        ("block_search", json!({ "query": "" }), -32603, "query cannot be empty"),
        ("block_search", json!({ "query": "block.height=x" }), -32603, "is not a height"),
        ("block_search", json!({ "query": "block.height=1", "page": 2 }), -32603, "given 2"),
        ("block_search", json!({}), -32602, "parameter query is missing"),
        ("broadcast_tx_sync", json!({ "tx": "" }), -32603, "invalid empty tx"),
        ("broadcast_tx_sync", json!({ "tx": "!" }), -32602, "is not base64"),
        ("abci_query", json!({ "path": "/x", "data": "0g" }), -32602, "is not hex"),
    ] {
        let (found, data) = served.comet_error(method, params.clone()).await;
        assert!(found == code && data.contains(text), "{method} {params}: {found} {data}");
    }
    for (path, status, code) in [
        ("/nothing", 404, -32601),
        ("/block?height=x", 500, -32602),
        ("/block?height=999999999", 500, -32603),
        ("/tx_search?query=tx.height=1", 500, -32602),
        ("/block?heigth=1", 500, -32602),
    ] {
        let (found, body) = served.comet_get(path).await;
        assert_eq!((found, &body["error"]["code"]), (status, &json!(code)), "{path}: {body}");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_and_batches_are_bounded() {
    let served = Served::start().await;
    let call = |id: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "health" });
    let batch = |calls: usize| Value::from_iter((0..calls).map(|id| call(json!(id)))).to_string();
    let (status, responses) = served.comet_post(&batch(20)).await;
    let responses = responses.as_array().unwrap();
    assert_eq!((status, responses.len(), &responses[19]["id"]), (200, 20, &json!(19)));
    let (status, response) = served.comet_post(&batch(21)).await;
    assert_eq!((status, &response["error"]["code"]), (500, &json!(-32600)), "{response}");
    // A call that fails does not affect the others, and a notification has no response.
    let mixed = json!([call(json!("a")), { "id": 1, "method": "no" }, { "method": "health" }, 7]);
    let (_, responses) = served.comet_post(&mixed.to_string()).await;
    let codes: Vec<_> = (0..3).map(|at| responses[at]["error"]["code"].as_i64()).collect();
    assert_eq!(codes, [None, Some(-32601), Some(-32600)]);
    assert_eq!(responses.as_array().unwrap().len(), 3);
    let (status, body) = served.comet_post("{\"method\":\"health\"}").await;
    assert_eq!((status, body), (200, json!("")));
    for (body, code) in [("{", -32700), ("7", -32600), ("{\"id\":{},\"method\":\"x\"}", -32600)] {
        let (_, response) = served.comet_post(body).await;
        assert_eq!(response["error"]["code"], code, "{body}: {response}");
    }
    let (status, _) = served.comet_post(&" ".repeat(200_000)).await;
    assert_eq!(status, 413);
    // A page size above the maximum is accepted.
    served.mine_transfer(0).await;
    let query = json!({ "query": "tx.height>0", "per_page": "100000" });
    assert_eq!(served.comet("tx_search", query).await["total_count"], "1");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_are_found_by_height_and_events() {
    let served = Served::start().await;
    let (_, number) = served.mine_transfer(0).await;
    let search = |params: Value| served.comet("block_search", params);
    let query = format!("block.height <= {number}");
    let found = search(json!({ "query": query, "per_page": 1 })).await;
    assert_eq!(found["total_count"], json!(number.to_string()));
    let block = served.comet("block", json!({ "height": number })).await;
    assert_eq!(found["blocks"], json!([block]), "the newest block comes first");
    let oldest = search(json!({ "query": query, "per_page": 1, "order_by": "asc" })).await;
    assert_eq!(oldest["blocks"][0]["block"]["header"]["height"], "1");
    // A block is also found by its own events.
    let results = served.comet("block_results", json!({ "height": number })).await;
    let events = results["finalize_block_events"].as_array().unwrap();
    let gas = events.iter().find(|event| event["type"] == "block_gas").unwrap();
    let (key, value) = (&gas["attributes"][0]["key"], &gas["attributes"][0]["value"]);
    let query = format!("block_gas.{} EXISTS AND block.height = {number}", key.as_str().unwrap());
    assert_eq!(search(json!({ "query": query })).await["total_count"], "1", "{key} {value}");
    let none = format!("nothing.at_all EXISTS AND block.height <= {number}");
    let none = search(json!({ "query": none })).await;
    assert_eq!(none, json!({ "blocks": [], "total_count": "0" }));
    served.stop().await;
}
