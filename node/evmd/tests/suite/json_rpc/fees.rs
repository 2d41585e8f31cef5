//! Compares `eth_feeHistory` with the blocks and receipts of random chains, for random ranges and percentiles, and
//! checks that ranges and percentiles are limited as in geth.

use super::native::naive_rewards;
use crate::{
    client::{Node, config},
    common::{CHAIN_ID, FEE_CAP, sign},
};
use alloy_consensus::{TxEip1559, TxEip2930, TxEip7702, TxLegacy};
use alloy_eips::eip7702::Authorization;
use alloy_primitives::{Address, Bytes, Signature, TxKind, U256};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Value, json};

/// Senders of the chain's transactions.
const SENDERS: usize = 6;
/// Number of bursts of transactions. The node produces empty blocks between them.
const ROUNDS: u64 = 30;
/// Number of requests on each chain.
const REQUESTS: usize = 200;

/// The branch that [`raw`] takes, the priority fee in units of 0.1 gwei, and the length of the input in bytes.
type TxShape = (u8, u64, usize);

fn raw(from: usize, nonce: u64, (kind, step, length): TxShape) -> Bytes {
    let (chain_id, gas_limit) = (CHAIN_ID, 120_000);
    let (to, input) = (Address::repeat_byte(0x77), Bytes::from(vec![1; length]));
    let priority_fee = u128::from(step) * 100_000_000;
    let gas_price = FEE_CAP + priority_fee;
    match kind {
        0 => sign(
            from,
            TxLegacy {
                chain_id: Some(chain_id),
                nonce,
                gas_price,
                gas_limit,
                to: TxKind::Call(to),
                input,
                ..TxLegacy::default()
            },
        ),
        1 => sign(
            from,
            TxEip2930 {
                chain_id,
                nonce,
                gas_price,
                gas_limit,
                to: TxKind::Call(to),
                input,
                ..TxEip2930::default()
            },
        ),
        2 => {
            // The authorization is skipped because its signature is invalid. The transaction is still valid.
            let invalid_signature = Signature::new(U256::ONE, U256::ONE, false);
            let authorization =
                Authorization { chain_id: U256::from(chain_id), address: to, nonce: 0 };
            sign(
                from,
                TxEip7702 {
                    chain_id,
                    nonce,
                    gas_limit,
                    max_fee_per_gas: FEE_CAP,
                    max_priority_fee_per_gas: priority_fee,
                    to,
                    input,
                    authorization_list: vec![authorization.into_signed(invalid_signature)],
                    ..TxEip7702::default()
                },
            )
        }
        _ => sign(
            from,
            TxEip1559 {
                chain_id,
                nonce,
                gas_limit,
                max_fee_per_gas: FEE_CAP,
                max_priority_fee_per_gas: priority_fee,
                to: TxKind::Call(to),
                input,
                ..TxEip1559::default()
            },
        ),
    }
}

/// Returns a source of random values that are the same in every run.
pub(crate) fn runner(seed: u8) -> TestRunner {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    TestRunner::new_with_rng(Config::default(), rng)
}

fn pick<T>(runner: &mut TestRunner, strategy: impl Strategy<Value = T>) -> T {
    strategy.new_tree(runner).unwrap().current()
}

fn percentiles() -> impl Strategy<Value = Vec<f64>> {
    let percentile = prop_oneof![0.0..=100.0f64, (0..=100u8).prop_map(f64::from)];
    prop::collection::vec(percentile, 0..9).prop_map(|mut list| {
        list.sort_unstable_by(f64::total_cmp);
        list.dedup();
        list
    })
}

/// Sends random transactions; returns the number of the last block that contains one.
pub(crate) async fn grow(node: &Node, runner: &mut TestRunner) -> u64 {
    let mut nonces = [0; SENDERS];
    let mut newest = Value::Null;
    for _ in 0..ROUNDS {
        let sent = (0..4u8, 0..4u64, prop_oneof![Just(0usize), 0..900usize]);
        let burst = prop::collection::vec((0..SENDERS, sent), 1..14);
        let mut last = Value::Null;
        for (from, sent) in pick(runner, burst) {
            let raw = raw(from, nonces[from], sent);
            last = node.call("eth_sendRawTransaction", json!([raw])).await;
            nonces[from] += 1;
        }
        newest = node.wait_for("eth_getTransactionReceipt", json!([last])).await;
    }
    number(&newest["blockNumber"])
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_str().unwrap().parse::<U256>().unwrap().to()
}

