//! Compares logs and proofs with blocks and receipts, and follows transactions from the pool into a block.

use crate::{
    client::Node,
    common::{CHAIN_ID, FEE_CAP, fixtures, import, native_home, producing, sign, transfer},
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U64, U256, keccak256};
use alloy_trie::{Nibbles, TrieAccount, proof::verify_proof};
use chain::{DEV_ACCOUNTS, Genesis};
use home::Home;
use serde_json::{Value, json};
use std::time::Duration;

/// Length of the chain for proofs. Its older blocks are in the index, and the others in the layers above the index.
const BLOCKS: u64 = 200;
/// Length of the chain for logs.
const LOG_BLOCKS: u64 = 3000;
/// Rounds of transactions, distributed over a chain.
const ROUNDS: u64 = 40;
/// Number of different topics, small enough that filters match logs.
const TOPICS: u64 = 3;

/// Pseudo-random numbers that are the same in every run (a linear congruential generator).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// Returns init code of a contract that stores the block number and emits a log whose topics are its input's words.
fn logger(topics: u8) -> Bytes {
    let mut code = vec![0x43, 0x60, 0x00, 0x55];
    for word in (0..topics).rev() {
        code.extend([0x60, 32 * word, 0x35]);
    }
    code.extend([0x60, 0x00, 0x60, 0x00, 0xa0 + topics, 0x00]);
    let init = [0x60, code.len() as u8, 0x80, 0x60, 0x09, 0x3d, 0x39, 0x3d, 0xf3];
    [&init[..], &code].concat().into()
}

async fn submit(node: &Node, from: usize, nonce: u64, to: TxKind, input: Bytes) -> Value {
    let raw = sign(
        from,
        TxEip1559 {
            chain_id: CHAIN_ID,
            nonce,
            gas_limit: 300_000,
            max_fee_per_gas: FEE_CAP,
            to,
            input,
            ..TxEip1559::default()
        },
    );
    node.call("eth_sendRawTransaction", json!([raw])).await
}

/// Starts a node with at least `length` blocks and random logs; returns it with the contracts and the head number.
async fn eventful(length: u64) -> (Node, Vec<Address>, u64) {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let block_time = Duration::from_millis(if length > BLOCKS { 1 } else { 5 });
    let node = Node::start(folder, home, producing(Some(block_time))).await;
    let head = async || {
        let head = node.call("eth_blockNumber", json!([])).await;
        quantity(&head).to::<u64>()
    };
    let mut contracts = Vec::new();
    let mut last = Value::Null;
    for topics in 0..4u8 {
        let from = usize::from(topics);
        last = submit(&node, from, 0, TxKind::Create, logger(topics)).await;
        contracts.push(DEV_ACCOUNTS[from].address.create(0));
    }
    node.wait_for("eth_getTransactionReceipt", json!([last])).await;
    let mut numbers = Numbers(1);
    for nonce in 1..ROUNDS {
        while head().await < nonce * length / ROUNDS {}
        for from in 0..4usize {
            let to = TxKind::Call(contracts[numbers.below(4) as usize]);
            let words = (0..4).flat_map(|_| B256::with_last_byte(numbers.below(TOPICS) as u8));
            last = submit(&node, from, nonce, to, words.collect()).await;
        }
        node.wait_for("eth_getTransactionReceipt", json!([last])).await;
    }
    loop {
        let head = head().await;
        if head >= length {
            return (node, contracts, head);
        }
    }
}

fn quantity(value: &Value) -> U256 {
    value.as_str().unwrap().parse().unwrap()
}

/// Reads every log of the chain up to `head` from the receipts of each block.
async fn all_logs(node: &Node, head: u64) -> Vec<Value> {
    let mut logs = Vec::new();
    for number in 0..=head {
        let receipts = node.call("eth_getBlockReceipts", json!([format!("{number:#x}")])).await;
        for receipt in receipts.as_array().unwrap() {
            logs.extend(receipt["logs"].as_array().unwrap().iter().cloned());
        }
    }
    logs
}

/// Returns whether a log matches a filter, as geth defines it.
fn matches(log: &Value, addresses: &[Value], topics: &[Vec<Value>]) -> bool {
    let found = log["topics"].as_array().unwrap();
    (addresses.is_empty() || addresses.contains(&log["address"]))
        && topics.len() <= found.len()
        && topics.iter().zip(found).all(|(any, found)| any.is_empty() || any.contains(found))
}

