//! Methods that sign with the node's keys are disabled by default, and compatible with wallets if enabled.

use crate::{
    client::{Node, config},
    common::{native_home, producing},
};
use alloy_primitives::{Address, Bytes, Signature, U256, hex, keccak256};
use chain::DEV_ACCOUNTS;
use config::KeyringChoice;
use keys::{
    PrivateKey,
    keyring::{Access, Backend, Keyring, Record},
    message_hash, typed_data_hash,
};
use serde_json::{Value, json};
use std::time::Duration;

/// Starts a node that signs with the keys of the first two development accounts.
async fn signing() -> Node {
    let folder = tempfile::tempdir().unwrap();
    let mut keyring = Keyring::open(Backend::Test, folder.path(), Access::Write, None).unwrap();
    for (name, account) in ["alice", "bob"].into_iter().zip(DEV_ACCOUNTS) {
        let key = PrivateKey::from_bytes(account.private_key.as_slice()).unwrap();
        keyring.add(Record::local(name.to_owned(), key), false).unwrap();
    }
    drop(keyring);
    let home = native_home(folder.path());
    let mut config = config();
    config.json_rpc.keyring = KeyringChoice::Test;
    config.json_rpc.api.push("personal".to_owned());
    Node::start_with(folder, home, producing(Some(Duration::from_millis(5))), config).await
}

