//! Tests the pending block: transactions that are not in a block yet, as clients see them.

use crate::{
    client::{MAX_WAIT, Node},
    common::{
        CHAIN_ID, FEE_CAP, exported_chain, importing, native_home, producing, sign, signed,
        transfer, unsigned,
    },
    json_rpc::CONTRACT,
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, Bytes, TxKind, U256, keccak256};
use chain::{DEV_ACCOUNTS, Genesis};
use home::Home;
use pipeline::BlockPart;
use serde_json::{Value, json};
use std::time::Duration;
use transactions::cosmos::TX_TYPE;

const RECEIVER: Address = Address::repeat_byte(0x77);
const PENDING: &str = "pending";

/// Starts a node that accepts transactions but does not produce blocks.
async fn pooling_node() -> Node {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    Node::start(folder, home, producing(None)).await
}

/// Repeats a call until it has this result. A pending block is cached for a short time, so newer transactions appear
/// only in the next pending block.
async fn wait_for_result(node: &Node, method: &str, params: Value, expected: &Value) {
    let polling = async {
        loop {
            let result = node.call(method, params.clone()).await;
            if result == *expected {
                return;
            }
        }
    };
    let what = format!("{method} {params} becomes {expected}");
    tokio::time::timeout(MAX_WAIT, polling).await.expect(&what);
}

async fn submit(node: &Node, raw: &Bytes) -> Value {
    node.call("eth_sendRawTransaction", json!([raw])).await
}

fn quantity(value: &Value) -> U256 {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a quantity")).parse().unwrap()
}