#[tokio::test(flavor = "multi_thread")]
async fn fee_history_equals_blocks_and_receipts() {
    for seed in 0..2 {
        let (node, mut runner) = (Node::native().await, runner(seed));
        let newest = grow(&node, &mut runner).await;
        let (mut blocks, mut kinds, mut empty) = (Vec::new(), [0; 5], 0);
        for number in 0..=newest + 1 {
            let tag = json!([format!("{number:#x}"), false]);
            let block = node.wait_for("eth_getBlockByNumber", tag).await;
            let receipts = node.call("eth_getBlockReceipts", json!([block["number"]])).await;
            for receipt in receipts.as_array().unwrap() {
                kinds[usize::try_from(self::number(&receipt["type"])).unwrap()] += 1;
            }
            empty += usize::from(receipts.as_array().unwrap().is_empty());
            blocks.push((block, receipts));
        }
        assert!(kinds[0] > 5 && kinds[1] > 5 && kinds[2] > 5 && kinds[4] > 5, "{kinds:?}");
        assert!(empty > 1, "too few empty blocks");
        for _ in 0..REQUESTS {
            let last = pick(&mut runner, 0..=newest);
            let count = pick(&mut runner, prop_oneof![1..=newest + 9, 1..4u64]);
            let list = pick(&mut runner, percentiles());
            let params = json!([count, format!("{last:#x}"), list]);
            let history = node.call("eth_feeHistory", params.clone()).await;
            let cap = config().json_rpc.feehistory_cap;
            let first = (last + 1).saturating_sub(count.min(cap));
            assert_eq!(number(&history["oldestBlock"]), first, "{params}");
            let range = &blocks[first as usize..=last as usize];
            let column = |name: &str| history[name].as_array().unwrap().clone();
            let mut fees: Vec<_> = range.iter().map(|(block, _)| &block["baseFeePerGas"]).collect();
            fees.push(&blocks[last as usize + 1].0["baseFeePerGas"]);
            assert_eq!(json!(column("baseFeePerGas")), json!(fees), "{params}");
            for (index, (block, receipts)) in range.iter().enumerate() {
                let ratio = number(&block["gasUsed"]) as f64 / number(&block["gasLimit"]) as f64;
                assert_eq!(column("gasUsedRatio")[index].as_f64(), Some(ratio), "{params}");
                if list.is_empty() {
                    assert!(history.get("reward").is_none());
                    continue;
                }
                let rewards = column("reward")[index].as_array().unwrap().clone();
                let rewards: Vec<U256> =
                    rewards.iter().map(|value| value.as_str().unwrap().parse().unwrap()).collect();
                assert_eq!(rewards, naive_rewards(block, receipts, &list), "{params} at {index}");
            }
        }
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_and_percentiles_follow_geths_rules() {
    let node = Node::native_with(|config| config.json_rpc.feehistory_cap = 5).await;
    node.wait_for("eth_getBlockByNumber", json!(["0x9", false])).await;
    let many: Vec<_> = (0..101).map(|step| f64::from(step) / 2.0).collect();
    let beyond = u64::MAX >> 1;
    for (params, code, text) in [
        (json!([]), -32602, "missing value for required argument 0"),
        (json!([1]), -32602, "missing value for required argument 1"),
        (json!([-1, "latest"]), -32602, "invalid argument 0"),
        (json!([1.5, "latest"]), -32602, "invalid argument 0"),
        (json!(["0x10000000000000000", "latest", [50]]), -32602, "invalid argument 0"),
        (json!(["ten", "latest"]), -32602, "invalid argument 0"),
        (json!([1, "newest"]), -32602, "invalid argument 1"),
        (json!([1, 7]), -32602, "invalid argument 1"),
        (json!([1, "latest", 50]), -32602, "invalid argument 2"),
        (json!([1, "latest", ["a"]]), -32602, "invalid argument 2"),
        (json!([1, "latest", [], 1]), -32602, "too many arguments"),
        (json!([1, format!("{beyond:#x}")]), -32000, "request beyond head block"),
        (json!([1, "latest", [50, 49.9]]), -32000, "invalid reward percentile: #0:50.0"),
        (json!([1, "latest", [50, 50]]), -32000, "invalid reward percentile: #0:50.0"),
        (json!([1, "latest", [-0.1]]), -32000, "invalid reward percentile: -0.1"),
        (json!([1, "latest", [100.1]]), -32000, "invalid reward percentile: 100.1"),
        (json!([1, "latest", many]), -32000, "invalid reward percentile: over the query limit 100"),
    ] {
        let (found, message) = node.fail("eth_feeHistory", params.clone()).await;
        assert_eq!(found, code, "{params}: {message}");
        assert!(message.starts_with(text), "{params}: {message}");
    }
    let none = node.call("eth_feeHistory", json!([0, "latest", [200]])).await;
    assert_eq!(none, json!({ "oldestBlock": "0x0", "baseFeePerGas": [], "gasUsedRatio": [] }));
    for (params, oldest, blocks) in [
        (json!(["0x3", "0x7", [0, 100]]), "0x5", 3),
        (json!(["3", "0x7"]), "0x5", 3),
        (json!([3, "0x1", null]), "0x0", 2),
        (json!([1, "earliest", []]), "0x0", 1),
        // The count is reduced to the cap, which is 1,024 in geth.
        (json!(["0xffffffffffffffff", "0x9", [50]]), "0x5", 5),
    ] {
        let history = node.call("eth_feeHistory", params.clone()).await;
        assert_eq!(history["oldestBlock"], oldest, "{params}");
        assert_eq!(history["gasUsedRatio"].as_array().unwrap().len(), blocks, "{params}");
        assert_eq!(history["baseFeePerGas"].as_array().unwrap().len(), blocks + 1, "{params}");
    }
    for tag in ["pending", "safe", "finalized"] {
        let history = node.call("eth_feeHistory", json!([1, tag, [1]])).await;
        assert_eq!(history["reward"].as_array().unwrap().len(), 1, "{tag}");
    }
    node.stop().await;
}
