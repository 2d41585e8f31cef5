//! Runs cosmjs, a client library of Cosmos wallets, against a node. `.ci/clients` installs the library, and `NODE_PATH`
//! contains its folder.

use super::served::Served;
use crate::client::MAX_WAIT;
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::{net::SocketAddr, path::Path};
use tokio::process::Command;

/// The development account that sends the transactions.
const SENDER: usize = 3;
const RECEIVER: &str = "cosmos1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqq92yqleyn";

/// Runs a script against an address; returns the first line of its output.
async fn run(script: &str, address: SocketAddr) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script);
    let child = Command::new("node")
        .arg(script)
        .arg(format!("http://{address}"))
        .arg(DEV_ACCOUNTS[SENDER].private_key.to_string())
        .arg(RECEIVER)
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(MAX_WAIT, child).await.expect("the script ends").unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    serde_json::from_str(stdout.lines().next().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs cosmjs: run .ci/clients"]
async fn cosmjs_works_with_the_comet_rpc() {
    let served = Served::start().await;
    let output = run("comet.cjs", served.node.comet).await;
    for hash in output["hashes"].as_array().unwrap() {
        let found = served.get(&format!("/cosmos/tx/v1beta1/txs/{}", hash.as_str().unwrap())).await;
        assert_eq!(
            (&found["tx_response"]["txhash"], &found["tx_response"]["code"]),
            (hash, &json!(0))
        );
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs cosmjs: run .ci/clients"]
async fn cosmjs_sends_and_nonces_agree() {
    let served = Served::start().await;
    let account = &DEV_ACCOUNTS[SENDER];
    let output = run("cosmjs.cjs", served.node.rest).await;
    let nonce =
        served.node.call("eth_getTransactionCount", json!([account.address, "latest"])).await;
    assert_eq!((output["sequence"].as_str(), nonce.as_str()), (Some("2"), Some("0x2")));
    // JSON-RPC finds a transaction by the hash that cosmjs returns, and by its hash on this chain.
    for hash in output["hashes"].as_array().unwrap() {
        let hash = format!("0x{}", hash.as_str().unwrap().to_lowercase());
        let tx = served.node.call("eth_getTransactionByHash", json!([hash])).await;
        assert_eq!((&tx["type"], &tx["value"]), (&json!("0xa"), &json!("0x7")), "{tx}");
        assert_eq!(tx["from"], json!(account.address.to_string().to_lowercase()));
        let receipt = served.node.call("eth_getTransactionReceipt", json!([tx["hash"]])).await;
        assert_eq!((&receipt["status"], &receipt["type"]), (&json!("0x1"), &json!("0xa")));
        let number = &tx["blockNumber"];
        let block = served.node.call("eth_getBlockByNumber", json!([number, true])).await;
        assert_eq!(block["transactions"][0], tx);
    }
    served.stop().await;
}
