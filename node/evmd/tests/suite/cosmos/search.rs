//! The search by events finds exactly the transactions that match the query.

use super::served::{FORKING, Served};
use crate::common::{
    CHAIN_ID, FEE_CAP, sign,
    signed::{self, any, signed},
    transfer,
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, Bytes, TxKind};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use chain::{DEV_ACCOUNTS, FEE_COLLECTOR};
use keys::bech32;
use prost::Message;
use proto::cosmos::{
    gov::v1::MsgVote,
    tx::v1beta1::{AuthInfo, TxRaw},
};
use serde_json::{Value, json};

/// Number of rounds of transactions.
const ROUNDS: u64 = 5;
/// The recipient of all transfers.
const RECEIVER: Address = Address::repeat_byte(0x99);
/// Init code that emits a log with one topic and four bytes: `log1(0, 4, 7)`.
const LOGGING: [u8; 8] = [0x60, 7, 0x60, 4, 0x60, 0, 0xa1, 0x00];

fn bech32_of(address: Address) -> String {
    bech32("cosmos", address)
}

/// Returns a transfer of coins by account 0.
fn send_coins() -> prost_types::Any {
    signed::send(0, &bech32_of(RECEIVER), 7)
}

fn escape(query: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    query.bytes().map(escaped).collect()
}

impl Served {
    /// Returns the transaction hashes that a query finds, and the response. `rest` contains the other parameters.
    async fn find(&self, query: &str, rest: &str) -> (Vec<String>, Value) {
        let path = format!("/cosmos/tx/v1beta1/txs?query={}{rest}", escape(query));
        let response = self.get(&path).await;
        let txs = response["tx_responses"].as_array().unwrap();
        assert_eq!(txs.len(), response["txs"].as_array().unwrap().len());
        let hash = |tx: &Value| tx["txhash"].as_str().unwrap().to_owned();
        (txs.iter().map(hash).collect(), response)
    }
}

