//! Tests chains with an older fork: a running node applies the rules of the fork to new transactions, and mines those
//! that it accepts.

use crate::client::Node;
use crate::common::{CHAIN_ID, FEE_CAP, GENESIS_TIME, delegate, producing, sign, wait_until};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, Bytes, TxKind, U64};
use chain::{DEV_ACCOUNTS, Genesis};
use home::Home;
use pipeline::Pipeline;
use serde_json::{Value, json};
use std::time::Duration;
use storage::StateRead;

const RECIPIENT: Address = Address::repeat_byte(0x77);

/// Returns an Ethereum genesis that starts with Cancun and has the accounts of the development genesis.
fn cancun(prague_time: Option<u64>) -> Genesis {
    let mut file: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    let config = file["config"].as_object_mut().unwrap();
    config.remove("evmd").unwrap();
    config["pragueTime"] = json!(prague_time);
    Genesis::from_json(&file.to_string()).unwrap()
}

/// Returns a transaction with 1,000 non-zero bytes. It needs 37,000 gas in Cancun, and 61,000 in Prague.
fn calldata(nonce: u64, gas_limit: u64) -> Bytes {
    sign(
        0,
        TxEip1559 {
            chain_id: CHAIN_ID,
            nonce,
            gas_limit,
            max_fee_per_gas: FEE_CAP,
            max_priority_fee_per_gas: 1_000_000_000,
            to: TxKind::Call(RECIPIENT),
            input: vec![1; 1_000].into(),
            ..TxEip1559::default()
        },
    )
}

#[test]
fn cancun_chain_mines_calldata_below_the_floor_of_prague_and_refuses_set_code() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::init(folder.path(), &cancun(None)).unwrap();
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(5)))).unwrap();
    let client = pipeline.client();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let submit = |raw| runtime.block_on(client.submit(raw)).map_err(|reject| reject.to_string());

    assert_eq!(
        submit(calldata(0, 36_999)).unwrap_err(),
        "intrinsic gas too low: gas 36999, minimum needed 37000"
    );
    submit(calldata(0, 37_000)).unwrap();
    assert_eq!(
        submit(delegate(1, 0, 2, RECIPIENT)).unwrap_err(),
        "transaction type not supported: type 4 rejected, pool not yet in Prague"
    );
    let sender = DEV_ACCOUNTS[0].address;
    wait_until("the transaction is in a block", || {
        let state = pipeline.published.load().state.reader().unwrap();
        state.account(sender).unwrap().is_some_and(|account| account.nonce == 1)
    });
    pipeline.stop();
    pipeline.join().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn estimate_at_the_last_block_before_a_fork_is_admitted() {
    let folder = tempfile::tempdir().unwrap();
    // The head is block 0. A block produced now would belong to Prague, but none is produced for an hour.
    let home = Home::init(folder.path(), &cancun(Some(GENESIS_TIME + 1_000))).unwrap();
    let node = Node::start(folder, home, producing(Some(Duration::from_secs(3_600)))).await;
    let input = Bytes::from(vec![1; 1_000]);
    let call = json!({ "from": DEV_ACCOUNTS[0].address, "to": RECIPIENT, "input": input });
    let estimate = node.call("eth_estimateGas", json!([call])).await;
    let estimate: u64 = serde_json::from_value::<U64>(estimate).unwrap().to();
    let (_, reason) = node.fail("eth_sendRawTransaction", json!([calldata(0, 60_999)])).await;
    let floor = "insufficient gas for floor data gas cost: gas 60999, minimum needed 61000";
    assert_eq!(reason, floor);
    node.call("eth_sendRawTransaction", json!([calldata(0, estimate)])).await;
    node.call("eth_sendRawTransaction", json!([delegate(1, 0, 2, RECIPIENT)])).await;
    node.stop().await;
}
