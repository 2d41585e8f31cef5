//! Checks which gas prices a native chain suggests, and which it refuses.

use crate::{
    client::Node,
    common::{CHAIN_ID, GENESIS_TIME, producing, sign},
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, Bytes, TxKind, U256};
use chain::Genesis;
use home::Home;
use serde_json::{Value, json};
use std::time::Duration;

/// Starts a node on a development chain with these fee market parameters.
async fn node(params: Value, block_time: Option<Duration>) -> Node {
    let mut file: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    for (key, value) in params.as_object().unwrap() {
        file["config"]["evmd"]["feemarket"]["params"][key] = value.clone();
    }
    let folder = tempfile::tempdir().unwrap();
    let genesis = Genesis::from_json(&file.to_string()).unwrap();
    let mut home = Home::init(&folder.path().join("home"), &genesis).unwrap();
    home.config.mempool.accept_without_production = true;
    Node::start(folder, home, producing(block_time)).await
}

async fn prices(node: &Node) -> [Value; 3] {
    [
        node.call("eth_baseFee", json!([])).await,
        node.call("eth_maxPriorityFeePerGas", json!([])).await,
        node.call("eth_gasPrice", json!([])).await,
    ]
}

fn offer(from: usize, nonce: u64, cap: u128, priority_fee: u128) -> Bytes {
    sign(
        from,
        TxEip1559 {
            chain_id: CHAIN_ID,
            nonce,
            gas_limit: 21_000,
            max_fee_per_gas: cap,
            max_priority_fee_per_gas: priority_fee,
            to: TxKind::Call(Address::repeat_byte(1)),
            value: U256::ONE,
            ..TxEip1559::default()
        },
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn suggested_prices_follow_the_fee_market_without_transactions() {
    // The genesis block is empty, so the base fee falls by 1 / denominator.
    for (base_fee, elasticity, denominator, base, priority_fee, price) in [
        ("1000000000", 2, 8, "0x342770c0", "0x684ee18", "0x3aac5ed8"),
        ("8", 2, 8, "0x7", "0x0", "0x7"),
        ("1333.333333333333333334", 4, 4, "0x3e8", "0x2ee", "0x6d6"),
        ("1166.0", 3, 7, "0x3e7", "0x11d", "0x504"),
    ] {
        let node = node(
            json!({
                "base_fee": base_fee,
                "elasticity_multiplier": elasticity,
                "base_fee_change_denominator": denominator,
            }),
            None,
        )
        .await;
        assert_eq!(prices(&node).await, [base, priority_fee, price], "{base_fee}");
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn suggested_price_is_never_below_the_floor() {
    let node = node(json!({ "base_fee": "9", "min_gas_price": "8.5" }), None).await;
    // The next base fee is 8.5 wei. It is rounded down to 8 in responses, but a transaction must pay 9.
    assert_eq!(prices(&node).await, ["0x8", "0x1", "0x9"]);
    let (code, message) = node.fail("eth_sendRawTransaction", json!([offer(0, 0, 8, 8)])).await;
    assert_eq!(code, -32000);
    assert!(
        message.starts_with("provided fee < minimum global fee (168000 < 178500)."),
        "{message}"
    );
    node.call("eth_sendRawTransaction", json!([offer(0, 0, 9, 9)])).await;
    let (code, message) = node.fail("eth_sendRawTransaction", json!([offer(0, 1, 7, 0)])).await;
    assert_eq!(code, -32000);
    assert!(message.starts_with("provided fee < minimum global fee"), "{message}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn price_below_the_base_fee_is_refused() {
    let node = node(json!({}), None).await;
    let low = offer(0, 0, 874_999_999, 0);
    let (code, message) = node.fail("eth_sendRawTransaction", json!([low])).await;
    assert_eq!(code, -32000);
    assert_eq!(message, "max fee per gas less than block base fee (874999999 < 875000000)");
    node.call("eth_sendRawTransaction", json!([offer(0, 0, 875_000_000, 0)])).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_base_fee_the_median_is_suggested() {
    let params = json!({ "no_base_fee": true, "min_gas_price": "5" });
    let node = node(params, Some(Duration::from_millis(5))).await;
    assert_eq!(
        prices(&node).await,
        ["0x5", "0x1", "0x5"],
        "the minimum prices, because there are no transactions"
    );
    for (nonce, price) in [7, 100, 9, 8, 1_000].into_iter().enumerate() {
        let raw = offer(0, nonce as u64, 2_000, price);
        let hash = node.call("eth_sendRawTransaction", json!([raw])).await;
        let receipt = node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
        assert_eq!(receipt["effectiveGasPrice"], json!(format!("{price:#x}")));
    }
    // 9 is the median of 7, 8, 9, 100 and 1000.
    assert_eq!(prices(&node).await, ["0x9", "0x9", "0x9"]);
    let block = node.call("eth_getBlockByNumber", json!(["latest", false])).await;
    assert_eq!(block["baseFeePerGas"], "0x0");
    let base_fee = node.call("evmd_feemarketBaseFee", json!([])).await;
    assert_eq!(base_fee, json!({ "base_fee": "0.000000000000000000" }));
    let events = node.call("evmd_blockEvents", json!(["0x1"])).await;
    let kinds: Vec<_> = events.as_array().unwrap().iter().map(|event| &event["type"]).collect();
    assert_eq!(kinds, ["evm_fee_market", "block_gas"]);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fee_market_is_served_at_any_block() {
    let node = node(json!({}), Some(Duration::from_millis(5))).await;
    node.wait_for("eth_getBlockByNumber", json!(["0x3", false])).await;
    let genesis = node.call("evmd_feemarketParams", json!(["0x0"])).await;
    assert_eq!(genesis["params"]["base_fee"], "1000000000.000000000000000000");
    let third = node.call("evmd_feemarketParams", json!(["0x3"])).await;
    assert_eq!(third["params"]["base_fee"], "669921875.000000000000000000");
    assert_eq!(node.call("evmd_blockEvents", json!(["earliest"])).await, json!([]));
    let (code, message) = node.fail("evmd_feemarketBlockGas", json!(["0xffffff"])).await;
    assert_eq!((code, message.as_str()), (-32000, "header not found"));
    node.stop().await;
}