/// Starts a node on which account 0 sends coins, account 1 sends ether, and account 2 calls a contract that emits a
/// log. Also returns the transaction hashes of each account, oldest first.
async fn sent() -> (Served, [Vec<String>; 3]) {
    let served = Served::start().await;
    let mut hashes = [Vec::new(), Vec::new(), Vec::new()];
    let init = [0x60, 8, 0x80, 0x60, 0x09, 0x3d, 0x39, 0x3d, 0xf3];
    let deploying = [&init[..], &LOGGING].concat();
    let tx = |nonce, to, input: Vec<u8>| TxEip1559 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit: 200_000,
        max_fee_per_gas: FEE_CAP,
        to,
        input: input.into(),
        ..TxEip1559::default()
    };
    let send = async |raw: Bytes| {
        let hash = served.node.call("eth_sendRawTransaction", json!([raw])).await;
        served.node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
        hash.as_str().unwrap().to_owned()
    };
    send(sign(2, tx(0, TxKind::Create, deploying))).await;
    let contract = DEV_ACCOUNTS[2].address.create(0);
    for nonce in 0..ROUNDS {
        let mined = served.mined(&signed(0, nonce, vec![send_coins()])).await;
        hashes[0].push(mined["txhash"].as_str().unwrap().to_owned());
        hashes[1].push(send(transfer(1, nonce, RECEIVER)).await);
        hashes[2].push(send(sign(2, tx(nonce + 1, TxKind::Call(contract), vec![]))).await);
    }
    (served, hashes)
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_found_by_their_events() {
    let (served, [coins, ether, calls]) = sent().await;
    let [alice, bob, carol] = [0, 1, 2].map(|of| DEV_ACCOUNTS[of].address);
    let contract = carol.create(0);
    let by = |key: &str, address: Address| format!("{key}='{}'", bech32_of(address));
    for (query, expected) in [
        // An address is found in either format, regardless of the format in the event.
        (by("message.sender", alice), &coins),
        (format!("message.sender='{alice}'"), &coins),
        (by("message.sender", bob), &ether),
        (by("transfer.recipient", RECEIVER), &coins),
        (by("coin_received.receiver", RECEIVER), &coins),
        (by("coin_spent.spender", alice), &coins),
        (by("tx.fee_payer", alice), &coins),
        (format!("ethereum_tx.recipient='{RECEIVER}'"), &ether),
        (format!("ethereum_tx.recipient='{contract}'"), &calls),
        (
            format!("ethereum_tx.recipient='{contract}' AND tx_log.txLog CONTAINS '\"logIndex\":'"),
            &calls,
        ),
        ("message.action='/cosmos.bank.v1beta1.MsgSend' AND tx.height>0".to_owned(), &coins),
        (format!("tx.hash='{}'", coins[2]), &vec![coins[2].clone()]),
        (format!("ethereum_tx.ethereumTxHash='{}'", ether[2]), &vec![ether[2].clone()]),
        (format!("{} AND message.module='gov'", by("message.sender", alice)), &vec![]),
        (format!("{} AND tx.height>100000000", by("message.sender", alice)), &vec![]),
        (format!("tx.hash='{}' AND tx.hash='{:064}'", coins[2], 0), &vec![]),
        (
            format!("tx.height>0 AND tx.hash CONTAINS '{}'", &coins[1][..50]),
            &vec![coins[1].clone()],
        ),
        // Every transaction pays the fee collector, so this condition cannot be used to find candidates.
        (format!("transfer.recipient='{FEE_COLLECTOR}' AND tx.height>0"), &coins),
        (
            format!("transfer.recipient='{FEE_COLLECTOR}' AND {}", by("message.sender", alice)),
            &coins,
        ),
    ] {
        let (found, response) = served.find(&query, "").await;
        assert_eq!(&found, expected, "{query}");
        assert_eq!(response["total"], json!(expected.len().to_string()), "{query}");
        let (mut found, _) = served.find(&query, "&order_by=ORDER_BY_DESC").await;
        found.reverse();
        assert_eq!(&found, expected, "{query}, newest first");
    }
    // These queries use pages and conditions on the height.
    let query = by("message.sender", alice);
    let (found, response) = served.find(&query, "&page=2&limit=2").await;
    assert_eq!((&found[..], &response["total"]), (&coins[2..4], &json!("5")));
    let height = response["tx_responses"][0]["height"].as_str().unwrap();
    let (found, _) = served.find(&format!("{query} AND tx.height<{height}"), "").await;
    assert_eq!(found, coins[..2]);
    let (found, _) = served.find(&format!("tx.height={height}"), "").await;
    assert_eq!(found, coins[2..3]);
    // Older clients use these parameters.
    let path = format!("/cosmos/tx/v1beta1/txs?events={}&events=tx.height%3E0", escape(&query));
    assert_eq!(served.get(&path).await["total"], "5");
    let older = "&pagination.limit=2&pagination.offset=1&pagination.reverse=true";
    let page = served.get(&format!("{path}{older}")).await;
    let hashes = [0, 1].map(|at| page["tx_responses"][at]["txhash"].as_str().unwrap().to_owned());
    assert_eq!(hashes, [coins[3].clone(), coins[2].clone()]);
    let node = format!("http://{}", served.node.rest);
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_evmd"));
    command.args(["query", "txs", "--query", &query, "--order_by", "desc", "--limit", "2"]);
    command.args(["-o", "json", "--node", &node]).env_remove("EVMD_HOME");
    let forking = FORKING.lock().await;
    let output = command.output().await.unwrap();
    drop(forking);
    let response: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(response["tx_responses"][0]["txhash"], json!(coins[4]), "{response}");
    for (rest, code, text) in [
        ("query=", 3, "query cannot be empty"),
        ("query=message.module%3D%27bank%27", 3, "query: one condition has to name tx.height"),
        ("query=tx.height%3D1&page=2", 3, "page should be within [1, 1] range, given 2"),
        ("query=tx.height%3Dx", 3, "tx.height: \"x\" is not a height"),
        (
            "query=tx.height%3D1&page=101",
            3,
            "the page starts after 10000 transactions, the maximum is 10000",
        ),
    ] {
        let (status, response) = served.ask(&format!("/cosmos/tx/v1beta1/txs?{rest}")).await;
        assert_eq!((status, &response["code"]), (400, &json!(code)), "{response}");
        assert!(response["message"].as_str().unwrap().contains(text), "{response}");
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Returns the type and attributes of each event.
fn events_of(response: &Value) -> Vec<(&str, Vec<(&str, &str)>)> {
    let events = response["events"].as_array().unwrap().iter();
    let events = events.map(|event| {
        let attributes = event["attributes"].as_array().unwrap().iter();
        let attributes = attributes.map(|a| (text(&a["key"]), text(&a["value"]))).collect();
        (text(&event["type"]), attributes)
    });
    events.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn cosmos_transaction_has_the_events_of_the_sdk() {
    let served = Served::start().await;
    let (alice, receiver) = (bech32_of(DEV_ACCOUNTS[0].address), bech32_of(RECEIVER));
    let tx = signed(0, 0, vec![send_coins(), send_coins()]);
    let mined = served.mined(&tx).await;
    let events = events_of(&mined);
    let kinds: Vec<_> = events.iter().map(|(kind, _)| *kind).collect();
    let bank = ["coin_spent", "coin_received", "transfer", "message"];
    let of_message = [&["message"][..], &bank].concat();
    let expected = [&bank[..], &["tx"; 3], &of_message, &of_message].concat();
    assert_eq!(kinds, expected);
    assert_eq!(events[5].1, [("acc_seq", format!("{alice}/0").as_str())]);
    let action = ("action", "/cosmos.bank.v1beta1.MsgSend");
    assert_eq!(events[7].1, [action, ("sender", &alice), ("module", "bank"), ("msg_index", "0")]);
    let moved = [("recipient", &*receiver), ("sender", &alice), ("amount", "7atest")];
    assert_eq!(events[10].1[..3], moved);
    assert_eq!(events[15].1[3], ("msg_index", "1"));
    // A failed transaction has only the events of its fee.
    let vote = MsgVote { proposal_id: 77, voter: alice.clone(), option: 1, ..MsgVote::default() };
    let failed = served.mined(&signed(0, 1, vec![any(&vote)])).await;
    assert_ne!(failed["code"], 0, "{failed}");
    let kinds: Vec<_> = events_of(&failed).iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [&bank[..], &["tx"; 3]].concat());
    // A simulation returns the events of its messages.
    let tx = signed(0, 2, vec![send_coins()]);
    let body = json!({ "tx_bytes": BASE64.encode(tx) });
    let (_, tried) = served.post("/cosmos/tx/v1beta1/simulate", &body.to_string()).await;
    let kinds: Vec<_> = events_of(&tried["result"]).iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, of_message, "{tried}");
    // A simulation of the decoded transaction, as cosmpy sends it, returns the same.
    let (_, decoded) = served.post("/cosmos/tx/v1beta1/decode", &body.to_string()).await;
    let fields = json!({ "tx": decoded["tx"] });
    let (_, again) = served.post("/cosmos/tx/v1beta1/simulate", &fields.to_string()).await;
    assert_eq!(again["result"], tried["result"], "{again}");
    let (status, none) = served.post("/cosmos/tx/v1beta1/simulate", "{\"tx\":{}}").await;
    assert_eq!((status, &none["code"]), (400, &json!(3)), "{none}");
    // A simulation with a key type that this chain does not use, as cosmjs sends it, also returns the same. A
    // broadcast with this key type is refused.
    let foreign = with_default_key_type(&signed(0, 2, vec![send_coins()]));
    let body = json!({ "tx_bytes": BASE64.encode(&foreign) });
    let (_, again) = served.post("/cosmos/tx/v1beta1/simulate", &body.to_string()).await;
    assert_eq!(again["result"], tried["result"], "{again}");
    let body = json!({ "tx_bytes": BASE64.encode(&foreign), "mode": "BROADCAST_MODE_SYNC" });
    let (_, refused) = served.post("/cosmos/tx/v1beta1/txs", &body.to_string()).await;
    assert_eq!(refused["tx_response"]["code"], 8, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ethereum_transaction_has_the_events_of_cosmos_evm() {
    let served = Served::start().await;
    // One transaction is a transfer with more gas than it uses, the other a creation that reverts: `revert(0, 0)`.
    let tx = |nonce, to, input: Vec<u8>| TxEip1559 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit: 70_000,
        max_fee_per_gas: FEE_CAP,
        max_priority_fee_per_gas: 7,
        to,
        input: input.into(),
        ..TxEip1559::default()
    };
    let transfer = tx(0, TxKind::Call(RECEIVER), vec![]);
    let reverting = tx(1, TxKind::Create, vec![0x60, 0, 0x60, 0, 0xfd]);
    for (tx, recipient) in [(transfer, Some("recipient")), (reverting, None)] {
        let failed = recipient.is_none().then_some("ethereumTxFailed");
        let hash = served.node.call("eth_sendRawTransaction", json!([sign(1, tx)])).await;
        let receipt = served.node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
        let hash = hash.as_str().unwrap();
        let mined = served.get(&format!("/cosmos/tx/v1beta1/txs/{hash}")).await;
        let events = events_of(&mined["tx_response"]);
        let kinds: Vec<_> = events.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, ["tx", "ethereum_tx", "ethereum_tx", "message"]);
        // The fee for the whole gas limit is deducted before the transaction runs.
        let price = text(&receipt["effectiveGasPrice"]);
        let price = u64::from_str_radix(&price[2..], 16).unwrap();
        let fee = format!("{}atest", price * 70_000);
        assert_eq!(events[0].1, [("fee", fee.as_str())]);
        let position = [("ethereumTxHash", hash), ("txIndex", "0")];
        assert_eq!(events[1].1, position);
        let keys: Vec<_> = events[2].1.iter().map(|(key, _)| *key).collect();
        let expected = ["amount", "ethereumTxHash", "txIndex", "txGasUsed"];
        assert_eq!(keys, expected.into_iter().chain(recipient).chain(failed).collect::<Vec<_>>());
        assert_eq!(events[2].1[1..3], position);
    }
    served.stop().await;
}

/// Returns the transaction with its public key changed to the SDK's default type.
fn with_default_key_type(raw: &[u8]) -> Vec<u8> {
    let mut raw = TxRaw::decode(raw).unwrap();
    let mut auth = AuthInfo::decode(raw.auth_info_bytes.as_slice()).unwrap();
    let key = auth.signer_infos[0].public_key.as_mut().unwrap();
    key.type_url = "/cosmos.crypto.secp256k1.PubKey".to_owned();
    raw.auth_info_bytes = auth.encode_to_vec();
    raw.encode_to_vec()
}
