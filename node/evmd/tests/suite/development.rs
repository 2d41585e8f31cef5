//! `evmd start` in an empty home folder: a development chain that common tools can use.

use crate::start_safety::run;
use alloy_primitives::{Address, B256};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::path::Path;
use testkit::NodeProcess;

const PROGRAM: &str = env!("CARGO_BIN_EXE_evmd");

async fn transfer(node: &NodeProcess, from: Address, fields: Value) -> Value {
    let mut tx = json!({ "from": from, "to": Address::repeat_byte(7), "value": "0x1" });
    tx.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    node.endpoints().call("eth_sendTransaction", json!([tx])).await
}

async fn receipt(node: &NodeProcess, hash: &Value) -> Value {
    node.endpoints().call("eth_getTransactionReceipt", json!([hash])).await
}

#[tokio::test]
async fn development_accounts_sign_and_receipts_are_there_when_the_call_returns() {
    let folder = tempfile::tempdir().unwrap();
    let node = NodeProcess::start(Path::new(PROGRAM), folder.path(), &[]);
    let accounts = DEV_ACCOUNTS.map(|account| account.address);
    assert_eq!(node.endpoints().call("eth_accounts", json!([])).await, json!(accounts));
    for number in 1..=20_u64 {
        let from = accounts[number as usize % 3];
        let hash = transfer(&node, from, json!({})).await;
        let receipt = receipt(&node, &hash).await;
        assert_eq!(receipt["blockNumber"], json!(format!("{number:#x}")), "{receipt}");
        assert_eq!(receipt["type"], "0x2");
    }
    // Behind a gap of the nonce: the call returns, and both are mined when the gap is closed.
    let next = 20 / 3 + 1;
    let later = transfer(&node, accounts[1], json!({ "nonce": format!("{:#x}", next + 1) })).await;
    assert_eq!(receipt(&node, &later).await, Value::Null);
    let first = transfer(&node, accounts[1], json!({ "nonce": format!("{next:#x}") })).await;
    for hash in [first, later] {
        assert_ne!(receipt(&node, &hash).await, Value::Null);
    }
    for (method, params) in [
        ("debug_traceBlockByNumber", json!(["0x1"])),
        ("trace_block", json!(["0x1"])),
        ("ots_getApiLevel", json!([])),
        ("erigon_getHeaderByNumber", json!(["0x1"])),
        ("txpool_status", json!([])),
        ("personal_listAccounts", json!([])),
    ] {
        node.endpoints().call(method, params).await;
    }
}

#[tokio::test]
async fn second_start_is_a_development_chain_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = NodeProcess::start(Path::new(PROGRAM), folder.path(), &[]);
    let hash = transfer(&node, DEV_ACCOUNTS[0].address, json!({})).await;
    node.kill();
    let node = NodeProcess::start(Path::new(PROGRAM), folder.path(), &[]);
    assert_ne!(receipt(&node, &hash).await, Value::Null);
    let hash = transfer(&node, DEV_ACCOUNTS[0].address, json!({})).await;
    assert_ne!(receipt(&node, &hash).await, Value::Null);
}

#[tokio::test]
async fn base_fee_of_an_idle_chain_stays_above_zero() {
    let folder = tempfile::tempdir().unwrap();
    let node = NodeProcess::start(Path::new(PROGRAM), folder.path(), &["--block-time", "1ms"]);
    let mut head = json!({ "number": "0x0" });
    while head["number"].as_str().unwrap() < "0x100" || head["number"].as_str().unwrap().len() < 5 {
        head = node.endpoints().call("eth_getBlockByNumber", json!(["latest", false])).await;
    }
    assert_eq!(head["baseFeePerGas"], json!(format!("{:#x}", 1_000_000)));
    let hash: B256 =
        serde_json::from_value(transfer(&node, DEV_ACCOUNTS[0].address, json!({})).await).unwrap();
    let tx = node.endpoints().call("eth_getTransactionByHash", json!([hash])).await;
    assert_eq!(tx["type"], "0x2");
}

#[tokio::test]
async fn development_chain_is_refused_at_addresses_of_other_machines() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    for option in ["--json-rpc.address", "--json-rpc.ws-address"] {
        let (code, out, err) = run(&home, &["start", "--quiet", option, "0.0.0.0:0"]);
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.contains("--json-rpc.allow-remote-signing"), "{err}");
    }
}

#[tokio::test]
async fn init_creates_a_development_chain_only_if_it_is_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    for (name, options, count) in [("plain", &["init"][..], 0), ("dev", &["init", "--dev"], 10)] {
        let home = folder.path().join(name);
        let (code, _, err) = run(&home, options);
        assert_eq!(code, 0, "{err}");
        let node = NodeProcess::start(Path::new(PROGRAM), &home, &[]);
        let accounts = node.endpoints().call("eth_accounts", json!([])).await;
        assert_eq!(accounts.as_array().unwrap().len(), count, "{name}");
        let reply = node.endpoints().answer("debug_traceBlockByNumber", json!(["0x0"])).await;
        let is_closed = reply["error"]["code"] == -32601;
        assert_eq!(is_closed, count == 0, "{reply}");
    }
}
