//! Ethereum and Cosmos transactions that wait in the pool for a lower base fee are still in the pool after a restart.

use super::served::FORKING;
use crate::{
    client::Node,
    common::{
        CHAIN_ID, FEE_CAP, GENESIS_TIME, producing, sign,
        signed::{address_of, send, signed_at},
    },
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, TxKind, U256, hex};
use chain::Genesis;
use home::Home;
use serde_json::{Value, json};
use std::time::Duration;

/// A price in wei above the base fee of block 1, 875,000,000 wei, and below the base fee after a full block.
const PRICE: u64 = 900_000_000;

/// Returns a transfer by account `from` with this gas limit. This chain charges for the whole limit.
fn transfer(from: usize, nonce: u64, gas_limit: u64, cap: u128) -> String {
    hex::encode_prefixed(sign(
        from,
        TxEip1559 {
            chain_id: CHAIN_ID,
            nonce,
            gas_limit,
            max_fee_per_gas: cap,
            to: TxKind::Call(Address::repeat_byte(0x77)),
            value: U256::ONE,
            ..TxEip1559::default()
        },
    ))
}

async fn serve(home: Home) -> Node {
    let options = producing(Some(Duration::from_millis(5)));
    Node::start(tempfile::tempdir().unwrap(), home, options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_below_the_base_fee_survive_a_restart() {
    let mut genesis: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    genesis["config"]["evmd"]["feemarket"]["params"]["min_gas_multiplier"] = json!("1.0");
    let genesis = Genesis::from_json(&genesis.to_string()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let opening = FORKING.lock().await;
    let mut home = Home::init(folder.path(), &genesis).unwrap();
    home.config.engine.empty_blocks = false;
    let node = serve(home).await;
    drop(opening);
    // One transaction of each kind pays the current base fee, but is not included because it waits behind a nonce gap.
    let cosmos = signed_at(PRICE, true, 2, 1, vec![send(2, &address_of(0), 1)]);
    let queries = node.queries.clone();
    let response = queries.broadcast_tx(cosmos).await.unwrap().tx_response.unwrap();
    assert_eq!(response.code, 0, "{response:?}");
    let ethereum = transfer(3, 1, 21_000, PRICE.into());
    node.call("eth_sendRawTransaction", json!([ethereum])).await;
    // This transaction fills a block.
    let full = transfer(0, 0, 90_000_000, FEE_CAP);
    let hash = node.call("eth_sendRawTransaction", json!([full])).await;
    node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    let fee = node.call("eth_baseFee", json!([])).await;
    let fee = u64::from_str_radix(&fee.as_str().unwrap()[2..], 16).unwrap();
    assert!(fee > PRICE, "the base fee is {fee}");
    let status = json!({ "pending": "0x0", "queued": "0x2" });
    assert_eq!(node.call("txpool_status", json!([])).await, status);
    drop(queries);
    node.stop().await;

    let opening = FORKING.lock().await;
    let mut home = crate::common::reopened(folder.path());
    home.config.engine.empty_blocks = false;
    let node = serve(home).await;
    drop(opening);
    assert_eq!(node.call("txpool_status", json!([])).await, status);
    node.stop().await;
}
