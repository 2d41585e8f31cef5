//! A price above 128 bits is well-formed, but no account can pay it.

use crate::{
    client::{Node, config},
    common::{CHAIN_ID, native_home, producing, signature},
};
use alloy_primitives::{Address, Bytes, U256, keccak256};
use alloy_rlp::{Encodable, Header};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};

const GAS: u64 = 21_000;

/// Returns a price of 2^130 wei.
fn wide() -> U256 {
    U256::ONE << 130
}

fn low_funds() -> &'static str {
    "insufficient funds for gas * price + value: "
}

/// Returns the RLP list of these encoded items.
fn list(items: &[Vec<u8>]) -> Vec<u8> {
    let payload = items.concat();
    let mut out = Vec::new();
    Header { list: true, payload_length: payload.len() }.encode(&mut out);
    out.extend(payload);
    out
}

fn item(value: impl Encodable) -> Vec<u8> {
    alloy_rlp::encode(value)
}

/// Returns an EIP-1559 transaction with arbitrary prices, given as big-endian integers.
fn dynamic(from: usize, nonce: u64, priority_fee: &[u8], cap: &[u8]) -> Bytes {
    let mut items = vec![
        item(CHAIN_ID),
        item(nonce),
        item(priority_fee),
        item(cap),
        item(GAS),
        item(Address::ZERO),
        item(1_u64),
        item(Bytes::new()),
        vec![0xc0],
    ];
    let unsigned = [&[2][..], &list(&items)].concat();
    let signed = signature(from, keccak256(unsigned));
    items.extend([item(u64::from(signed.v())), item(signed.r()), item(signed.s())]);
    [&[2][..], &list(&items)].concat().into()
}

/// Returns a legacy transaction without a chain id.
fn legacy(from: usize, price: &[u8]) -> Bytes {
    let mut items = vec![
        item(0_u64),
        item(price),
        item(GAS),
        item(Address::ZERO),
        item(1_u64),
        item(Bytes::new()),
    ];
    let signed = signature(from, keccak256(list(&items)));
    items.extend([item(27 + u64::from(signed.v())), item(signed.r()), item(signed.s())]);
    list(&items).into()
}

fn bytes(price: U256) -> Vec<u8> {
    price.to_be_bytes_trimmed_vec()
}

