//! Calls the methods that only this node has: the pipeline, fees over long ranges, and the subscription to fees.

use super::{
    fees::{grow, number, runner},
    native::naive_rewards,
};
use crate::{
    client::{MAX_WAIT, Node},
    common::transfer,
};
use alloy_primitives::{Address, U256};
use serde_json::{Value, json};
use tokio::time::timeout;

/// Stages of a node that produces blocks, in pipeline order.
const STAGES: [&str; 8] =
    ["ingest", "recover", "ante", "execute", "fee", "seal", "commit", "flush"];

#[tokio::test(flavor = "multi_thread")]
async fn evmd_pipeline_returns_the_stages() {
    let node = Node::native().await;
    let raw = transfer(0, 0, Address::ZERO);
    let receipt = node.call("eth_sendRawTransactionSync", json!([raw, 30_000])).await;
    let mined = number(&receipt["blockNumber"]);
    let executed = |shown: &Value| {
        let stages = shown["stages"].as_array().unwrap().iter();
        stages.filter(|stage| stage["name"] == "execute").any(|stage| stage["out"] == 1)
    };
    // Stages publish their counters a few times per second.
    let counted = async {
        loop {
            let shown = node.call("evmd_pipeline", json!([])).await;
            if executed(&shown) {
                return shown;
            }
        }
    };
    let shown = timeout(MAX_WAIT, counted).await.expect("the transaction is counted");
    assert_eq!(shown["fault"], false);
    assert!(number(&shown["head"]) >= mined, "{shown}");
    let stages = shown["stages"].as_array().unwrap();
    let names: Vec<_> = stages.iter().map(|stage| stage["name"].as_str().unwrap()).collect();
    assert_eq!(names, STAGES);
    for stage in stages {
        assert!(stage["busy_seconds"].as_f64().unwrap() >= 0.0, "{stage}");
        assert_eq!(stage["latency_seconds"].as_array().unwrap().len(), 3, "{stage}");
    }
    let rings = shown["rings"].as_array().unwrap();
    assert!(!rings.is_empty());
    for ring in rings {
        let (depth, capacity) = (ring["depth"].as_u64(), ring["capacity"].as_u64());
        assert!(depth <= capacity && capacity > Some(0), "{ring}");
    }
    let (code, message) = node.fail("evmd_pipeline", json!([1])).await;
    assert_eq!((code, message.as_str()), (-32602, "too many arguments, want at most 0"));
    node.stop().await;
}

/// Reads a block and its receipts.
async fn read(node: &Node, at: u64) -> (Value, Value) {
    let block = node.wait_for("eth_getBlockByNumber", json!([format!("{at:#x}"), false])).await;
    let receipts = node.call("eth_getBlockReceipts", json!([block["number"]])).await;
    (block, receipts)
}

/// Computes the rewards of a bucket as if all its transactions were in one block.
fn quantiles(blocks: &[(Value, Value)], percentiles: &[f64]) -> Vec<U256> {
    let quantity = |value: &Value| value.as_str().unwrap().parse::<U256>().unwrap();
    let priority_fees = blocks.iter().flat_map(|(block, receipts)| {
        let base_fee = quantity(&block["baseFeePerGas"]);
        receipts.as_array().unwrap().iter().map(move |receipt| {
            let priority_fee = quantity(&receipt["effectiveGasPrice"]) - base_fee;
            json!({ "effectiveGasPrice": priority_fee, "gasUsed": receipt["gasUsed"] })
        })
    });
    let priority_fees: Vec<Value> = priority_fees.collect();
    naive_rewards(&json!({ "baseFeePerGas": "0x0" }), &json!(priority_fees), percentiles)
}