fn signer(signature: &Value, hash: alloy_primitives::B256) -> Address {
    let bytes: Bytes = serde_json::from_value(signature.clone()).unwrap();
    assert!([27, 28].contains(&bytes[64]), "{signature}");
    Signature::from_raw(&bytes).unwrap().recover_address_from_prehash(&hash).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_methods_are_disabled_by_default() {
    let node = Node::native().await;
    assert_eq!(node.call("eth_accounts", json!([])).await, json!([]));
    let from = DEV_ACCOUNTS[0].address;
    for (method, params) in [
        ("eth_sign", json!([from, "0x00"])),
        ("eth_signTypedData_v4", json!([from, "{}"])),
        ("eth_signTransaction", json!([{ "from": from, "to": from }])),
        ("eth_sendTransaction", json!([{ "from": from, "to": from }])),
    ] {
        let (code, message) = node.fail(method, params).await;
        assert!(code == -32000 && message.starts_with("the node has no keys"), "{message}");
    }
    // By default, only the methods of `personal` that need no key are served.
    assert_eq!(node.call("personal_listAccounts", json!([])).await, json!([]));
    for method in rpc::methods().filter(|method| method.namespace() == "personal") {
        if method.name != "personal_listAccounts" {
            assert_eq!(node.fail(method.name, json!([])).await.0, -32601, "{}", method.name);
        }
    }
    node.stop().await;
    let node = Node::native_with(|config| config.json_rpc.api.push("personal".to_owned())).await;
    for method in ["personal_listAccounts", "personal_listWallets"] {
        assert_eq!(node.call(method, json!([])).await, json!([]), "{method}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_and_typed_data_are_signed() {
    let node = signing().await;
    let (alice, bob) = (DEV_ACCOUNTS[0].address, DEV_ACCOUNTS[1].address);
    assert_eq!(node.call("eth_accounts", json!([])).await, json!([alice, bob]));
    assert_eq!(node.call("personal_listAccounts", json!([])).await, json!([alice, bob]));
    let data = hex::encode_prefixed("Some data");
    let signed = node.call("eth_sign", json!([alice, data])).await;
    assert_eq!(signer(&signed, message_hash(b"Some data")), alice);
    assert_eq!(node.call("personal_sign", json!([data, alice, ""])).await, signed);
    assert_eq!(node.call("personal_ecRecover", json!([data, signed])).await, json!(alice));
    let typed = json!({
        "types": {
            "EIP712Domain": [{ "name": "name", "type": "string" }],
            "Mail": [{ "name": "contents", "type": "string" }],
        },
        "primaryType": "Mail", "domain": { "name": "x" }, "message": { "contents": "hello" },
    });
    let hash = typed_data_hash(&typed.to_string()).unwrap();
    for given in [typed.clone(), json!(typed.to_string())] {
        let signed = node.call("eth_signTypedData_v4", json!([bob, given])).await;
        assert_eq!(signer(&signed, hash), bob);
    }
    assert_eq!(
        node.fail("eth_sign", json!([Address::ZERO, data])).await,
        (-32000, "unknown account".to_owned())
    );
    assert_eq!(node.fail("eth_signTypedData_v4", json!([bob, "{}"])).await.0, -32602);
    for signature in ["0x00".to_owned(), format!("0x{}", "00".repeat(65))] {
        assert_eq!(node.fail("personal_ecRecover", json!([data, signature])).await.0, -32602);
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_filled_in_and_sent() {
    let node = signing().await;
    let (alice, to) = (DEV_ACCOUNTS[0].address, Address::repeat_byte(0x77));
    let mut nonces = Vec::new();
    for transaction in [
        json!({ "from": alice, "to": to, "value": "0x1" }),
        json!({ "from": alice, "to": to, "value": "0x1", "gasPrice": "0x174876e800" }),
        json!({
            "from": alice, "to": to, "value": "0x1", "gasPrice": "0x174876e800", "accessList": [],
        }),
        // Init code that returns nothing.
        json!({ "from": alice, "data": "0x60006000f3" }),
    ] {
        let hash = node.call("eth_sendTransaction", json!([transaction])).await;
        let receipt = node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
        assert_eq!(receipt["status"], "0x1", "{transaction}");
        let sent = node.call("eth_getTransactionByHash", json!([hash])).await;
        nonces.push((sent["nonce"].clone(), sent["type"].clone()));
    }
    let expected = [("0x0", "0x2"), ("0x1", "0x0"), ("0x2", "0x1"), ("0x3", "0x2")];
    assert_eq!(nonces, expected.map(|(nonce, kind)| (json!(nonce), json!(kind))));
    let balance = node.call("eth_getBalance", json!([to, "latest"])).await;
    assert_eq!(balance, json!(U256::from(3)));

    let request = json!({ "from": alice, "to": to, "nonce": "0x9", "gas": "0x5208" });
    let signed = node.call("eth_signTransaction", json!([request])).await;
    let raw: Bytes = serde_json::from_value(signed["raw"].clone()).unwrap();
    assert_eq!(signed["tx"]["hash"], json!(keccak256(&raw)));
    assert_eq!(signed["tx"]["nonce"], "0x9");
    for (request, reason) in [
        (json!({ "from": to, "to": to }), "unknown account"),
        (json!({ "from": alice }), "contract creation without any data provided"),
        (
            json!({ "from": alice, "to": to, "gasPrice": "0x1", "maxFeePerGas": "0x1" }),
            "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified",
        ),
        (
            json!({ "from": alice, "to": to, "maxFeePerGas": "0x1", "maxPriorityFeePerGas": "0x2" }),
            "maxFeePerGas (1) < maxPriorityFeePerGas (2)",
        ),
        (
            json!({ "from": alice, "to": to, "authorizationList": [] }),
            "EIP-7702 transaction with empty auth list (sender \
             0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266)",
        ),
    ] {
        let failed = node.fail("eth_sendTransaction", json!([request])).await;
        assert_eq!(failed, (-32000, reason.to_owned()));
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_are_created_locked_and_unlocked() {
    let node = signing().await;
    let created = node.call("personal_newAccount", json!([""])).await;
    let raw = format!("0x{}", "11".repeat(32));
    let imported = node.call("personal_importRawKey", json!([raw, ""])).await;
    let accounts = node.call("eth_accounts", json!([])).await;
    assert_eq!(accounts.as_array().unwrap()[2..], [created.clone(), imported.clone()]);
    let sign = |by: &Value| json!([by, "0x00"]);
    let locked = (-32000, "authentication needed: password or unlock".to_owned());
    assert_eq!(node.fail("eth_sign", sign(&created)).await, locked);
    let unlock = json!([created, "", 0]);
    assert_eq!(node.call("personal_unlockAccount", unlock).await, json!(true));
    node.call("eth_sign", sign(&created)).await;
    assert_eq!(node.call("personal_lockAccount", json!([created])).await, json!(true));
    assert_eq!(node.fail("eth_sign", sign(&created)).await, locked);
    let wallets = node.call("personal_listWallets", json!([])).await;
    assert_eq!(
        (&wallets[0]["status"], &wallets[2]["status"]),
        (&json!("Unlocked"), &json!("Locked"))
    );
    let request = json!({ "from": DEV_ACCOUNTS[1].address, "to": created, "value": "0x1" });
    let hash = node.call("personal_sendTransaction", json!([request, ""])).await;
    node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    assert_eq!(node.fail("personal_importRawKey", json!([raw, ""])).await.0, -32000);
    assert_eq!(node.fail("personal_importRawKey", json!(["0x12", ""])).await.0, -32602);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn filled_transaction_equals_the_signed_one() {
    let node = signing().await;
    let (alice, to) = (DEV_ACCOUNTS[0].address, Address::repeat_byte(0x77));
    // The prices are explicit, so that blocks produced between the two calls do not change them.
    let fees = json!({ "maxFeePerGas": "0x174876e800", "maxPriorityFeePerGas": "0x1" });
    for (kind, prices) in [
        ("0x2", fees),
        ("0x1", json!({ "gasPrice": "0x174876e800", "accessList": [] })),
        ("0x0", json!({ "gasPrice": "0x174876e800" })),
    ] {
        let mut transaction = json!({ "from": alice, "to": to, "value": "0x1", "data": "0x01" });
        transaction.as_object_mut().unwrap().extend(prices.as_object().unwrap().clone());
        let filled = node.call("eth_fillTransaction", json!([transaction])).await;
        let signed = node.call("eth_signTransaction", json!([transaction])).await;
        let (mut filled_tx, mut signed_tx) = (filled["tx"].clone(), signed["tx"].clone());
        assert_eq!((&filled_tx["type"], &filled_tx["r"]), (&json!(kind), &json!("0x0")));
        let raw: Bytes = serde_json::from_value(filled["raw"].clone()).unwrap();
        assert_eq!(filled_tx["hash"], json!(keccak256(&raw)));
        assert_eq!(raw[raw.len() - 3..], [0x80; 3], "signature in {raw} is not empty");
        for tx in [&mut filled_tx, &mut signed_tx] {
            let of_signature = ["hash", "v", "r", "s", "yParity", "chainId"];
            tx.as_object_mut().unwrap().retain(|key, _| !of_signature.contains(&key.as_str()));
        }
        assert_eq!(filled_tx, signed_tx);
    }
    node.stop().await;
}
