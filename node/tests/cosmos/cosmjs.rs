//! cosmjs, which wallets of Cosmos chains are made of, against a node. Passed over with a printed
//! line where node or the modules are missing (`NODE_PATH` counts).

use crate::{client::PATIENCE, served::Served};
use node::chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::{path::Path, process::Stdio};
use tokio::process::Command;

const MODULES: &str = "require('@cosmjs/proto-signing'); require('cosmjs-types/helpers')";

#[tokio::test(flavor = "multi_thread")]
async fn cosmjs_sends_and_nonces_agree() {
    let mut probing = Command::new("node");
    probing.args(["-e", MODULES]).stdout(Stdio::null()).stderr(Stdio::null());
    if !probing.status().await.is_ok_and(|status| status.success()) {
        println!("cosmjs is passed over: `node -e \"{MODULES}\"` fails");
        return;
    }
    let served = Served::start().await;
    let account = &DEV_ACCOUNTS[3];
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cosmos/cosmjs.cjs");
    let child = Command::new("node")
        .arg(script)
        .arg(format!("http://{}", served.node.rest.address))
        .arg(account.private_key.to_string())
        .arg("cosmos1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqq92yqleyn")
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, child).await.expect("an end").unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}");
    let told: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    let nonce =
        served.node.call("eth_getTransactionCount", json!([account.address, "latest"])).await;
    assert_eq!((told["sequence"].as_str(), nonce.as_str()), (Some("2"), Some("0x2")));
    // JSON-RPC finds it by either hash, and shows it whole.
    for hash in told["hashes"].as_array().unwrap() {
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
