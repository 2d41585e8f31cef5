//! A node that does not produce blocks refuses transactions on every interface, keeps those in its journal, and
//! still serves calls and estimates.

use super::{
    comet::signed_send,
    served::{FORKING, Served},
};
use crate::{
    client::{Node, config},
    common::{frames::Frames, native_home, producing, transfer, wait_until},
};
use alloy_primitives::{Address, Bytes, hex};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use chain::DEV_ACCOUNTS;
use mempool::Reject;
use pipeline::Pipeline;
use serde_json::json;
use std::time::Duration;

const RECEIVER: Address = Address::repeat_byte(0x77);
/// Part of the error text that names the remedy.
const REMEDY: &str = "mempool.accept-without-production";

#[tokio::test(flavor = "multi_thread")]
async fn every_interface_refuses_transactions_without_block_production() {
    let folder = tempfile::tempdir().unwrap();
    let opening = FORKING.lock().await;
    let mut home = native_home(folder.path());
    drop(opening);
    home.config.mempool.accept_without_production = false;
    let node = Node::start_with(folder, home, producing(None), config()).await;
    let served = Served::with(node).await;
    let node = &served.node;
    let raw = hex::encode_prefixed(transfer(0, 0, RECEIVER));

    for method in ["eth_sendRawTransaction", "eth_sendRawTransactionSync"] {
        let (code, message) = node.fail(method, json!([raw])).await;
        assert_eq!(code, -32000, "{method}: {message}");
        assert!(message.contains(REMEDY), "{method}: {message}");
    }
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": [raw]});
    let batch = node.post(&json!([call, call]).to_string()).await;
    for response in batch.as_array().unwrap() {
        assert!(response["error"]["message"].as_str().unwrap().contains(REMEDY), "{response}");
    }
    let response = node.call_over_websocket(node.json_rpc, &call.to_string()).await;
    assert_eq!(response["error"]["code"], -32000, "{response}");

    let address = node.pipeline.ingest_address.unwrap();
    let refused = tokio::task::block_in_place(|| {
        let mut frames = Frames::connect(address);
        frames.send([&transfer(0, 0, RECEIVER)[..]]).unwrap();
        frames.response().unwrap().unwrap_err()
    });
    assert!(refused.contains(REMEDY), "{refused}");

    let tx = BASE64.encode(signed_send(0));
    let body = json!({ "tx_bytes": tx, "mode": "BROADCAST_MODE_SYNC" });
    let (_, result) = served.post("/cosmos/tx/v1beta1/txs", &body.to_string()).await;
    let result = &result["tx_response"];
    assert_eq!((&result["codespace"], &result["code"]), (&json!("sdk"), &json!(37)), "{result}");
    assert!(result["raw_log"].as_str().unwrap().contains(REMEDY), "{result}");
    let result = served.comet("broadcast_tx_sync", json!([tx])).await;
    assert_eq!((&result["codespace"], &result["code"]), (&json!("sdk"), &json!(37)), "{result}");

    // Requests that need no block still work.
    let transfer = json!({"from": DEV_ACCOUNTS[0].address, "to": RECEIVER, "value": "0x1"});
    assert_eq!(node.call("eth_estimateGas", json!([transfer])).await, "0x5208");
    assert_eq!(node.call("eth_call", json!([transfer])).await, "0x");
    let status = node.call("txpool_status", json!([])).await;
    assert_eq!(status, json!({"pending": "0x0", "queued": "0x0"}));
    let (code, _) = node.get("/health").await;
    assert_eq!(code, 200);
    served.stop().await;
}

#[test]
fn journalled_transactions_survive_a_run_without_block_production() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut home = native_home(folder.path());
    let raw: Vec<Bytes> = (0..3).map(|nonce| transfer(0, nonce, RECEIVER)).collect();
    let pipeline = Pipeline::start(&home, producing(None)).unwrap();
    for raw in &raw {
        runtime.block_on(pipeline.client().submit(raw.clone())).unwrap();
    }
    pipeline.stop();
    pipeline.join().unwrap();

    home.config.mempool.accept_without_production = false;
    let pooled = |pipeline: &Pipeline| {
        runtime
            .block_on(pipeline.client().content(None))
            .unwrap()
            .iter()
            .map(|txs| txs.pending.len())
            .sum::<usize>()
    };
    for _ in 0..2 {
        let pipeline = Pipeline::start(&home, producing(None)).unwrap();
        assert_eq!(pooled(&pipeline), raw.len());
        let submit = |raw: &Bytes| runtime.block_on(pipeline.client().submit(raw.clone()));
        let refused = submit(&transfer(0, 3, RECEIVER)).unwrap_err();
        assert_eq!(*refused, Reject::NoProduction);
        assert_eq!(*submit(&raw[0]).unwrap_err(), Reject::AlreadyKnown);
        pipeline.stop();
        pipeline.join().unwrap();
    }
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(5)))).unwrap();
    wait_until("all are in blocks", || pooled(&pipeline) == 0);
    runtime.block_on(pipeline.client().submit(transfer(0, 3, RECEIVER))).unwrap();
    pipeline.stop();
    pipeline.join().unwrap();
}
