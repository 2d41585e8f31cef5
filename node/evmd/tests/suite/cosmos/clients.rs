//! Checks details of responses on which clients of the SDK depend: errors of CometBFT's mempool, broadcast modes,
//! height headers and names of tokens.

use super::served::{FORKING, Served};
use crate::{
    client::exchange_with_head,
    common::{
        native_home, producing,
        signed::{address_of, send, signed},
    },
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn repeated_transaction_has_the_error_of_cometbft() {
    let folder = tempfile::tempdir().unwrap();
    let opening = FORKING.lock().await;
    let home = native_home(folder.path());
    let served = Served::on(folder, home, producing(None)).await;
    drop(opening);
    let raw = signed(0, 0, vec![send(0, &address_of(9), 7)]);
    assert_eq!(served.broadcast(&raw).await.0, 0);
    assert_eq!(served.broadcast(&raw).await.0, 19, "REST returns the SDK's code");
    for method in ["broadcast_tx_sync", "broadcast_tx_async", "broadcast_tx_commit"] {
        let response = served.comet_response(method, json!({ "tx": BASE64.encode(&raw) })).await;
        let error = &response["error"];
        assert_eq!(
            (&error["code"], &error["data"]),
            (&json!(-32603), &json!("tx already exists in cache")),
            "{method}: {response}"
        );
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broadcast_mode_must_be_supported_by_the_sdk() {
    let served = Served::start().await;
    let tx = BASE64.encode(signed(0, 0, vec![send(0, &address_of(9), 7)]));
    let block = json!({ "tx_bytes": tx, "mode": "BROADCAST_MODE_BLOCK" });
    for body in [json!({ "tx_bytes": tx }), json!({ "tx_bytes": tx, "mode": 0 }), block] {
        let (status, response) = served.post("/cosmos/tx/v1beta1/txs", &body.to_string()).await;
        assert_eq!((status, &response["code"]), (500, &json!(2)), "{response}");
        let text = response["message"].as_str().unwrap();
        assert!(text.contains("supported types: sync, async"), "{text}");
    }
    for (mode, code) in [("BROADCAST_MODE_ASYNC", 0), ("BROADCAST_MODE_SYNC", 19)] {
        let body = json!({ "tx_bytes": tx, "mode": mode });
        let (_, response) = served.post("/cosmos/tx/v1beta1/txs", &body.to_string()).await;
        let response = &response["tx_response"];
        assert!([code, 32].contains(&response["code"].as_i64().unwrap()), "{response}");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_have_height_and_display_unit() {
    let served = Served::start().await;
    let path = format!("/cosmos/bank/v1beta1/balances/{}", address_of(0));
    for (query, denom) in [("", "atest"), ("?resolve_denom=true", "test")] {
        let response = served.get(&format!("{path}{query}")).await;
        assert_eq!(response["balances"][0]["denom"], denom, "{response}");
        assert_eq!(response["balances"][0]["amount"], "10000000000000000000000");
    }
    for path in [path.as_str(), "/cosmos/bank/v1beta1/params"] {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nx-cosmos-block-height: 1\r\nConnection: close\r\n\r\n"
        );
        let (status, head, _) = exchange_with_head(served.node.rest, request.as_bytes()).await;
        assert_eq!(status, 200);
        for name in ["x-cosmos-block-height", "grpc-metadata-x-cosmos-block-height"] {
            assert!(head.to_lowercase().contains(&format!("\r\n{name}: 1\r\n")), "{head}");
        }
    }
    served.stop().await;
}