/// Compares `eth_getLogs` for random filters with a scan of all logs.
async fn compare(node: &Node, head: u64, rounds: u64) {
    let logs = all_logs(node, head).await;
    let mut numbers = Numbers(7);
    let pick = |numbers: &mut Numbers, field: &dyn Fn(&Value) -> Vec<Value>| {
        let count = numbers.below(3);
        let chosen = (0..count).filter_map(|_| {
            let log = &logs[numbers.below(logs.len() as u64) as usize];
            let values = field(log);
            let at = numbers.below(values.len().max(1) as u64) as usize;
            values.get(at).cloned()
        });
        chosen.collect::<Vec<Value>>()
    };
    let mut found_some = 0;
    for _ in 0..rounds {
        let (a, b) = (numbers.below(head + 1), numbers.below(head + 1));
        let (first, last) = (a.min(b), a.max(b));
        let addresses = pick(&mut numbers, &|log| vec![log["address"].clone()]);
        let positions = numbers.below(4);
        let topics: Vec<Vec<Value>> = (0..positions)
            .map(|_| pick(&mut numbers, &|log| log["topics"].as_array().unwrap().clone()))
            .collect();
        let filter = json!({
            "fromBlock": format!("{first:#x}"),
            "toBlock": format!("{last:#x}"),
            "address": addresses,
            "topics": topics,
        });
        let found = node.call("eth_getLogs", json!([filter])).await;
        let within =
            |log: &Value| (first..=last).contains(&quantity(&log["blockNumber"]).to::<u64>());
        let scanned = logs.iter().filter(|log| within(log) && matches(log, &addresses, &topics));
        let scanned: Vec<Value> = scanned.cloned().collect();
        found_some += u64::from(!scanned.is_empty());
        assert_eq!(found, Value::from(scanned), "{filter}");
    }
    assert!(found_some > rounds / 10, "too few filters matched a log");
}

