//! Tests the methods that set accounts or the next block, and impersonation.

use super::{PROGRAM, init, number, timestamp};
use crate::{client::Node, common::transfer, start_safety::run};
use alloy_primitives::{Address, B256, U256, bytes};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::path::Path;
use testkit::NodeProcess;

const ACCOUNT: Address = Address::repeat_byte(0xac);
/// Returns the word in its slot 0.
const CODE: &str = "0x60005460005260206000f3";

/// A development chain that mines each transaction at once.
async fn automine() -> Node {
    let node = Node::development().await;
    node.call("evm_setAutomine", json!([true])).await;
    node
}

#[tokio::test(flavor = "multi_thread")]
async fn each_setter_of_an_account_creates_a_block() {
    let node = automine().await;
    let word = |number: u64| json!(B256::from(U256::from(number)));
    let mut blocks = 0;
    for prefix in ["anvil_set", "hardhat_set", "evm_setAccount"] {
        let name = |what: &str| match (prefix, what) {
            ("evm_setAccount", "StorageAt") => "evm_setAccountStorageAt".to_owned(),
            _ => format!("{prefix}{what}"),
        };
        blocks += 4;
        node.call(&name("Balance"), json!([ACCOUNT, format!("{blocks:#x}")])).await;
        node.call(&name("Nonce"), json!([ACCOUNT, blocks])).await;
        node.call(&name("Code"), json!([ACCOUNT, CODE])).await;
        node.call(&name("StorageAt"), json!([ACCOUNT, "0x0", word(blocks)])).await;
        assert_eq!(number(&node).await, json!(format!("{blocks:#x}")));
        let quantity = json!(format!("{blocks:#x}"));
        assert_eq!(node.call("eth_getBalance", json!([ACCOUNT, "latest"])).await, quantity);
        assert_eq!(
            node.call("eth_getTransactionCount", json!([ACCOUNT, "latest"])).await,
            quantity
        );
        assert_eq!(node.call("eth_getCode", json!([ACCOUNT, "latest"])).await, json!(CODE));
        let call = json!([{ "to": ACCOUNT }, "latest"]);
        assert_eq!(node.call("eth_call", call).await, word(blocks));
        let at = json!(format!("{:#x}", blocks - 4));
        let before = node.call("eth_getBalance", json!([ACCOUNT, at])).await;
        assert_eq!(before, at, "earlier blocks keep their state");
        let proof = node.call("eth_getProof", json!([ACCOUNT, ["0x0"], "latest"])).await;
        assert_eq!(proof["storageProof"][0]["value"], quantity);
    }
    let empty = Address::repeat_byte(0xad);
    node.call("anvil_setStorageAt", json!([empty, "0x2", word(7)])).await;
    assert_eq!(node.call("eth_getStorageAt", json!([empty, "0x2", "latest"])).await, word(7));
    // An account without balance, nonce and code is deleted (EIP-161).
    node.call("anvil_setBalance", json!([ACCOUNT, "0x0"])).await;
    node.call("anvil_setNonce", json!([ACCOUNT, "0x0"])).await;
    node.call("anvil_setCode", json!([ACCOUNT, "0x"])).await;
    let modified = node.call("debug_getModifiedAccountsByNumber", json!([15])).await;
    assert!(modified.as_array().unwrap().contains(&json!(ACCOUNT)), "{modified}");
    let dump =
        node.call("debug_accountRange", json!(["latest", "0x", 256, true, true, false])).await;
    assert!(dump["accounts"].get(ACCOUNT.to_checksum(None)).is_none(), "{dump}");
    let (_, message) = node.fail("debug_executionWitness", json!(["0xf"])).await;
    assert!(message.contains("block 15 cannot be executed again"), "{message}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn setters_of_accounts_keep_the_settings_of_the_next_block() {
    let node = Node::development().await;
    node.call("evm_mine", json!([])).await;
    let time = timestamp(&node).await + 1;
    node.call("evm_setNextBlockTimestamp", json!([time])).await;
    node.call("anvil_setNextBlockBaseFeePerGas", json!(["0x77"])).await;
    node.call("anvil_setCoinbase", json!([ACCOUNT])).await;
    node.call("anvil_setBalance", json!([ACCOUNT, "0x5"])).await;
    let set = node.call("eth_getBlockByNumber", json!(["latest", false])).await;
    assert_eq!(set["timestamp"], json!(format!("{:#x}", time - 1)), "the timestamp of the parent");
    assert_ne!((&set["baseFeePerGas"], &set["miner"]), (&json!("0x77"), &json!(ACCOUNT)));
    node.call("evm_mine", json!([])).await;
    let block = node.call("eth_getBlockByNumber", json!(["latest", false])).await;
    assert_eq!(block["number"], "0x3");
    assert_eq!(block["timestamp"], json!(format!("{time:#x}")));
    assert_eq!((&block["baseFeePerGas"], &block["miner"]), (&json!("0x77"), &json!(ACCOUNT)));
    node.call("evm_mine", json!([])).await;
    let after = node.call("eth_getBlockByNumber", json!(["latest", false])).await;
    assert_eq!(after["miner"], json!(ACCOUNT), "the setting applies to later blocks too");
    assert_ne!(after["baseFeePerGas"], "0x77");
    node.stop().await;
}

/// `eth_sendTransaction` returns after its block, so each transaction is in the block whose base fee is set to 0.
#[tokio::test(flavor = "multi_thread")]
async fn block_without_a_base_fee_includes_a_gas_price_of_zero() {
    const BLOCKS: usize = 100;
    let node = automine().await;
    node.call("hardhat_impersonateAccount", json!([ACCOUNT])).await;
    let mut hash = Value::Null;
    for _ in 0..BLOCKS {
        node.call("anvil_setNextBlockBaseFeePerGas", json!(["0x0"])).await;
        let tx = json!({ "from": ACCOUNT, "to": ACCOUNT, "gasPrice": "0x0", "gas": "0x5208" });
        hash = node.call("eth_sendTransaction", json!([tx])).await;
        let receipt = node.call("eth_getTransactionReceipt", json!([hash])).await;
        let result = (&receipt["status"], &receipt["effectiveGasPrice"]);
        assert_eq!(result, (&json!("0x1"), &json!("0x0")));
    }
    let trace =
        node.call("debug_traceTransaction", json!([hash, { "tracer": "callTracer" }])).await;
    assert_eq!(trace["from"], json!(ACCOUNT));
    node.stop().await;
}

/// The size of signed transactions is checked before their senders are recovered, so unsigned ones need another check.
#[tokio::test(flavor = "multi_thread")]
async fn unsigned_transactions_have_the_size_limit_of_signed_ones() {
    let node = automine().await;
    let send = async |bytes: usize| {
        let tx = json!({
            "from": DEV_ACCOUNTS[1].address, "to": ACCOUNT, "gas": "0x2dc6c0", "maxFeePerGas": "0x2540be400",
            "maxPriorityFeePerGas": "0x1", "data": format!("0x{}", "00".repeat(bytes)),
        });
        node.response("eth_sendUnsignedTransaction", json!([tx])).await
    };
    let data_bytes = pipeline::MAX_TX_BYTES - 1_000;
    let hash = send(data_bytes).await["result"].clone();
    let raw = node.call("eth_getRawTransactionByHash", json!([hash])).await;
    let overhead_bytes = (raw.as_str().unwrap().len() - "0x".len()) / 2 - data_bytes;
    let max_data_bytes = pipeline::MAX_TX_BYTES - overhead_bytes;
    assert!(send(max_data_bytes).await["result"].is_string());
    let response = send(max_data_bytes + 1).await;
    let text = response["error"]["message"].as_str().unwrap();
    assert!(text.contains("131073") && text.contains("131072"), "{text}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn impersonated_accounts_and_contracts_send_transactions() {
    let node = automine().await;
    let send = || async {
        let tx = json!({ "from": ACCOUNT, "to": Address::repeat_byte(7), "value": "0x1" });
        node.response("eth_sendTransaction", json!([tx])).await
    };
    node.call("anvil_setBalance", json!([ACCOUNT, "0xde0b6b3a7640000"])).await;
    let response = send().await;
    assert!(response["error"].is_object(), "{response}");
    node.call("anvil_impersonateAccount", json!([ACCOUNT])).await;
    let first = send().await["result"].clone();
    node.call("anvil_setCode", json!([ACCOUNT, CODE])).await;
    let second = send().await["result"].clone();
    assert_ne!(first, second);
    for hash in [&first, &second] {
        let receipt = node.call("eth_getTransactionReceipt", json!([hash])).await;
        assert_eq!((&receipt["status"], &receipt["from"]), (&json!("0x1"), &json!(ACCOUNT)));
        let trace = node.call("debug_traceTransaction", json!([hash])).await;
        assert_eq!(trace["failed"], json!(false));
        let tx = node.call("eth_getTransactionByHash", json!([hash])).await;
        assert_eq!(tx["from"], json!(ACCOUNT));
    }
    node.call("anvil_stopImpersonatingAccount", json!([ACCOUNT])).await;
    assert!(send().await["error"].is_object());
    node.call("anvil_autoImpersonateAccount", json!([true])).await;
    assert!(send().await["result"].is_string());
    // Another node rejects the signature.
    let other = Node::native().await;
    let raw = node.call("eth_getRawTransactionByHash", json!([second])).await;
    let (_, message) = other.fail("eth_sendRawTransaction", json!([raw])).await;
    assert!(!message.is_empty());
    other.stop().await;
    node.stop().await;
}

/// Code that reverts before this timestamp.
fn code_from(timestamp: u64) -> String {
    format!("0x64{timestamp:010x}4210600c57005b600080fd")
}

#[tokio::test(flavor = "multi_thread")]
async fn estimates_and_the_pending_block_see_what_is_set_for_the_next_block() {
    let node = automine().await;
    node.call("evm_mine", json!([])).await;
    let min_timestamp = timestamp(&node).await + 5000;
    node.call("anvil_setCode", json!([ACCOUNT, code_from(min_timestamp)])).await;
    let tx = json!({ "from": DEV_ACCOUNTS[0].address, "to": ACCOUNT });
    let assert_reverts = |response: Value| assert_eq!(response["error"]["code"], 3, "{response}");
    for params in [json!([tx]), json!([tx, "latest"]), json!([tx, "pending"])] {
        assert_reverts(node.response("eth_estimateGas", params).await);
    }
    assert_reverts(node.response("eth_fillTransaction", json!([tx])).await);
    node.call("evm_setNextBlockTimestamp", json!([min_timestamp - 1])).await;
    assert_reverts(node.response("eth_estimateGas", json!([tx])).await);
    node.call("evm_setNextBlockTimestamp", json!([min_timestamp])).await;
    node.call("anvil_setNextBlockBaseFeePerGas", json!(["0x174876e800"])).await;
    node.call("anvil_setCoinbase", json!([ACCOUNT])).await;
    for params in [json!([tx]), json!([tx, "latest"]), json!([tx, "pending"])] {
        node.call("eth_estimateGas", params).await;
    }
    let pending = node.call("eth_getBlockByNumber", json!(["pending", false])).await;
    assert_eq!(pending["timestamp"], json!(format!("{min_timestamp:#x}")));
    assert_eq!(pending["baseFeePerGas"], "0x174876e800");
    let price = node.call("eth_gasPrice", json!([])).await;
    let price = u64::from_str_radix(&price.as_str().unwrap()[2..], 16).unwrap();
    assert!(price >= 100_000_000_000, "{price}");
    node.call("eth_call", json!([tx, "pending"])).await;
    assert_reverts(node.response("eth_call", json!([tx, "latest"])).await);
    let filled = node.call("eth_fillTransaction", json!([tx])).await;
    let cap = filled["tx"]["maxFeePerGas"].as_str().unwrap();
    assert!(u64::from_str_radix(&cap[2..], 16).unwrap() >= 200_000_000_000, "{filled}");
    // The mined block has the values of the pending block. The base fee was set for this block only.
    node.call("anvil_impersonateAccount", json!([DEV_ACCOUNTS[0].address])).await;
    let hash = node.call("eth_sendTransaction", json!([tx])).await;
    let receipt = node.call("eth_getTransactionReceipt", json!([hash])).await;
    assert_eq!(receipt["status"], "0x1");
    let mined = node.call("eth_getBlockByNumber", json!(["latest", false])).await;
    for field in ["timestamp", "baseFeePerGas", "number"] {
        assert_eq!(mined[field], pending[field], "{field}");
    }
    assert_eq!(mined["miner"], json!(ACCOUNT));
    let after = node.call("eth_getBlockByNumber", json!(["pending", false])).await;
    assert_ne!(after["baseFeePerGas"], pending["baseFeePerGas"]);
    node.stop().await;
}

/// Contracts may use more gas in the first transaction of a second, as pools of Uniswap V3 do.
#[tokio::test(flavor = "multi_thread")]
async fn an_estimate_is_enough_in_the_next_second() {
    let node = automine().await;
    // Stores the timestamp.
    node.call("anvil_setCode", json!([ACCOUNT, "0x425f55"])).await;
    node.call("anvil_impersonateAccount", json!([DEV_ACCOUNTS[0].address])).await;
    let mut tx = json!({ "from": DEV_ACCOUNTS[0].address, "to": ACCOUNT });
    node.call("eth_sendTransaction", json!([tx])).await;
    // With an interval of 0, a block has the timestamp of its parent.
    node.call("anvil_setBlockTimestampInterval", json!([0])).await;
    for params in [json!([tx]), json!([tx, "latest"]), json!([tx, "pending"])] {
        let gas = node.call("eth_estimateGas", params).await;
        tx["gas"] = gas;
        node.call("anvil_setBlockTimestampInterval", json!([1])).await;
        let hash = node.call("eth_sendTransaction", json!([tx])).await;
        let receipt = node.call("eth_getTransactionReceipt", json!([hash])).await;
        assert_eq!(receipt["status"], "0x1");
        node.call("anvil_setBlockTimestampInterval", json!([0])).await;
        tx.as_object_mut().unwrap().remove("gas");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn estimates_see_the_transactions_of_the_mempool() {
    let node = Node::development().await;
    let raw = transfer(0, 0, Address::repeat_byte(0xaf));
    node.call("eth_sendRawTransaction", json!([raw])).await;
    let tx = json!({ "from": Address::repeat_byte(0xaf), "to": ACCOUNT, "value": "0x1", "gasPrice": "0x0" });
    node.call("eth_estimateGas", json!([tx])).await;
    let at_head = node.response("eth_estimateGas", json!([tx, "latest"])).await;
    assert!(at_head["error"].is_object(), "{at_head}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_timestamp_interval_applies_until_it_is_removed() {
    let node = automine().await;
    node.call("evm_mine", json!([])).await;
    let before = timestamp(&node).await;
    let remove = async || node.call("anvil_removeBlockTimestampInterval", json!([])).await;
    assert_eq!(remove().await, json!(false));
    node.call("anvil_setBlockTimestampInterval", json!([77])).await;
    for blocks in 1..=3 {
        node.call("evm_mine", json!([])).await;
        assert_eq!(timestamp(&node).await, before + 77 * blocks);
    }
    assert_eq!(remove().await, json!(true));
    node.call("evm_mine", json!([])).await;
    let after = timestamp(&node).await - before;
    assert!((231..300).contains(&after), "{after}: time continues from the last block");
    let (_, message) = node.fail("anvil_setBlockTimestampInterval", json!([u64::MAX])).await;
    assert!(message.contains("the clock can be ahead"), "{message}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_restores_what_is_set_for_the_next_block() {
    let node = Node::development().await;
    node.call("evm_mine", json!([])).await;
    node.call("anvil_setNextBlockBaseFeePerGas", json!(["0x77"])).await;
    node.call("anvil_setCoinbase", json!([ACCOUNT])).await;
    let id = node.call("evm_snapshot", json!([])).await;
    let mine = || async {
        node.call("evm_mine", json!([])).await;
        let block = node.call("eth_getBlockByNumber", json!(["latest", false])).await;
        (block["number"].clone(), block["baseFeePerGas"].clone(), block["miner"].clone())
    };
    let first = mine().await;
    assert_eq!(first, (json!("0x2"), json!("0x77"), json!(ACCOUNT)));
    node.call("anvil_setNextBlockBaseFeePerGas", json!(["0x88"])).await;
    node.call("anvil_setCoinbase", json!([Address::ZERO])).await;
    node.call("evm_revert", json!([id])).await;
    assert_eq!(mine().await, first);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dump_is_loaded_into_another_chain() {
    let (node, other) = (automine().await, automine().await);
    let raw = transfer(0, 0, ACCOUNT);
    node.call("eth_sendRawTransaction", json!([raw])).await;
    node.call("anvil_setCode", json!([ACCOUNT, CODE])).await;
    node.call("anvil_setStorageAt", json!([ACCOUNT, "0x0", B256::repeat_byte(9)])).await;
    other.call("anvil_setStorageAt", json!([ACCOUNT, "0x1", B256::repeat_byte(9)])).await;
    let dump = node.call("anvil_dumpState", json!([])).await;
    assert_eq!(other.call("anvil_loadState", json!([dump])).await, json!(true));
    for (method, params) in [
        ("eth_getBalance", json!([ACCOUNT, "latest"])),
        ("eth_getCode", json!([ACCOUNT, "latest"])),
        ("eth_getStorageAt", json!([ACCOUNT, "0x0", "latest"])),
        ("eth_getStorageAt", json!([ACCOUNT, "0x1", "latest"])),
        ("eth_getTransactionCount", json!([DEV_ACCOUNTS[0].address, "latest"])),
        ("eth_getBalance", json!([DEV_ACCOUNTS[0].address, "latest"])),
    ] {
        assert_eq!(node.call(method, params.clone()).await, other.call(method, params).await);
    }
    let (_, message) = other.fail("anvil_loadState", json!([bytes!("1234")])).await;
    assert!(message.contains("this is not a dump"), "{message}");
    node.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn blocks_with_set_values_are_not_exported_and_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    init(&home);
    let mut node = NodeProcess::start(Path::new(PROGRAM), &home, &[]);
    let call = |node: &NodeProcess, method: &'static str, params: Value| {
        let endpoints = node.endpoints();
        async move { endpoints.call(method, params).await }
    };
    call(&node, "evm_mine", json!([])).await;
    call(&node, "anvil_setBalance", json!([ACCOUNT, "0x5"])).await;
    call(&node, "anvil_setNextBlockBaseFeePerGas", json!(["0x5"])).await;
    call(&node, "evm_mine", json!([])).await;
    node.kill();
    let file = folder.path().join("chain.rlp");
    let export =
        |options: &[&str]| run(&home, &[&["export", file.to_str().unwrap()], options].concat());
    let (code, _, err) = export(&[]);
    assert_eq!(code, 1);
    assert!(err.contains("block 2 cannot be exported") && err.contains("--to 1"), "{err}");
    let (code, _, err) = export(&["--from", "3"]);
    assert_eq!(code, 1);
    assert!(err.contains("block 3") && err.contains("base fee"), "{err}");
    assert_eq!(export(&["--to", "1"]).0, 0);
    assert_eq!(run(&home, &["reindex"]).0, 0);
    assert_eq!(run(&home, &["doctor", "--verify"]).0, 0);
    let node = NodeProcess::start(Path::new(PROGRAM), &home, &[]);
    assert_eq!(call(&node, "eth_getBalance", json!([ACCOUNT, "latest"])).await, json!("0x5"));
}