/// Returns a transaction of development account `from` with this priority fee.
fn priced(from: usize, nonce: u64, priority_fee: u128, to: TxKind, input: &[u8]) -> Bytes {
    let max_priority_fee_per_gas = priority_fee;
    sign(from, TxEip1559 { max_priority_fee_per_gas, ..unsigned(nonce, to, input.to_vec()) })
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_state_includes_pooled_transactions() {
    let node = pooling_node().await;
    let sender = DEV_ACCOUNTS[0].address;
    let contract = sender.create(1);
    submit(&node, &transfer(0, 0, RECEIVER)).await;
    submit(&node, &priced(0, 1, 1_000_000_000, TxKind::Create, &CONTRACT)).await;
    // This call needs the contract, which is not yet in a block.
    submit(&node, &priced(1, 0, 1_000, TxKind::Call(contract), &[])).await;
    let slot = json!(format!("0x{:064x}", 1));
    wait_for_result(&node, "eth_getStorageAt", json!([contract, "0x0", PENDING]), &slot).await;
    for (method, params, latest, pending) in [
        ("eth_getBalance", vec![json!(RECEIVER)], json!("0x0"), json!("0x1")),
        ("eth_getTransactionCount", vec![json!(sender)], json!("0x0"), json!("0x2")),
        (
            "eth_getCode",
            vec![json!(contract)],
            json!("0x"),
            json!(Bytes::from(CONTRACT[9..].to_vec())),
        ),
        (
            "eth_getStorageValues",
            vec![json!({ contract.to_string(): [format!("0x{:064x}", 0)] })],
            json!({ format!("{contract:#x}"): [format!("0x{:064x}", 0)] }),
            json!({ format!("{contract:#x}"): [slot] }),
        ),
    ] {
        for (tag, expected) in [("latest", latest), (PENDING, pending.clone())] {
            let with_tag: Vec<_> = params.iter().cloned().chain([json!(tag)]).collect();
            assert_eq!(node.call(method, json!(with_tag)).await, expected, "{method} {tag}");
        }
        let object: Vec<_> =
            params.into_iter().chain([json!({ "blockNumber": PENDING })]).collect();
        assert_eq!(node.call(method, json!(object)).await, pending, "{method}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_and_estimates_run_on_the_pending_block() {
    let node = pooling_node().await;
    let sender = DEV_ACCOUNTS[0].address;
    let contract = sender.create(0);
    submit(&node, &priced(0, 0, 1_000_000_000, TxKind::Create, &CONTRACT)).await;
    let code = json!(Bytes::from(CONTRACT[9..].to_vec()));
    wait_for_result(&node, "eth_getCode", json!([contract, PENDING]), &code).await;
    let call = json!({ "from": sender, "to": contract });
    assert_eq!(node.call("eth_estimateGas", json!([call, "latest"])).await, "0x5208");
    let estimate = quantity(&node.call("eth_estimateGas", json!([call, PENDING])).await);
    assert!(estimate > U256::from(40_000), "it stores a word: {estimate}");
    let reverting = json!({ "from": sender, "to": contract, "input": "0x01" });
    assert_eq!(node.call("eth_call", json!([reverting, "latest"])).await, "0x");
    let (code, _) = node.fail("eth_call", json!([reverting, PENDING])).await;
    assert_eq!(code, 3, "the contract exists and reverts");
    let list = node.call("eth_createAccessList", json!([call, PENDING])).await;
    assert_eq!(list["accessList"].as_array().unwrap().len(), 1, "{list}");
    let bundle = json!([[{ "transactions": [reverting] }], { "blockNumber": PENDING }]);
    let responses = node.call("eth_callMany", bundle).await;
    assert!(responses[0][0]["error"].is_string(), "{responses}");
    let blocks = json!([{ "blockStateCalls": [{ "calls": [reverting] }] }, PENDING]);
    let blocks = node.call("eth_simulateV1", blocks).await;
    assert_eq!(blocks[0]["calls"][0]["error"]["code"], 3, "{blocks}");
    assert_eq!(blocks[0]["number"], "0x2", "it follows the pending block");

    // The opcode NUMBER, and BLOCKHASH of the newest block.
    let head = node.call("eth_getBlockByNumber", json!(["latest", false])).await;
    let returning = |code: &str| json!({ RECEIVER.to_string(): { "code": code } });
    let number = node
        .call("eth_call", json!([{ "to": RECEIVER }, PENDING, returning("0x4360005260206000f3")]))
        .await;
    assert_eq!(quantity(&number), U256::from(1));
    let hash = node
        .call("eth_call", json!([{ "to": RECEIVER }, PENDING, returning("0x6000405f5260205ff3")]))
        .await;
    assert_eq!(hash, head["hash"]);
    node.stop().await;
}

/// Waits for a pending block with this number of transactions.
async fn block_with(node: &Node, count: usize) -> Value {
    let count = json!(format!("{count:#x}"));
    wait_for_result(node, "eth_getBlockTransactionCountByNumber", json!([PENDING]), &count).await;
    node.call("eth_getBlockByNumber", json!([PENDING, true])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn next_block_has_the_content_of_the_pending_block() {
    let node = pooling_node().await;
    let contract = DEV_ACCOUNTS[0].address.create(0);
    let txs = [
        priced(0, 0, 1_000_000_000, TxKind::Create, &CONTRACT),
        transfer(1, 0, RECEIVER),
        // This call reverts but is still in the block.
        priced(1, 1, 5_000_000_000, TxKind::Call(contract), &[1]),
        priced(2, 0, 9_000_000_000, TxKind::Call(contract), &[]),
        priced(3, 0, 3_000_000_000, TxKind::Call(RECEIVER), &[]),
    ];
    for raw in &txs {
        submit(&node, raw).await;
    }
    // A Cosmos transaction is between the others.
    let sent = signed::signed(4, 0, vec![signed::send(4, &signed::address_of(5), 7)]);
    let client = node.pipeline.client();
    client.submit([&[TX_TYPE], &sent[..]].concat().into()).await.unwrap();
    // A transaction behind a nonce gap is not in the pending block.
    submit(&node, &transfer(6, 1, RECEIVER)).await;
    let pending = block_with(&node, txs.len() + 1).await;
    let receipts = node.call("eth_getBlockReceipts", json!([PENDING])).await;
    let history = node.call("eth_feeHistory", json!([2, PENDING, [0, 50, 100]])).await;

    for field in ["hash", "nonce", "miner"] {
        assert_eq!(pending[field], Value::Null, "{field}");
    }
    let head = node.call("eth_getBlockByNumber", json!(["latest", false])).await;
    assert_eq!(pending["parentHash"], head["hash"]);
    assert_eq!(pending["number"], "0x1");
    for (index, tx) in pending["transactions"].as_array().unwrap().iter().enumerate() {
        let position = json!([PENDING, format!("{index:#x}")]);
        let found = node.call("eth_getTransactionByBlockNumberAndIndex", position.clone()).await;
        assert_eq!((&found["hash"], &found["transactionIndex"]), (&tx["hash"], &position[1]));
        let raw = node.call("eth_getRawTransactionByBlockNumberAndIndex", position).await;
        if tx["type"] == "0x2" {
            let raw: Bytes = serde_json::from_value(raw).unwrap();
            assert_eq!(json!(keccak256(raw)), tx["hash"]);
        }
    }
    let beyond = json!([PENDING, "0x6"]);
    let beyond = node.call("eth_getTransactionByBlockNumberAndIndex", beyond).await;
    assert_eq!(beyond, Value::Null);
    let header = node.call("eth_getHeaderByNumber", json!([PENDING])).await;
    assert_eq!((&header["hash"], &header["number"]), (&Value::Null, &json!("0x1")));
    assert_eq!(node.call("eth_getUncleCountByBlockNumber", json!([PENDING])).await, "0x0");

    // The journal restores the pool, and the node now produces blocks.
    let folder = node.stop().await;
    let mut home = crate::common::reopened(folder.path());
    home.config.mempool.accept_without_production = true;
    let node = Node::start(folder, home, producing(Some(Duration::from_millis(50)))).await;
    let hash = pending["transactions"][0]["hash"].clone();
    let receipt = node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    let number = receipt["blockNumber"].clone();
    let produced = node.call("eth_getBlockByNumber", json!([number, true])).await;
    let order = |block: &Value| {
        let txs = block["transactions"].as_array().unwrap().iter();
        txs.map(|tx| tx["hash"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(order(&produced), order(&pending));
    let produced_receipts = node.call("eth_getBlockReceipts", json!([number])).await;
    let facts = |receipts: &Value| {
        let all = receipts.as_array().unwrap().iter();
        let fields =
            ["transactionHash", "status", "gasUsed", "cumulativeGasUsed", "contractAddress"];
        all.map(|receipt| fields.map(|field| receipt[field].clone())).collect::<Vec<_>>()
    };
    assert_eq!(facts(&produced_receipts), facts(&receipts));
    assert_eq!(
        receipts.as_array().unwrap().iter().filter(|receipt| receipt["status"] == "0x0").count(),
        1
    );
    for field in ["gasLimit", "gasUsed"] {
        assert_eq!(produced[field], pending[field], "{field}");
    }
    // The block has the same number, unless another one was produced before the pool was restored.
    if produced["number"] == pending["number"] {
        for field in ["baseFeePerGas", "logsBloom", "transactionsRoot", "receiptsRoot", "mixHash"] {
            assert_eq!(produced[field], pending[field], "{field}");
        }
        let produced = node.call("eth_feeHistory", json!([2, "0x1", [0, 50, 100]])).await;
        assert_eq!(history, produced);
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unpayable_transaction_is_not_in_the_pending_block() {
    let node = pooling_node().await;
    let balance =
        quantity(&node.call("eth_getBalance", json!([DEV_ACCOUNTS[0].address, "latest"])).await);
    let all_of = |nonce, value| {
        sign(
            0,
            TxEip1559 {
                chain_id: CHAIN_ID,
                nonce,
                gas_limit: 21_000,
                max_fee_per_gas: FEE_CAP,
                max_priority_fee_per_gas: 1_000_000_000,
                to: TxKind::Call(RECEIVER),
                value,
                ..TxEip1559::default()
            },
        )
    };
    // The account can pay for each of the two transactions, but not for both.
    let value = balance - U256::from(3_000_000) * U256::from(FEE_CAP);
    submit(&node, &all_of(0, value)).await;
    let second = node.response("eth_sendRawTransaction", json!([all_of(1, value)])).await;
    submit(&node, &transfer(1, 0, RECEIVER)).await;
    let block = block_with(&node, 2).await;
    assert_eq!(block["transactions"].as_array().unwrap().len(), 2, "{second}");
    let expected = json!(format!("{:#x}", value + U256::from(1)));
    assert_eq!(node.call("eth_getBalance", json!([RECEIVER, PENDING])).await, expected);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_are_limited_by_number_and_gas() {
    let node = pooling_node().await;
    for nonce in 0..5 {
        submit(&node, &transfer(0, nonce, RECEIVER)).await;
    }
    let client = node.pipeline.client();
    for (txs, expected) in [(0, 0), (4, 4), (5, 5), (6, 5)] {
        let part = BlockPart { gas: u64::MAX, txs };
        let candidates = client.candidates(part).await.unwrap().unwrap();
        assert_eq!((candidates.after, candidates.txs.len()), (0, expected), "{txs}");
    }
    for (gas, expected) in [(20_999, 0), (21_000, 1), (41_999, 1), (42_000, 2), (63_000, 3)] {
        let part = BlockPart { gas, txs: usize::MAX };
        let candidates = client.candidates(part).await.unwrap().unwrap();
        assert_eq!(candidates.txs.len(), expected, "{gas}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_see_the_same_pending_block() {
    let node = pooling_node().await;
    submit(&node, &transfer(0, 0, RECEIVER)).await;
    block_with(&node, 1).await;
    let calls = (0..100).map(|_| node.call("eth_getBalance", json!([RECEIVER, PENDING])));
    let balances = futures_util::future::join_all(calls).await;
    assert!(balances.iter().all(|balance| balance == "0x1"));
    let mut batch = Vec::new();
    for id in 0..50 {
        let params = json!([RECEIVER, if id % 2 == 0 { PENDING } else { "latest" }]);
        batch.push(
            json!({ "jsonrpc": "2.0", "id": id, "method": "eth_getBalance", "params": params }),
        );
    }
    let responses = node.post(&Value::from(batch).to_string()).await;
    for (id, response) in responses.as_array().unwrap().iter().enumerate() {
        let expected = if id % 2 == 0 { "0x1" } else { "0x0" };
        assert_eq!(response["result"], expected, "{response}: `latest` is the head");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_block_follows_the_head() {
    let node = Node::native().await;
    for nonce in 0..20 {
        let hash = submit(&node, &transfer(0, nonce, RECEIVER)).await;
        node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
        let latest = quantity(&node.call("eth_blockNumber", json!([])).await);
        let pending = node.call("eth_getBlockByNumber", json!([PENDING, false])).await;
        assert!(quantity(&pending["number"]) > latest, "{latest}: {pending}");
        let balance = quantity(&node.call("eth_getBalance", json!([RECEIVER, PENDING])).await);
        assert_eq!(balance, U256::from(nonce + 1));
        let parent = quantity(&pending["number"]) - U256::from(1);
        let parent = node.call("eth_getBlockByNumber", json!([parent, false])).await;
        assert_eq!(parent["hash"], pending["parentHash"]);
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_without_block_production_has_an_empty_pending_block() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chain.rlp");
    tokio::task::block_in_place(|| exported_chain(&file, 30));
    let imported = tempfile::tempdir().unwrap();
    let home = Home::init(imported.path(), &Genesis::native_dev(crate::common::GENESIS_TIME));
    let node = Node::start(imported, home.unwrap(), importing(vec![file])).await;
    node.wait_for("eth_getBlockByNumber", json!(["0x1e", false])).await;
    let (head, history) = tokio::join!(
        node.call("eth_getBlockByNumber", json!(["0x1e", false])),
        node.call("eth_feeHistory", json!([1, "latest"])),
    );
    let pending = node.call("eth_getBlockByNumber", json!([PENDING, true])).await;
    assert!(quantity(&pending["number"]) > quantity(&head["number"]));
    assert_eq!(pending["transactions"], json!([]));
    assert_eq!(pending["gasUsed"], "0x0");
    assert_eq!(pending["baseFeePerGas"], history["baseFeePerGas"][1]);
    let block = json!([RECEIVER, PENDING]);
    assert_eq!(node.call("eth_getBalance", block).await, "0x0");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_that_refuses_transactions_has_an_empty_pending_block() {
    let node = pooling_node().await;
    submit(&node, &transfer(0, 0, RECEIVER)).await;
    block_with(&node, 1).await;
    let folder = node.stop().await;
    let mut home = crate::common::reopened(folder.path());
    home.config.mempool.accept_without_production = false;
    let node = Node::start(folder, home, producing(None)).await;
    let status = node.call("txpool_status", json!([])).await;
    assert_eq!(status["pending"], "0x1", "the pool keeps it");
    let pending = node.call("eth_getBlockByNumber", json!([PENDING, true])).await;
    assert_eq!((&pending["number"], &pending["transactions"]), (&json!("0x1"), &json!([])));
    assert_eq!(node.call("eth_getBalance", json!([RECEIVER, PENDING])).await, "0x0");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_block_has_no_hash_receipts_or_traces() {
    let node = Node::native_with(|config| {
        let more = ["debug", "trace", "ots", "evmd"].map(str::to_owned);
        config.json_rpc.api.extend(more);
    })
    .await;
    let refused = "this method does not support the pending block: use \"latest\"";
    for (method, params) in [
        ("eth_getProof", json!([RECEIVER, [], PENDING])),
        ("eth_getAccount", json!([RECEIVER, PENDING])),
        ("debug_getRawBlock", json!([PENDING])),
        ("debug_traceBlockByNumber", json!([PENDING])),
        ("debug_executionWitness", json!([PENDING])),
        ("trace_block", json!([PENDING])),
        ("trace_replayBlockTransactions", json!([PENDING, ["trace"]])),
        ("ots_getBlockDetails", json!([PENDING])),
        ("evmd_blockEvents", json!([PENDING])),
    ] {
        let (code, message) = node.fail(method, params).await;
        assert_eq!((code, message.as_str()), (-32000, refused), "{method}");
    }
    let (_, message) = node.fail("eth_getLogs", json!([{ "fromBlock": PENDING }])).await;
    assert_eq!(message, "pending logs are not supported");
    node.stop().await;
}