async fn balance(node: &Node, of: usize) -> U256 {
    let address = DEV_ACCOUNTS[of].address;
    let balance = node.call("eth_getBalance", json!([address, "latest"])).await;
    balance.as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_transaction_with_a_wide_price_is_refused_for_its_cost() {
    let node = Node::native().await;
    let (price, balance) = (bytes(wide()), balance(&node, 0).await);
    let cost = wide() * U256::from(GAS) + U256::ONE;
    let overshot = cost - balance;
    let expected = format!("{}balance {balance}, tx cost {cost}, overshot {overshot}", low_funds());
    for raw in [dynamic(0, 0, &[1], &price), dynamic(0, 0, &price, &price), legacy(0, &price)] {
        for method in ["eth_sendRawTransaction", "eth_sendRawTransactionSync"] {
            let refused = node.fail(method, json!([raw])).await;
            assert_eq!(refused, (-32000, expected.clone()), "{method}");
        }
    }
    let above_max_fee = format!(
        "max priority fee per gas higher than max fee per gas: maxPriorityFeePerGas: {}, \
         maxFeePerGas: 1",
        wide()
    );
    for (raw, expected) in [
        (dynamic(0, 0, &price, &[1]), above_max_fee.as_str()),
        (dynamic(0, 0, &[1], &[1; 33]), "max fee per gas higher than 2^256-1"),
        (dynamic(0, 0, &[1; 33], &price), "max priority fee per gas higher than 2^256-1"),
        (legacy(0, &[1; 40]), "max fee per gas higher than 2^256-1"),
    ] {
        let refused = node.fail("eth_sendRawTransaction", json!([raw])).await;
        assert_eq!(refused, (-32000, expected.to_owned()));
    }
    // An integer with a leading zero is malformed, whatever its value is.
    let zero = [&[0][..], &price].concat();
    let (code, message) =
        node.fail("eth_sendRawTransaction", json!([dynamic(0, 0, &[1], &zero)])).await;
    assert!(code == -32000 && message.starts_with("rlp: "), "{message}");
    node.stop().await;
}

/// Returns the error of a method for a call with these additional fields.
async fn error_of(node: &Node, method: &str, fields: Value) -> (i64, String) {
    let mut call = json!({ "from": DEV_ACCOUNTS[0].address, "to": Address::ZERO, "gas": "0x5208" });
    call.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let params = match method {
        "eth_simulateV1" => json!([{ "blockStateCalls": [{ "calls": [call] }] }, "latest"]),
        "eth_fillTransaction" => json!([call]),
        "trace_call" => json!([call, ["trace"], "latest"]),
        _ => json!([call, "latest"]),
    };
    node.fail(method, params).await
}

#[tokio::test(flavor = "multi_thread")]
async fn call_with_a_wide_price_is_refused_for_its_cost() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let mut config = config();
    config.json_rpc.api.extend(["debug", "trace"].map(str::to_owned));
    let node = Node::start_with(folder, home, producing(None), config).await;
    let (from, balance) = (DEV_ACCOUNTS[0].address, balance(&node, 0).await);
    let cost = wide() * U256::from(GAS);
    let expected = format!("{}address {from} have {balance} want {cost}", low_funds());
    let hex = format!("{:#x}", wide());
    let max = format!("{:#x}", U256::MAX);
    for prices in [
        json!({ "gasPrice": hex }),
        json!({ "maxFeePerGas": hex }),
        json!({ "maxFeePerGas": hex, "maxPriorityFeePerGas": hex }),
    ] {
        for method in
            ["eth_call", "eth_createAccessList", "debug_traceCall", "trace_call", "eth_simulateV1"]
        {
            let (code, message) = error_of(&node, method, prices.clone()).await;
            assert!(message.contains(&expected), "{method} {prices}: {message}");
            let insufficient = if method == "eth_simulateV1" { -38014 } else { -32000 };
            assert_eq!(code, insufficient, "{method}");
        }
        let estimate = error_of(&node, "eth_estimateGas", prices).await;
        assert_eq!(estimate, (-32000, "gas required exceeds allowance (0)".to_owned()));
    }
    let (_, message) = error_of(&node, "eth_call", json!({ "gasPrice": max })).await;
    assert!(message.contains("required balance exceeds 256 bits"), "{message}");
    let above_max_fee = json!({ "maxFeePerGas": "0x1", "maxPriorityFeePerGas": hex });
    let (_, message) = error_of(&node, "eth_call", above_max_fee).await;
    assert!(message.contains("max priority fee per gas higher than max fee per gas"), "{message}");
    let blobs = json!({ "maxFeePerBlobGas": hex, "blobVersionedHashes": [format!("0x01{}", "00".repeat(31))] });
    let (_, message) = error_of(&node, "eth_call", blobs).await;
    assert!(message.contains(low_funds()), "{message}");
    let (code, message) = error_of(&node, "eth_fillTransaction", json!({ "gasPrice": hex })).await;
    assert!(code == -32000 && message.starts_with(low_funds()), "{message}");
    // A number above 256 bits is not a valid quantity.
    let (code, message) =
        error_of(&node, "eth_call", json!({ "gasPrice": format!("{max}0") })).await;
    assert!(code == -32602 && message.ends_with("hex number > 256 bits"), "{message}");
    // Even the largest balance of an override cannot pay such a price.
    let rich = json!({ from.to_string(): { "balance": max } });
    let call = json!({ "from": from, "to": Address::ZERO, "gas": "0x5208", "gasPrice": hex });
    let (code, message) = node.fail("eth_call", json!([call, "latest", rich])).await;
    assert!(code == -32000 && message.contains("above 2^128-1 wei is not supported"), "{message}");
    node.stop().await;
}
