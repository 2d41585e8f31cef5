//! The errors of calls, estimates and access lists have geth's codes and texts.

use super::explorer::every_fork;
use crate::{client::Node, common::FEE_CAP};
use alloy_primitives::{Address, B256};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};

/// An account without code.
const RECEIVER: Address = Address::repeat_byte(0xee);
/// Blocks of the chain of [`every_fork`]: each is the last one before the fork in its name.
const BEFORE_BERLIN: u64 = 17;
const BEFORE_CANCUN: u64 = 31;
const BEFORE_PRAGUE: u64 = 33;

#[tokio::test(flavor = "multi_thread")]
async fn revert_without_data_has_the_same_error_as_with_data() {
    let node = Node::native().await;
    let call = json!({ "to": RECEIVER });
    // PUSH0, PUSH0, REVERT.
    let reverts = json!({ RECEIVER.to_string(): { "code": "0x5f5ffd" } });
    let expected = json!({ "code": 3, "message": "execution reverted", "data": "0x" });
    let params = json!([call, "latest", reverts]);
    for method in ["eth_call", "eth_estimateGas"] {
        let response = node.response(method, params.clone()).await;
        assert_eq!(response["error"], expected, "{method}");
    }
    let list = node.call("eth_createAccessList", params).await;
    assert_eq!(list["error"], expected["message"]);
    let blocks = json!([{ "blockStateCalls": [{ "stateOverrides": reverts, "calls": [call] }] }]);
    let blocks = node.call("eth_simulateV1", blocks).await;
    assert_eq!(blocks[0]["calls"][0]["error"], expected, "{blocks}");
    node.stop().await;
}

/// Returns a call from development account 0 with these additional fields.
fn call_with(fields: Value) -> Value {
    let mut call = json!({ "from": DEV_ACCOUNTS[0].address, "to": RECEIVER });
    call.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    call
}

/// A call with a blob price counts as a blob transaction, even without blobs.
#[tokio::test(flavor = "multi_thread")]
async fn transaction_types_start_with_their_fork() {
    let node = every_fork().await;
    let plain = call_with(json!({}));
    let listed = call_with(json!({ "accessList": [] }));
    let priced = call_with(json!({ "maxFeePerBlobGas": "0x1" }));
    let blobs = call_with(json!({ "blobVersionedHashes": [B256::repeat_byte(1)] }));
    let delegating = call_with(json!({ "authorizationList": [{
        "chainId": "0x0", "address": RECEIVER, "nonce": "0x0",
        "yParity": "0x0", "r": "0x1", "s": "0x1",
    }] }));
    for (method, call, before, kind) in [
        ("eth_call", &listed, BEFORE_BERLIN, "access list"),
        ("eth_estimateGas", &listed, BEFORE_BERLIN, "access list"),
        ("eth_createAccessList", &plain, BEFORE_BERLIN, "access list"),
        ("eth_call", &priced, BEFORE_CANCUN, "blob"),
        ("eth_estimateGas", &priced, BEFORE_CANCUN, "blob"),
        ("eth_createAccessList", &priced, BEFORE_CANCUN, "blob"),
        ("eth_call", &blobs, BEFORE_CANCUN, "blob"),
        ("eth_call", &delegating, BEFORE_PRAGUE, "setcode"),
    ] {
        let sender = DEV_ACCOUNTS[0].address;
        let wanted = format!("transaction type not supported: {kind} tx (sender {sender})");
        let (code, message) = node.fail(method, json!([call, format!("{before:#x}")])).await;
        assert!(code == -32000 && message.contains(&wanted), "{method} {call}: {code} {message}");
        let response = node.call(method, json!([call, format!("{:#x}", before + 1)])).await;
        assert!(!response.is_null(), "{method} {call}");
    }
    let old = format!("{BEFORE_BERLIN:#x}");
    assert_eq!(node.call("eth_call", json!([plain, old])).await, "0x");
    assert_eq!(node.call("eth_estimateGas", json!([plain, old])).await, "0x5208");
    node.stop().await;
}

/// A native chain has no blobs, although its rules include the fork that introduced them.
#[tokio::test(flavor = "multi_thread")]
async fn native_chain_accepts_a_blob_price_in_calls() {
    let node = Node::native().await;
    let priced = call_with(json!({ "maxFeePerBlobGas": "0x1" }));
    assert_eq!(node.call("eth_call", json!([priced])).await, "0x");
    assert_eq!(node.call("eth_estimateGas", json!([priced])).await, "0x5208");
    let list = node.call("eth_createAccessList", json!([priced])).await;
    assert_eq!(list, json!({ "accessList": [], "gasUsed": "0x5208" }));
    node.stop().await;
}

/// The sender of a call with a gas price must be able to pay for the gas.
#[tokio::test(flavor = "multi_thread")]
async fn estimate_is_limited_by_the_balance_of_the_sender() {
    let node = Node::native().await;
    let poor = Address::repeat_byte(0xcc);
    let estimate = |balance: u128, value: Option<&str>| {
        let price = format!("{FEE_CAP:#x}");
        let call = json!({ "from": poor, "to": RECEIVER, "gasPrice": price, "value": value });
        let owning = json!({ poor.to_string(): { "balance": format!("{balance:#x}") } });
        json!([call, "latest", owning])
    };
    let insufficient = "insufficient funds for transfer".to_owned();
    for (balance, value) in [(0, None), (0, Some("0x0")), (5, Some("0x5")), (5, Some("0x6"))] {
        let failed = node.fail("eth_estimateGas", estimate(balance, value)).await;
        assert_eq!(failed, (-32000, insufficient.clone()), "{balance} {value:?}");
    }
    for (balance, gas) in [(1, 0), (FEE_CAP * 20_999, 20_999), (FEE_CAP * 21_000 - 1, 20_999)] {
        let failed = node.fail("eth_estimateGas", estimate(balance, None)).await;
        let wanted = format!("gas required exceeds allowance ({gas})");
        assert_eq!(failed, (-32000, wanted), "{balance}");
    }
    for (balance, value) in [(FEE_CAP * 21_000, None), (FEE_CAP * 21_000 + 7, Some("0x7"))] {
        let gas = node.call("eth_estimateGas", estimate(balance, value)).await;
        assert_eq!(gas, "0x5208", "{balance}");
    }
    node.stop().await;
}
