//! Module accounts and precompiles have no keys. Module accounts can receive neither coins from `MsgSend` nor ether,
//! and precompiles cannot receive coins from `MsgSend`.

use super::served::Served;
use crate::common::{
    CHAIN_ID, FEE_CAP, sign,
    signed::{send, signed},
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, Bytes, TxKind, U256, hex};
use chain::DEV_ACCOUNTS;
use keys::{MODULE_ACCOUNTS, bech32, module_address};
use serde_json::{Value, json};

/// Returns init code that forwards its ether to an address, and deploys one byte: 1 if the call succeeded, otherwise 0.
fn forwards(to: Address) -> Bytes {
    let code = format!("600060006000600034 73{to:x} 5af1 600053 60016000f3").replace(' ', "");
    hex::decode(code.replace("0x", "")).unwrap().into()
}

/// Returns init code that destroys its own contract and sends the contract's ether to an address.
fn destroys_itself(to: Address) -> Bytes {
    hex::decode(format!("73{to:x}ff").replace("0x", "")).unwrap().into()
}

/// Mines a transaction of development account 5; returns its receipt.
async fn mined(served: &Served, nonce: u64, to: TxKind, value: u64, input: Bytes) -> Value {
    let raw = sign(
        5,
        TxEip1559 {
            chain_id: CHAIN_ID,
            nonce,
            gas_limit: 200_000,
            max_fee_per_gas: FEE_CAP,
            to,
            value: U256::from(value),
            input,
            ..TxEip1559::default()
        },
    );
    let raw = hex::encode_prefixed(raw);
    let hash = served.node.call("eth_sendRawTransaction", json!([raw])).await;
    served.node.wait_for("eth_getTransactionReceipt", json!([hash])).await
}

async fn balance(served: &Served, address: Address) -> Value {
    served.node.call("eth_getBalance", json!([address, "latest"])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_do_not_send_to_accounts_without_keys() {
    let served = Served::start().await;
    let modules = MODULE_ACCOUNTS.map(module_address);
    let precompiles = [0x01_u16, 0x11, 0x0100, 0x0400]
        .map(|number| Address::left_padding_from(&number.to_be_bytes()));
    let mut sequence = 0;
    for address in modules.into_iter().chain(precompiles) {
        let before = balance(&served, address).await;
        let to = bech32("cosmos", address);
        let mined = served.mined(&signed(0, sequence, vec![send(0, &to, 7)])).await;
        assert_eq!((&mined["codespace"], &mined["code"]), (&json!("sdk"), &json!(4)), "{mined}");
        let text = format!("{to} is not allowed to receive funds: unauthorized");
        assert!(mined["raw_log"].as_str().unwrap().contains(&text), "{mined}");
        if address != module_address("fee_collector") {
            assert_eq!(balance(&served, address).await, before);
        }
        sequence += 1;
    }
    let to = bech32("cosmos", Address::left_padding_from(&[0x12]));
    let mined = served.mined(&signed(0, sequence, vec![send(0, &to, 7)])).await;
    assert_eq!(mined["code"], 0, "{mined}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ether_does_not_reach_module_accounts() {
    let served = Served::start().await;
    let gov = module_address("gov");
    let call = TxKind::Call(gov);
    let receipt = mined(&served, 0, call, 7, Bytes::new()).await;
    assert_eq!((&receipt["status"], &receipt["gasUsed"]), (&json!("0x0"), &json!("0x186a0")));
    let receipt = mined(&served, 1, call, 0, Bytes::new()).await;
    assert_eq!(receipt["status"], "0x1", "a call without ether succeeds");
    let collector = TxKind::Call(module_address("fee_collector"));
    let receipt = mined(&served, 2, collector, 7, Bytes::new()).await;
    assert_eq!(receipt["status"], "0x0");
    let receipt = mined(&served, 3, TxKind::Create, 7, forwards(gov)).await;
    assert_eq!(receipt["status"], "0x1");
    let contract = receipt["contractAddress"].clone();
    let code = served.node.call("eth_getCode", json!([contract, "latest"])).await;
    assert_eq!(code, "0x00", "the inner call must fail");
    let receipt = mined(&served, 4, TxKind::Create, 7, destroys_itself(gov)).await;
    assert_eq!(receipt["status"], "0x0");
    assert_eq!(balance(&served, gov).await, "0x0");
    // Other addresses can receive ether, including the ether of a contract that destroys itself.
    let other = Address::repeat_byte(0x77);
    let receipt = mined(&served, 5, TxKind::Create, 7, forwards(other)).await;
    let contract = receipt["contractAddress"].clone();
    let code = served.node.call("eth_getCode", json!([contract, "latest"])).await;
    assert_eq!(code, "0x01");
    mined(&served, 6, TxKind::Create, 7, destroys_itself(other)).await;
    assert_eq!(balance(&served, other).await, "0xe");
    let transfer = json!([{ "from": DEV_ACCOUNTS[5].address, "to": gov, "value": "0x7" }]);
    let (_, text) = served.node.fail("eth_estimateGas", transfer).await;
    assert!(text.contains("reverted"), "{text}");
    served.stop().await;
}
