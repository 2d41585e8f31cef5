//! Compares the `ots_` methods, which block explorers use, with the blocks.

use crate::{
    client::{Node, config},
    common::{
        CHAIN_ID, FEE_CAP, import, native_home, producing, sign,
        signed::{self, address_of},
    },
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, map::HashMap};
use chain::{DEV_ACCOUNTS, Genesis};
use config::Config;
use home::Home;
use keys::bech32;
use proto::cosmos::gov::v1::MsgVote;
use serde_json::{Value, json};
use std::{path::Path, time::Duration};
use tempfile::TempDir;
use transactions::cosmos::TX_TYPE;

/// Transactions per page, small enough that there are several pages.
const PAGE: usize = 3;
/// Rounds of transactions that [`busy`] sends.
const ROUNDS: u64 = 12;
/// An account that only receives transfers.
const RECEIVER: Address = Address::repeat_byte(0xee);

/// Code that forwards the ether of a call to the address in its input, so that the contract's balance stays the same.
const FORWARD: [u8; 16] =
    [0x60, 0, 0x60, 0, 0x60, 0, 0x60, 0, 0x34, 0x60, 0, 0x35, 0x5a, 0xf1, 0x50, 0x00];
/// Code that creates a contract whose code is one zero byte.
const CREATE: [u8; 23] = [
    0x69, 0x60, 0, 0x60, 0, 0x53, 0x60, 1, 0x60, 0, 0xf3, 0x60, 0, 0x52, 0x60, 0x0a, 0x60, 0x16,
    0x60, 0, 0xf0, 0x50, 0x00,
];

/// Init code that deploys this code.
fn deploying(code: &[u8]) -> Bytes {
    let init = [0x60, code.len() as u8, 0x80, 0x60, 0x09, 0x3d, 0x39, 0x3d, 0xf3];
    [&init[..], code].concat().into()
}

pub(crate) async fn serve(folder: TempDir, home: Home) -> Node {
    serve_with(folder, home, |_| ()).await
}

/// Same as [`serve`], with changed settings.
pub(crate) async fn serve_with(
    folder: TempDir,
    home: Home,
    change: impl FnOnce(&mut Config),
) -> Node {
    let mut config = config();
    config.json_rpc.api.extend(["ots", "erigon", "debug", "trace"].map(str::to_owned));
    change(&mut config);
    Node::start_with(folder, home, producing(Some(Duration::from_millis(5))), config).await
}

async fn send(node: &Node, from: usize, nonce: u64, tx: TxEip1559) -> Value {
    let tx = TxEip1559 { chain_id: CHAIN_ID, nonce, max_fee_per_gas: FEE_CAP, ..tx };
    node.call("eth_sendRawTransaction", json!([sign(from, tx)])).await
}

/// A mined transaction and its receipt.
struct MinedTx {
    tx: Value,
    receipt: Value,
}

impl MinedTx {
    fn addresses(&self) -> Vec<String> {
        let mut addresses: Vec<_> = ["from", "to", "contractAddress"]
            .iter()
            .filter_map(|field| self.receipt[field].as_str().map(str::to_owned))
            .collect();
        addresses.sort();
        addresses.dedup();
        addresses
    }
}

