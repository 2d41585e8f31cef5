//! Tests the development chain of `evmd init --dev` and of its methods.

mod setters;
mod walk;

use crate::{client::Node, common::transfer as signed_transfer, start_safety::run};
use alloy_primitives::{Address, B256};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::path::Path;
use testkit::NodeProcess;

/// `{"accounts":{}}`, a dump without accounts.
const NO_ACCOUNTS: &str = "0x7b226163636f756e7473223a7b7d7d";
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_evmd");

/// Creates a development chain in a home folder.
fn init(home: &Path) {
    let (code, _, err) = run(home, &["init", "--dev"]);
    assert_eq!(code, 0, "{err}");
}

async fn transfer(node: &NodeProcess, from: Address, fields: Value) -> Value {
    let mut tx = json!({ "from": from, "to": Address::repeat_byte(7), "value": "0x1" });
    tx.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    node.endpoints().call("eth_sendTransaction", json!([tx])).await
}

async fn receipt(node: &NodeProcess, hash: &Value) -> Value {
    node.endpoints().call("eth_getTransactionReceipt", json!([hash])).await
}

/// Returns calls of all methods that exist only on development chains.
pub(crate) fn calls() -> Vec<(&'static str, Value)> {
    let (hash, account) = (B256::repeat_byte(1), Address::repeat_byte(0xac));
    vec![
        ("anvil_metadata", json!([])),
        ("hardhat_metadata", json!([])),
        ("anvil_nodeInfo", json!([])),
        ("anvil_setAutomine", json!([true])),
        ("anvil_getAutomine", json!([])),
        ("hardhat_getAutomine", json!([])),
        ("anvil_setIntervalMining", json!([3600])),
        ("anvil_getIntervalMining", json!([])),
        ("evm_setIntervalMining", json!([0])),
        ("anvil_getIntervalMining", json!([])),
        ("evm_setAutomine", json!([false])),
        ("evm_mine", json!([])),
        ("anvil_mine", json!([2, 10])),
        ("hardhat_mine", json!(["0x2"])),
        ("evm_increaseTime", json!([100])),
        ("anvil_increaseTime", json!(["0x10"])),
        ("evm_setNextBlockTimestamp", json!([4_000_000_000_u64])),
        ("anvil_setNextBlockTimestamp", json!(["0xee6b2801"])),
        ("anvil_setBlockTimestampInterval", json!([15])),
        ("anvil_removeBlockTimestampInterval", json!([])),
        ("anvil_setLoggingEnabled", json!([false])),
        ("hardhat_setLoggingEnabled", json!([true])),
        ("evm_snapshot", json!([])),
        ("anvil_snapshot", json!([])),
        ("evm_revert", json!(["0x2"])),
        ("anvil_revert", json!(["0x1"])),
        ("anvil_revert", json!(["0x1"])),
        ("anvil_setBalance", json!([account, "0x10"])),
        ("hardhat_setBalance", json!([account, 16])),
        ("evm_setAccountBalance", json!([account, "0x10"])),
        ("anvil_setNonce", json!([account, "0x1"])),
        ("hardhat_setNonce", json!([account, "0x2"])),
        ("evm_setAccountNonce", json!([account, "0x3"])),
        ("anvil_setCode", json!([account, "0x00"])),
        ("hardhat_setCode", json!([account, "0x"])),
        ("evm_setAccountCode", json!([account, "0x60"])),
        ("anvil_setStorageAt", json!([account, "0x0", hash])),
        ("hardhat_setStorageAt", json!([account, hash, hash])),
        ("evm_setAccountStorageAt", json!([account, 7, hash])),
        ("anvil_impersonateAccount", json!([account])),
        ("hardhat_impersonateAccount", json!([account])),
        ("anvil_stopImpersonatingAccount", json!([account])),
        ("hardhat_stopImpersonatingAccount", json!([account])),
        ("anvil_autoImpersonateAccount", json!([true])),
        ("hardhat_autoImpersonateAccount", json!([false])),
        (
            "eth_sendUnsignedTransaction",
            json!([{ "from": DEV_ACCOUNTS[1].address, "to": account }]),
        ),
        ("anvil_setNextBlockBaseFeePerGas", json!(["0x3b9aca00"])),
        ("hardhat_setNextBlockBaseFeePerGas", json!([1_000_000_000])),
        ("anvil_setCoinbase", json!([account])),
        ("hardhat_setCoinbase", json!([account])),
        ("hardhat_setPrevRandao", json!([hash])),
        ("anvil_dumpState", json!([])),
        ("hardhat_dumpState", json!([])),
        ("anvil_loadState", json!([NO_ACCOUNTS])),
        ("hardhat_loadState", json!([NO_ACCOUNTS])),
        ("anvil_dropTransaction", json!([hash])),
        ("hardhat_dropTransaction", json!([hash])),
        ("anvil_reset", json!([])),
        ("hardhat_reset", json!([])),
    ]
}

