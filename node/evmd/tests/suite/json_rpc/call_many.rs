//! Runs bundles of calls with `eth_callMany`, and compares `eth_getAccount` and `eth_coinbase` with other methods.

use super::explorer::every_fork;
use crate::client::Node;
use alloy_primitives::{Address, B256, address};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};

const COUNTER: Address = Address::repeat_byte(0xcc);
/// Code that increments slot 0 and returns the new value.
const COUNT: &str = "0x6000546001018060005560005260206000f3";

fn counter_overrides() -> Value {
    json!({ COUNTER.to_string(): { "code": COUNT } })
}

fn word(number: u64) -> Value {
    json!({ "value": format!("0x{number:064x}") })
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_sees_the_changes_of_previous_calls() {
    let node = every_fork().await;
    let count = json!({ "to": COUNTER });
    let reader = Address::repeat_byte(0xdd);
    let mut overrides = counter_overrides();
    overrides[reader.to_string()] = json!({ "code": "0x4360005260206000f3" });
    let bundles = json!([
        { "transactions": [count, count] },
        { "transactions": [] },
        { "transactions": [count, { "to": reader }], "blockOverride": { "number": "0x63" } },
        { "transactions": [{ "to": reader }] },
    ]);
    let results =
        node.call("eth_callMany", json!([bundles, { "blockNumber": "0x9" }, overrides])).await;
    // An empty bundle has no result, as in reth.
    let expected = json!([[word(1), word(2)], [word(3), word(0x63)], [word(9)]]);
    assert_eq!(results, expected);
    // State changes are discarded after the request.
    assert_eq!(
        node.call("eth_callMany", json!([[{ "transactions": [count] }], {}, overrides])).await,
        json!([[word(1)]])
    );
    // A failed call returns an error instead of a value, and the calls after it still run.
    let reverting = json!({ "transactions": [count, { "to": reader }, { "to": COUNTER }] });
    overrides[reader.to_string()] = json!({ "code": "0x5f5ffd" });
    let results = node.call("eth_callMany", json!([[reverting], null, overrides])).await;
    let reverted = json!({ "error": "execution reverted" });
    assert_eq!(results, json!([[word(1), reverted, word(2)]]));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn first_call_runs_before_the_given_transaction() {
    let node = every_fork().await;
    // The second transaction of block n sends n wei.
    let receiver = address!("00000000000000000000000000000000000000aa");
    let read = json!({ "to": Address::repeat_byte(0xcc) });
    // Code that returns the balance of the receiver.
    let code = format!("0x73{receiver:x}315f5260205ff3");
    let overrides = json!({ Address::repeat_byte(0xcc).to_string(): { "code": code } });
    let block = 40_u64;
    let balance = |blocks: u64| word((1..=blocks).sum());
    for (index, expected) in [
        (json!(0), balance(block - 1)),
        (json!(1), balance(block - 1)),
        (json!("0x1"), balance(block - 1)),
        (json!(2), balance(block)),
        (json!(-1), balance(block)),
        (json!(7), balance(block)),
        (Value::Null, balance(block)),
    ] {
        let context = json!({ "blockNumber": format!("{block:#x}"), "transactionIndex": index });
        let results = node
            .call("eth_callMany", json!([[{ "transactions": [read] }], context, overrides]))
            .await;
        assert_eq!(results, json!([[expected]]), "{index}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_many_requests_are_limited_and_validated() {
    let node = Node::native_with(|config| config.json_rpc.max_response_bytes = 100_000).await;
    let call = json!({ "to": COUNTER });
    // Code that returns 32,000 bytes.
    let large = json!({ COUNTER.to_string(): { "code": "0x617d005ff3" } });
    for (params, code, text) in [
        (json!([[]]), -32602, "bundles are empty"),
        (json!([{}]), -32602, "invalid argument 0: must be a list, got an object"),
        (
            json!([[{ "transactions": vec![&call; 1001] }]]),
            -32602,
            "invalid argument 0: must have at most 1000 transactions, got 1001",
        ),
        (
            json!([[{ "transactions": [call] }], { "blockNumber": "0xffffff" }]),
            -32000,
            "header not found",
        ),
        (
            json!([[{ "transactions": [call, { "to": COUNTER, "value": "0x1" }] }]]),
            -32000,
            "bundle 0, transaction 1: insufficient funds",
        ),
        (
            json!([[{ "transactions": [call], "blockOverride": { "beaconRoot": B256::ZERO } }]]),
            -32000,
            "block override \"beaconRoot\" is not supported",
        ),
        (
            json!([[{ "transactions": [call, call] }], {}, large]),
            -32003,
            "response too large: at most 100000 bytes",
        ),
    ] {
        let (found, message) = node.fail("eth_callMany", params.clone()).await;
        assert!(found == code && message.starts_with(text), "{params}: {found} {message}");
    }
    let single = node.call("eth_callMany", json!([[{ "transactions": [call] }], {}, large])).await;
    assert_eq!(single[0][0]["value"].as_str().unwrap().len(), 2 + 2 * 32_000);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn get_account_returns_the_account_in_the_trie() {
    let node = every_fork().await;
    let contract = DEV_ACCOUNTS[0].address.create(0);
    let miner = node.call("eth_getBlockByNumber", json!(["latest", false])).await["miner"].clone();
    assert_eq!(node.call("eth_coinbase", json!([])).await, miner);
    for block in ["0x0", "0x1", "0x5", "latest"] {
        for address in [contract, DEV_ACCOUNTS[0].address, DEV_ACCOUNTS[1].address] {
            let account = node.call("eth_getAccount", json!([address, block])).await;
            if block == "0x0" && address == contract {
                assert_eq!(account, Value::Null, "the contract does not exist yet");
                continue;
            }
            let proof = node.call("eth_getProof", json!([address, [], block])).await;
            let expected = json!({
                "balance": proof["balance"],
                "codeHash": proof["codeHash"],
                "nonce": proof["nonce"],
                "storageRoot": proof["storageHash"],
            });
            assert_eq!(account, expected, "{address} at {block}");
        }
    }
    node.stop().await;
}