/// Every transaction of the chain, oldest first.
async fn mined_txs(node: &Node) -> Vec<MinedTx> {
    let head: U256 = text(&node.call("eth_blockNumber", json!([])).await).parse().unwrap();
    let mut seen = Vec::new();
    for number in 0..=head.to::<u64>() {
        let number = format!("{number:#x}");
        let block = node.call("eth_getBlockByNumber", json!([number, true])).await;
        let receipts = node.call("eth_getBlockReceipts", json!([number])).await;
        let txs = block["transactions"].as_array().unwrap().iter();
        let pairs = txs.zip(receipts.as_array().unwrap());
        seen.extend(
            pairs.map(|(tx, receipt)| MinedTx { tx: tx.clone(), receipt: receipt.clone() }),
        );
    }
    seen
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn number(value: &Value) -> u64 {
    text(value).parse::<U256>().unwrap().to()
}

/// Reads all pages of an address in one direction; returns the transaction hashes, newest first.
async fn pages(node: &Node, address: &str, method: &str, expected: usize) -> Vec<Value> {
    let older = method == "ots_searchTransactionsBefore";
    let (mut hashes, mut block) = (Vec::new(), 0);
    loop {
        let page = node.call(method, json!([address, block, PAGE])).await;
        let (txs, receipts) =
            (page["txs"].as_array().unwrap(), page["receipts"].as_array().unwrap());
        let of = |field: &str, list: &[Value]| -> Vec<Value> {
            list.iter().map(|object| object[field].clone()).collect()
        };
        let new = of("hash", txs);
        assert_eq!(new, of("transactionHash", receipts), "{method} {address}");
        assert!(receipts.iter().all(|receipt| receipt["timestamp"].is_u64()), "{page}");
        let start_flag = if older { "firstPage" } else { "lastPage" };
        assert_eq!(
            page[start_flag],
            json!(hashes.is_empty()),
            "{method} {address} from {block}: {page}"
        );
        hashes = if older { [hashes, new].concat() } else { [new, hashes].concat() };
        let end_flag = if older { "lastPage" } else { "firstPage" };
        assert_eq!(page[end_flag], json!(hashes.len() == expected), "{method} {address}: {page}");
        if page[end_flag] == true {
            return hashes;
        }
        let edge = if older { txs.last() } else { txs.first() };
        block = number(&edge.expect("only the last page may be empty")["blockNumber"]);
    }
}

/// Compares the responses for every address and transaction with the blocks.
async fn check(node: &Node) {
    let seen = mined_txs(node).await;
    let mut by_address: HashMap<String, Vec<Value>> = HashMap::default();
    for mined in seen.iter().rev() {
        for address in mined.addresses() {
            by_address.entry(address).or_default().push(mined.tx["hash"].clone());
        }
    }
    assert!(by_address.len() > 2);
    for (address, expected) in &by_address {
        for method in ["ots_searchTransactionsBefore", "ots_searchTransactionsAfter"] {
            let found = pages(node, address, method, expected.len()).await;
            assert_eq!(&found, expected, "{method} {address}");
        }
    }
    for mined in &seen {
        check_tx(node, mined).await;
    }
}

async fn check_tx(node: &Node, MinedTx { tx, receipt }: &MinedTx) {
    let hash = &tx["hash"];
    let of_sender = json!([tx["from"], number(&tx["nonce"])]);
    assert_eq!(node.call("ots_getTransactionBySenderAndNonce", of_sender).await, *hash);
    let of_sender = json!([tx["from"], tx["nonce"]]);
    assert_eq!(node.call("eth_getTransactionBySenderAndNonce", of_sender).await, *tx);
    assert_eq!(node.call("eth_getTransactionLogs", json!([hash])).await, receipt["logs"]);
    let created = receipt["contractAddress"].as_str().filter(|_| receipt["status"] == "0x1");
    if let Some(contract) = created {
        check_creation(node, contract, tx, receipt).await;
    }
    let options = json!({ "tracer": "callTracer" });
    let frame = node.call("debug_traceTransaction", json!([hash, options])).await;
    let calls = node.call("ots_traceTransaction", json!([hash])).await;
    let mut expected = Vec::new();
    flatten(&frame, 0, &mut expected);
    let kinds = calls.as_array().unwrap().iter();
    let kinds = kinds.map(|call| (text(&call["type"]).to_owned(), call["depth"].as_u64().unwrap()));
    assert_eq!(kinds.collect::<Vec<_>>(), expected, "{hash}");
    let error = node.call("ots_getTransactionError", json!([hash])).await;
    let failed = receipt["status"] == "0x0";
    let output = frame.get("output").filter(|_| failed).cloned().unwrap_or(json!("0x"));
    assert_eq!(error, output, "{hash}");
}

async fn check_creation(node: &Node, contract: &str, tx: &Value, receipt: &Value) {
    let creator = node.call("ots_getContractCreator", json!([contract])).await;
    let has_code = node.call("eth_getCode", json!([contract, "latest"])).await != "0x";
    assert_eq!(node.call("ots_hasCode", json!([contract, "latest"])).await, has_code);
    if has_code {
        assert_eq!(creator, json!({ "hash": tx["hash"], "creator": tx["from"] }));
        let before = number(&receipt["blockNumber"]) - 1;
        assert_eq!(node.call("ots_hasCode", json!([contract, before])).await, false);
    } else {
        assert!(creator.is_null(), "{contract} has no code: {creator}");
    }
}

fn flatten(frame: &Value, depth: u64, into: &mut Vec<(String, u64)>) {
    into.push((text(&frame["type"]).to_owned(), depth));
    for inner in frame["calls"].as_array().into_iter().flatten() {
        flatten(inner, depth + 1, into);
    }
}

/// Starts a node whose transactions involve addresses in every role. Also returns the factory, and the hash of a
/// transaction in which the factory forwards ether and creates a contract.
pub(crate) async fn busy() -> (Node, Address, Value) {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let node = serve(folder, home).await;
    let gas = TxEip1559 { gas_limit: 300_000, ..TxEip1559::default() };
    let factory = [&FORWARD[..FORWARD.len() - 1], &CREATE].concat();
    send(&node, 1, 0, TxEip1559 { input: deploying(&FORWARD), ..gas.clone() }).await;
    let hash = send(&node, 2, 0, TxEip1559 { input: deploying(&factory), ..gas.clone() }).await;
    node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    let [forwarder, factory] = [1, 2].map(|of| DEV_ACCOUNTS[of].address.create(0));
    let input = Bytes::from(RECEIVER.into_word());
    let mut creation = Value::Null;
    for nonce in 0..ROUNDS {
        let call = |to: Address, value: u64, gas_limit| TxEip1559 {
            to: TxKind::Call(to),
            value: U256::from(value),
            input: input.clone(),
            gas_limit,
            ..TxEip1559::default()
        };
        let plain = |to| TxEip1559 { input: Bytes::new(), ..call(to, 9, 21_000) };
        // These calls, with and without value, leave the forwarder's balance and nonce unchanged.
        send(&node, 3, nonce, call(forwarder, 5, 300_000)).await;
        send(&node, 4, nonce, call(forwarder, 0, 300_000)).await;
        creation = send(&node, 5, nonce, call(factory, 7, 300_000)).await;
        // This call runs out of gas, so the transfer of its value is reverted.
        send(&node, 6, nonce, call(forwarder, 5, 22_000)).await;
        send(&node, 7, nonce, plain(RECEIVER)).await;
        // One transfer is of zero wei, and one is to the sender itself.
        send(&node, 8, nonce, TxEip1559 { value: U256::ZERO, ..plain(RECEIVER) }).await;
        let last = send(&node, 9, nonce, plain(DEV_ACCOUNTS[9].address)).await;
        node.wait_for("eth_getTransactionReceipt", json!([last])).await;
    }
    // Neither of these creations leaves a contract: one contract destroys itself, and the other creation fails.
    for (nonce, init) in (1..).zip([vec![0x33, 0xff], vec![0xfe]]) {
        let hash = send(&node, 1, nonce, TxEip1559 { input: init.into(), ..gas.clone() }).await;
        node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    }
    (node, factory, creation)
}

/// Checks that each address paid by the messages of a Cosmos transaction finds the transaction, even if it
/// fails and the balances of these addresses do not change.
async fn check_recipients_of_cosmos_messages(node: &Node) {
    let paid = [0xb1, 0xb2].map(Address::repeat_byte);
    let vote = MsgVote { proposal_id: 99, voter: address_of(0), option: 1, ..MsgVote::default() };
    let [first, second] = paid.map(|to| signed::send(0, &bech32("cosmos", to), 7));
    let tx = signed::signed(0, 0, vec![first, second, signed::any(&vote)]);
    let raw = Bytes::from([&[TX_TYPE], &tx[..]].concat());
    let hash = node.call("eth_sendRawTransaction", json!([raw])).await;
    let receipt = node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    assert_eq!(receipt["status"], "0x0");
    for address in paid {
        let page = node.call("ots_searchTransactionsBefore", json!([address, 0, 25])).await;
        assert_eq!(page["txs"][0]["hash"], hash, "{address}: {page}");
    }
    // The fee is charged for the whole gas limit.
    let details = node.call("ots_getBlockDetails", json!([receipt["blockNumber"]])).await;
    let fees = number(&receipt["effectiveGasPrice"]) * signed::GAS;
    assert_eq!(number(&details["totalFees"]), fees);
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_of_an_address_are_found() {
    let (node, factory, creation) = busy().await;
    check(&node).await;
    let child = factory.create(ROUNDS);
    let operations = node.call("ots_getInternalOperations", json!([creation])).await;
    let expected = json!([
        { "type": 0, "from": factory, "to": RECEIVER, "value": "0x7" },
        { "type": 2, "from": factory, "to": child, "value": "0x0" },
    ]);
    assert_eq!(operations, expected);
    check_recipients_of_cosmos_messages(&node).await;
    let creator = node.call("ots_getContractCreator", json!([child])).await;
    assert_eq!(creator, json!({ "hash": creation, "creator": factory }));
    // After a restart, the results from the index and from blocks on disk are the same.
    let folder = node.stop().await;
    let home = crate::common::reopened(folder.path());
    let node = serve(folder, home).await;
    check(&node).await;
    node.stop().await;
}

/// Starts a node on a chain that begins with proof of work and passes every Ethereum fork. The node adds empty blocks.
pub(crate) async fn every_fork() -> Node {
    let chain = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/samples/every_fork");
    let genesis = std::fs::read_to_string(chain.join("genesis.json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let home = Home::init(folder.path(), &Genesis::from_json(&genesis).unwrap()).unwrap();
    import(&home, vec![chain.join("chain.rlp")]).unwrap();
    serve(folder, home).await
}

#[tokio::test(flavor = "multi_thread")]
async fn explorer_methods_equal_the_blocks_of_every_fork() {
    let node = every_fork().await;
    check(&node).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn block_transactions_are_paginated() {
    let (node, ..) = busy().await;
    for mined in mined_txs(&node).await {
        let block = number(&mined.tx["blockNumber"]);
        let plain = node.call("eth_getBlockByNumber", json!([format!("{block:#x}"), true])).await;
        let receipts = node.call("eth_getBlockReceipts", json!([format!("{block:#x}")])).await;
        let details = node.call("ots_getBlockDetails", json!([block])).await;
        let by_hash = node.call("ots_getBlockDetailsByHash", json!([plain["hash"]])).await;
        assert_eq!(details, by_hash);
        let count = receipts.as_array().unwrap().len();
        assert_eq!(details["block"]["transactionCount"], json!(count));
        assert_eq!(details["block"]["hash"], plain["hash"]);
        assert!(details["block"].get("transactions").is_none());
        let fee =
            |receipt: &Value| number(&receipt["gasUsed"]) * number(&receipt["effectiveGasPrice"]);
        let fees: u64 = receipts.as_array().unwrap().iter().map(fee).sum();
        assert_eq!(number(&details["totalFees"]), fees);
        let mut hashes = Vec::new();
        for page in 0..=count.div_ceil(PAGE) {
            let page = node.call("ots_getBlockTransactions", json!([block, page, PAGE])).await;
            let txs = page["fullblock"]["transactions"].as_array().unwrap();
            assert!(txs.iter().all(|tx| text(&tx["input"]).len() <= 10), "{page}");
            let logs =
                |receipt: &Value| receipt["logs"].is_null() && receipt["logsBloom"].is_null();
            assert!(page["receipts"].as_array().unwrap().iter().all(logs), "{page}");
            let of_page: Vec<_> = txs.iter().map(|tx| tx["hash"].clone()).collect();
            hashes = [of_page, hashes].concat();
        }
        let all: Vec<_> = plain["transactions"].as_array().unwrap().iter().collect();
        assert_eq!(
            hashes.iter().collect::<Vec<_>>(),
            all.iter().map(|tx| &tx["hash"]).collect::<Vec<_>>()
        );
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_items_are_null_and_invalid_page_sizes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let node = serve(folder, home).await;
    let (unused, no_hash) = (Address::repeat_byte(0x77), B256::repeat_byte(7));
    let page = node.call("ots_searchTransactionsBefore", json!([unused, 0, 25])).await;
    assert_eq!(page, json!({ "txs": [], "receipts": [], "firstPage": true, "lastPage": true }));
    for method in ["ots_traceTransaction", "ots_getInternalOperations", "ots_getTransactionError"] {
        assert!(node.call(method, json!([no_hash])).await.is_null(), "{method}");
    }
    assert!(node.call("ots_getBlockDetails", json!([1u64 << 40])).await.is_null());
    assert!(node.call("ots_getBlockTransactions", json!([1u64 << 40, 0, 25])).await.is_null());
    assert!(node.call("ots_getContractCreator", json!([unused])).await.is_null());
    assert!(node.call("ots_getTransactionBySenderAndNonce", json!([unused, 0])).await.is_null());
    for size in [0, 1_001] {
        let (code, message) =
            node.fail("ots_searchTransactionsAfter", json!([unused, 0, size])).await;
        let wanted = format!("page size {size} is not within 1 to 1000");
        assert_eq!((code, message), (-32602, wanted));
    }
    assert_eq!(node.call("ots_getApiLevel", json!([])).await, 8);
    let header = node.call("erigon_getHeaderByNumber", json!([0])).await;
    assert_eq!(header, node.call("eth_getHeaderByNumber", json!(["0x0"])).await);
    node.stop().await;
}