#[tokio::test(flavor = "multi_thread")]
async fn fee_quantiles_equal_the_receipts_of_a_bucket() {
    let node = Node::native().await;
    let newest = grow(&node, &mut runner(9)).await;
    let mut blocks = Vec::new();
    for at in 0..=newest {
        blocks.push(read(&node, at).await);
    }
    let percentiles = [0.0, 12.5, 50.0, 99.0, 100.0];
    let whole = json!("0xffffffffffffffff");
    for (first, last, bucket, size) in [
        (0, newest, json!(7), 7),
        (3, newest - 1, json!("0x10"), 16),
        (1, 1, json!("1"), 1),
        (0, 0, whole.clone(), u64::MAX),
        (0, newest, whole, u64::MAX),
    ] {
        let range = (format!("{first:#x}"), format!("{last:#x}"));
        let params = json!([range.0, range.1, bucket, percentiles]);
        let found = node.call("evmd_feeQuantiles", params.clone()).await;
        let found = found.as_array().unwrap();
        assert_eq!(found.len() as u64, (last - first) / size + 1, "{params}");
        let mut start = first;
        for bucket in found {
            let end = last.min(start.saturating_add(size - 1));
            let of = &blocks[start as usize..=end as usize];
            let column = |name: &'static str| of.iter().map(move |(block, _)| number(&block[name]));
            assert_eq!((number(&bucket["fromBlock"]), number(&bucket["toBlock"])), (start, end));
            assert_eq!(number(&bucket["baseFeeMin"]), column("baseFeePerGas").min().unwrap());
            assert_eq!(number(&bucket["baseFeeMax"]), column("baseFeePerGas").max().unwrap());
            assert_eq!(number(&bucket["gasUsed"]), column("gasUsed").sum::<u64>(), "{params}");
            let limit = column("gasLimit").fold(0, u64::saturating_add);
            let ratio = column("gasUsed").sum::<u64>() as f64 / limit as f64;
            assert_eq!(bucket["gasUsedRatio"].as_f64(), Some(ratio), "{params}");
            let rewards: Vec<U256> = serde_json::from_value(bucket["reward"].clone()).unwrap();
            assert_eq!(rewards, quantiles(of, &percentiles), "{params} from {start}");
            start = end + 1;
        }
    }
    let bare = node.call("evmd_feeQuantiles", json!(["0x0", "latest", 1_000_000])).await;
    assert_eq!(bare[0]["reward"], json!([]));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fee_quantiles_refuse_invalid_parameters() {
    let node = Node::native().await;
    node.wait_for("eth_getBlockByNumber", json!(["0x5", false])).await;
    let many: Vec<_> = (0..101).map(|step| f64::from(step) / 2.0).collect();
    for (params, code, text) in [
        (json!([]), -32602, "missing value for required argument 0"),
        (json!(["0x0"]), -32602, "missing value for required argument 1"),
        (json!(["0x0", "latest"]), -32602, "missing value for required argument 2"),
        (json!([0, "latest", 1]), -32602, "invalid argument 0"),
        (json!(["0x0", "newest", 1]), -32602, "invalid argument 1"),
        (json!(["0x0", "latest", -1]), -32602, "invalid argument 2"),
        (json!(["0x0", "latest", "0x10000000000000000"]), -32602, "invalid argument 2"),
        (json!(["0x0", "latest", 1, 50]), -32602, "invalid argument 3"),
        (json!(["0x0", "latest", 1, [], 1]), -32602, "too many arguments, want at most 4"),
        (json!(["0x0", "latest", 0]), -32602, "a bucket needs at least one block"),
        (json!(["0x0", "latest", ""]), -32602, "a bucket needs at least one block"),
        (json!(["0x2", "0x1", 1]), -32602, "invalid block range params"),
        (json!(["0x0", "0xffffff", 1]), -32602, "invalid block range params"),
        (json!(["0xffffff", "0xffffff", 1]), -32602, "invalid block range params"),
        (json!(["0x0", "latest", 1, [50, 20]]), -32000, "invalid reward percentile: #0:50"),
        (json!(["0x0", "latest", 1, [100.1]]), -32000, "invalid reward percentile: 100.1"),
        (json!(["0x0", "latest", 1, many]), -32000, "invalid reward percentile: over the query"),
    ] {
        let (found, message) = node.fail("evmd_feeQuantiles", params.clone()).await;
        assert_eq!(found, code, "{params}: {message}");
        assert!(message.starts_with(text), "{params}: {message}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pushed_fees_equal_the_fee_history() {
    let node = Node::native().await;
    let mut socket = node.websocket(node.web_socket).await;
    let percentiles = json!([0, 12.5, 100]);
    let with = socket.call("eth_subscribe", json!(["newFees", percentiles])).await;
    let without = socket.call("eth_subscribe", json!(["newFees"])).await;
    for nonce in 0..3 {
        let raw = transfer(6, nonce, Address::ZERO);
        node.call("eth_sendRawTransaction", json!([raw])).await;
    }
    let (mut rows, mut bare, mut paid) = (Vec::new(), Vec::new(), 0);
    while rows.len() < 8 || bare.len() < 8 || paid == 0 {
        let pushed = timeout(MAX_WAIT, socket.receive()).await.expect("a notification");
        let row = pushed["params"]["result"].clone();
        paid += usize::from(row["reward"][0].as_str().is_some_and(|reward| reward != "0x0"));
        let list = if pushed["params"]["subscription"] == with { &mut rows } else { &mut bare };
        list.push(row);
    }
    assert_ne!(with, without);
    for (list, percentiles) in [(rows, percentiles), (bare, json!([]))] {
        for pair in list.windows(2) {
            assert_eq!(number(&pair[1]["number"]), number(&pair[0]["number"]) + 1, "no gap");
        }
        for row in &list {
            let params = json!([1, row["number"], percentiles]);
            let history = node.call("eth_feeHistory", params).await;
            assert_eq!(row["baseFeePerGas"], history["baseFeePerGas"][0], "{row}");
            assert_eq!(row["nextBaseFeePerGas"], history["baseFeePerGas"][1], "{row}");
            assert_eq!(row["gasUsedRatio"], history["gasUsedRatio"][0], "{row}");
            let rewards = history.get("reward").map_or(json!([]), |rewards| rewards[0].clone());
            assert_eq!(row["reward"], rewards, "{row}");
        }
    }
    let many: Vec<_> = (0..101).map(|step| f64::from(step) / 2.0).collect();
    for (params, code) in [
        (json!(["newFees", 50]), -32602),
        (json!(["newFees", ["a"]]), -32602),
        (json!(["newFees", [], 1]), -32602),
        (json!(["newFees", [100.5]]), -32000),
        (json!(["newFees", [50, 50]]), -32000),
        (json!(["newFees", many]), -32000),
    ] {
        let response = socket.response("eth_subscribe", params.clone()).await;
        assert_eq!(response["error"]["code"], code, "{params}: {response}");
    }
    assert_eq!(socket.call("eth_unsubscribe", json!([with])).await, json!(true));
    node.stop().await;
}