async fn number(node: &Node) -> Value {
    node.call("eth_blockNumber", json!([])).await
}

async fn timestamp(node: &Node) -> u64 {
    let head = node.call("eth_getBlockByNumber", json!(["latest", false])).await;
    u64::from_str_radix(&head["timestamp"].as_str().unwrap()[2..], 16).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_and_time_follow_the_client() {
    let node = Node::development().await;
    let raw = signed_transfer(0, 0, Address::repeat_byte(7));
    let hash = node.call("eth_sendRawTransaction", json!([raw])).await;
    assert_eq!(number(&node).await, "0x0", "blocks are produced on request");
    node.call("evm_mine", json!([])).await;
    assert_eq!(number(&node).await, "0x1");
    let receipt = node.call("eth_getTransactionReceipt", json!([hash])).await;
    assert_eq!(receipt["blockNumber"], "0x1");

    let before = timestamp(&node).await;
    node.call("anvil_mine", json!([3, 1000])).await;
    assert_eq!(number(&node).await, "0x4");
    let after = timestamp(&node).await;
    assert!((2000..2060).contains(&(after - before)), "{before} {after}");
    node.call("hardhat_mine", json!(["0x100"])).await;
    assert_eq!(number(&node).await, "0x104");

    let before = timestamp(&node).await;
    node.call("evm_increaseTime", json!([86_400])).await;
    node.call("evm_mine", json!([])).await;
    let after = timestamp(&node).await;
    assert!((86_400..86_460).contains(&(after - before)), "{before} {after}");
    let set = after + 1_000_000;
    node.call("evm_setNextBlockTimestamp", json!([set])).await;
    node.call("evm_mine", json!([])).await;
    assert_eq!(timestamp(&node).await, set);
    node.call("evm_mine", json!([])).await;
    assert!((set..set + 60).contains(&timestamp(&node).await), "time continues from there");
    let (_, message) = node.fail("evm_setNextBlockTimestamp", json!([set])).await;
    assert!(message.contains("lower than or equal"), "{message}");
    let (_, message) = node.fail("anvil_mine", json!([100_001])).await;
    assert!(message.contains("at most 100000"), "{message}");

    node.call("evm_setAutomine", json!([true])).await;
    let raw = signed_transfer(0, 1, Address::repeat_byte(7));
    let hash = node.call("eth_sendRawTransaction", json!([raw])).await;
    assert_ne!(node.call("eth_getTransactionReceipt", json!([hash])).await, Value::Null);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_restores_the_head_the_pool_and_the_clock() {
    let node = Node::development().await;
    let to = Address::repeat_byte(7);
    let send = |nonce| node.call("eth_sendRawTransaction", json!([signed_transfer(0, nonce, to)]));
    send(0).await;
    node.call("evm_mine", json!([])).await;
    let head = node.call("eth_getBlockByNumber", json!(["latest", false])).await;
    let pooled = send(1).await;
    let dropped = send(2).await;
    assert_eq!(node.call("anvil_dropTransaction", json!([dropped])).await, dropped);
    // The second time, more blocks are undone than is possible without rebuilding the index.
    for blocks in [1, 200] {
        let id = node.call("evm_snapshot", json!([])).await;
        node.call("evm_increaseTime", json!([1_000_000])).await;
        node.call("anvil_mine", json!([blocks])).await;
        send(2).await;
        node.call("evm_setAutomine", json!([true])).await;
        send(3).await;
        let later = node.call("evm_snapshot", json!([])).await;
        assert_eq!(node.call("evm_revert", json!([id])).await, json!(true));
        for used in [id, later] {
            assert_eq!(node.call("evm_revert", json!([used])).await, json!(false));
        }
        assert_eq!(node.call("eth_getBlockByNumber", json!(["latest", false])).await, head);
        assert_eq!(node.call("anvil_getAutomine", json!([])).await, json!(false));
        let content = node.call("txpool_content", json!([])).await;
        let sender = DEV_ACCOUNTS[0].address.to_checksum(None);
        let pending = content["pending"][&sender].as_object().unwrap();
        assert_eq!(pending.len(), 1, "{content}");
        assert_eq!(pending["1"]["hash"], pooled);
    }
    node.call("evm_mine", json!([])).await;
    let mined = node.call("eth_getTransactionReceipt", json!([pooled])).await;
    assert_eq!(mined["blockNumber"], "0x2");
    let before = u64::from_str_radix(&head["timestamp"].as_str().unwrap()[2..], 16).unwrap();
    assert!(timestamp(&node).await - before < 1_000_000, "the clock is restored from the snapshot");
    // Block 0 is older than the index, which is therefore rebuilt.
    node.call("anvil_mine", json!([300])).await;
    node.call("anvil_reset", json!([])).await;
    assert_eq!(number(&node).await, "0x0");
    send(0).await;
    node.call("evm_mine", json!([])).await;
    assert_eq!(number(&node).await, "0x1");
    node.call("anvil_reset", json!([{ "forking": {} }])).await;
    let forking = json!({ "jsonRpcUrl": "http://127.0.0.1:1" });
    let (_, message) = node.fail("anvil_reset", json!([{ "forking": forking }])).await;
    assert!(message.contains("anvil --fork-url"), "{message}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_chains_have_no_development_methods() {
    let node = Node::native_with(|config| {
        config.json_rpc.api.extend(rpc::DEVELOPMENT_NAMESPACES.map(str::to_owned));
    })
    .await;
    for (method, params) in calls() {
        let (_, message) = node.fail(method, params).await;
        assert!(message.contains("not a development chain"), "{method}: {message}");
    }
    node.stop().await;
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    assert_eq!(run(&home, &["init"]).0, 0);
    let (code, _, err) = run(&home, &["start", "--quiet", "--json-rpc.api", "eth,evm"]);
    assert_eq!(code, 1);
    assert!(err.contains("the namespace evm exists on development chains only"), "{err}");
}

#[tokio::test]
async fn development_accounts_sign_and_receipts_are_there_when_the_call_returns() {
    let folder = tempfile::tempdir().unwrap();
    init(folder.path());
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
    // Because of the nonce gap, the call returns at once. When the gap is closed, both transactions are mined.
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
    init(folder.path());
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
    init(folder.path());
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
    let [created, new] = ["created", "new"].map(|name| folder.path().join(name));
    init(&created);
    for home in [&created, &new] {
        for option in ["--json-rpc.address", "--json-rpc.ws-address"] {
            let (code, out, err) = run(home, &["start", "--quiet", option, "0.0.0.0:0"]);
            assert_eq!((code, out.as_str()), (1, ""), "{err}");
            assert!(err.contains("--json-rpc.allow-remote-signing"), "{err}");
            assert!(err.contains("evmd init"), "{err}");
        }
    }
    // The refused start has created no chain, so `evmd init` can create one.
    let (code, _, err) = run(&new, &["init"]);
    assert_eq!(code, 0, "{err}");
}

#[tokio::test]
async fn start_creates_the_chain_of_init_dev() {
    let folder = tempfile::tempdir().unwrap();
    let homes = ["init", "start"].map(|name| folder.path().join(name));
    init(&homes[0]);
    let genesis = homes.each_ref().map(|home| {
        let node = NodeProcess::start(Path::new(PROGRAM), home, &[]);
        drop(node);
        let text = std::fs::read_to_string(home.join("genesis.json")).unwrap();
        let mut genesis: Value = serde_json::from_str(&text).unwrap();
        genesis["timestamp"].take();
        genesis
    });
    assert_eq!(genesis[0], genesis[1]);
    assert_eq!(genesis[0]["config"]["evmd"]["development"], true);
}

#[tokio::test]
async fn init_creates_a_development_chain_only_with_its_option() {
    let folder = tempfile::tempdir().unwrap();
    for (name, options, count) in [("plain", &["init"][..], 0), ("dev", &["init", "--dev"], 10)] {
        let home = folder.path().join(name);
        let (code, _, err) = run(&home, options);
        assert_eq!(code, 0, "{err}");
        let node = NodeProcess::start(Path::new(PROGRAM), &home, &[]);
        let accounts = node.endpoints().call("eth_accounts", json!([])).await;
        assert_eq!(accounts.as_array().unwrap().len(), count, "{name}");
        let response = node.endpoints().response("debug_traceBlockByNumber", json!(["0x0"])).await;
        let is_disabled = response["error"]["code"] == -32601;
        assert_eq!(is_disabled, count == 0, "{response}");
    }
}