#[tokio::test(flavor = "multi_thread")]
async fn log_index_equals_a_full_scan() {
    let (node, _, head) = eventful(LOG_BLOCKS).await;
    compare(&node, head, 300).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
async fn log_index_equals_a_full_scan_on_a_long_chain() {
    let chain = fixtures("chains/hive-sync-3000");
    let folder = tempfile::tempdir().unwrap();
    let genesis = std::fs::read_to_string(chain.join("genesis.json")).unwrap();
    let home = Home::init(folder.path(), &Genesis::from_json(&genesis).unwrap()).unwrap();
    import(&home, vec![chain.join("chain.rlp")]).unwrap();
    let node = Node::start(folder, home, producing(None)).await;
    let head = quantity(&node.call("eth_blockNumber", json!([])).await).to();
    compare(&node, head, 300).await;
    node.stop().await;
}

/// Checks the proofs of an account and of its slots against the state root of a block.
fn check_proof(proof: &Value, root: B256) {
    let address: Address = serde_json::from_value(proof["address"].clone()).unwrap();
    let nodes = |value: &Value| -> Vec<Bytes> { serde_json::from_value(value.clone()).unwrap() };
    let hash = |value: &Value| -> B256 { serde_json::from_value(value.clone()).unwrap() };
    let account = TrieAccount {
        nonce: quantity(&proof["nonce"]).to(),
        balance: quantity(&proof["balance"]),
        storage_root: hash(&proof["storageHash"]),
        code_hash: hash(&proof["codeHash"]),
    };
    let exists = account != TrieAccount::default();
    let expected = exists.then(|| alloy_rlp::encode(account));
    let key = Nibbles::unpack(keccak256(address));
    verify_proof(root, key, expected, &nodes(&proof["accountProof"])).unwrap();
    for slot in proof["storageProof"].as_array().unwrap() {
        let value = quantity(&slot["value"]);
        let expected = (!value.is_zero()).then(|| alloy_rlp::encode(value));
        let key = Nibbles::unpack(keccak256(B256::from(quantity(&slot["key"]))));
        let proof = nodes(&slot["proof"]);
        if account.storage_root == alloy_trie::EMPTY_ROOT_HASH {
            assert!(proof.is_empty() && expected.is_none());
        } else {
            verify_proof(account.storage_root, key, expected, &proof).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn proofs_are_valid_at_every_block() {
    let (node, contracts, head) = eventful(BLOCKS).await;
    for number in (0..=head).step_by(7).chain([head]) {
        let tag = format!("{number:#x}");
        let block = node.call("eth_getBlockByNumber", json!([tag, false])).await;
        let root: B256 = serde_json::from_value(block["stateRoot"].clone()).unwrap();
        for address in [contracts[1], DEV_ACCOUNTS[0].address, Address::repeat_byte(0x99)] {
            let proof = node.call("eth_getProof", json!([address, ["0x0", "0x1"], tag])).await;
            check_proof(&proof, root);
            let slot = node.call("eth_getStorageAt", json!([address, "0x0", tag])).await;
            assert_eq!(quantity(&slot), quantity(&proof["storageProof"][0]["value"]));
        }
    }
    node.stop().await;
}

/// A transaction leaves the pool when its block is executed, but the block is not published until it is durable.
#[tokio::test(flavor = "multi_thread")]
async fn transaction_is_always_in_the_pool_or_in_a_block() {
    const ROUNDS: u64 = 100;
    let node = Node::native().await;
    let from = json!(DEV_ACCOUNTS[3].address);
    for nonce in 0..ROUNDS {
        let raw = transfer(3, nonce, Address::ZERO);
        let hash = node.call("eth_sendRawTransaction", json!([raw])).await;
        loop {
            let next = node.call("eth_getTransactionCount", json!([from, "pending"])).await;
            assert_eq!(next, json!(U64::from(nonce + 1)));
            let tx = node.call("eth_getTransactionByHash", json!([hash])).await;
            assert_eq!(tx["hash"], hash);
            let bytes = node.call("eth_getRawTransactionByHash", json!([hash])).await;
            assert_eq!(bytes, raw.to_string());
            if !tx["blockNumber"].is_null() {
                break;
            }
        }
    }
    node.stop().await;
}

/// Each block has more logs than `logs_cap`. A request for a single block returns all its logs nevertheless, and
/// polling a filter misses none.
#[tokio::test(flavor = "multi_thread")]
async fn logs_above_the_cap_are_not_lost() {
    const CALLS: u64 = 5;
    let node = Node::native_with(|config| config.json_rpc.logs_cap = 8).await;
    // This code emits ten logs without data or topics.
    let code = [[0x5f, 0x5f, 0xa0].repeat(10), vec![0x00]].concat();
    let init = [0x60, code.len() as u8, 0x80, 0x60, 0x09, 0x3d, 0x39, 0x3d, 0xf3];
    let creation = submit(&node, 1, 0, TxKind::Create, [&init[..], &code].concat().into()).await;
    node.wait_for("eth_getTransactionReceipt", json!([creation])).await;
    let to = DEV_ACCOUNTS[1].address.create(0);
    let filter = node.call("eth_newFilter", json!([{ "address": to }])).await;
    let mut numbers = Vec::new();
    for nonce in 1..=CALLS {
        let hash = submit(&node, 1, nonce, TxKind::Call(to), Bytes::new()).await;
        let receipt = node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
        numbers.push(receipt["blockNumber"].clone());
        let by_hash = json!([{ "blockHash": receipt["blockHash"] }]);
        assert_eq!(node.call("eth_getLogs", by_hash).await.as_array().unwrap().len(), 10);
    }
    let (first, last) = (&numbers[0], &numbers[CALLS as usize - 1]);
    let range = json!([{ "fromBlock": first, "toBlock": last, "address": to }]);
    let response = node.response("eth_getLogs", range).await;
    assert_eq!(response["error"]["code"], -32005, "{response}");
    let suggested = &response["error"]["data"]["suggested"];
    assert_eq!(&suggested["fromBlock"], first);
    let suggested = node.call("eth_getLogs", json!([suggested])).await;
    assert_eq!(suggested.as_array().unwrap().len(), 10, "logs of a single block");
    let mut polled = Vec::new();
    while polled.len() < 10 * CALLS as usize {
        let new = node.call("eth_getFilterChanges", json!([filter])).await;
        assert!(!new.as_array().unwrap().is_empty(), "no logs after the first {}", polled.len());
        polled.extend(new.as_array().unwrap().iter().map(|log| log["blockNumber"].clone()));
    }
    assert_eq!(
        polled,
        numbers.iter().flat_map(|number| vec![number; 10]).cloned().collect::<Vec<_>>()
    );
    assert_eq!(node.call("eth_getFilterChanges", json!([filter])).await, json!([]));
    node.stop().await;
}
