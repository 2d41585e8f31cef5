//! A Cosmos transaction that was accepted with code 0 stays in the pool, regardless of later transactions with
//! the same sequence.

use super::served::{FORKING, Served, evmd};
use crate::common::{
    CHAIN_ID, native_home, producing, sign,
    signed::{address_of, send, signed, signed_at},
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, Bytes, TxKind, hex};
use chain::DEV_ACCOUNTS;
use serde_json::json;

/// A price in wei above every base fee of these tests.
const PRICE: u64 = 100_000_000_000;

/// Starts a node that does not produce blocks, so that all transactions stay in its pool.
async fn waiting() -> Served {
    let folder = tempfile::tempdir().unwrap();
    let opening = FORKING.lock().await;
    let home = native_home(folder.path());
    let served = Served::on(folder, home, producing(None)).await;
    drop(opening);
    served
}

/// Returns an Ethereum transaction at ten times the price of the Cosmos transactions.
fn expensive(from: usize, nonce: u64) -> Bytes {
    sign(
        from,
        TxEip1559 {
            chain_id: CHAIN_ID,
            nonce,
            gas_limit: 21_000,
            max_fee_per_gas: u128::from(PRICE) * 10,
            max_priority_fee_per_gas: u128::from(PRICE) * 10,
            to: TxKind::Call(Address::repeat_byte(0x77)),
            ..TxEip1559::default()
        },
    )
}

/// Returns a payment by account `from` at `times` times [`PRICE`].
fn payment(from: usize, sequence: u64, times: u64, amount: u64) -> Vec<u8> {
    signed_at(PRICE * times, true, from, sequence, vec![send(from, &address_of(9), amount)])
}

async fn pooled(served: &Served) -> serde_json::Value {
    served.node.call("txpool_status", json!([])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn higher_price_does_not_replace_a_cosmos_transaction() {
    let served = waiting().await;
    let mismatch = |expected: u64, got: u64| {
        let text = format!("account sequence mismatch, expected {expected}, got {got}");
        (32, format!("{text}: incorrect account sequence"))
    };
    assert_eq!(served.broadcast(&payment(0, 0, 1, 100)).await.0, 0);
    for times in [1, 2, 100] {
        assert_eq!(served.broadcast(&payment(0, 0, times, 200)).await, mismatch(1, 0));
    }
    // The same applies behind a nonce gap: the expected sequence is the one that closes the gap.
    assert_eq!(served.broadcast(&payment(0, 3, 1, 100)).await.0, 0);
    assert_eq!(served.broadcast(&payment(0, 3, 2, 200)).await, mismatch(1, 3));
    // The expected sequence is accepted.
    assert_eq!(served.broadcast(&payment(0, 1, 1, 200)).await.0, 0);
    assert_eq!(served.broadcast(&payment(0, 0, 2, 300)).await, mismatch(2, 0));
    // An Ethereum transaction does not replace a Cosmos transaction, and vice versa.
    let raw = hex::encode_prefixed(expensive(0, 0));
    let (code, text) = served.node.fail("eth_sendRawTransaction", json!([raw])).await;
    assert_eq!(code, -32000);
    assert!(text.starts_with("nonce too low: a pooled Cosmos transaction"), "{text}");
    let raw = hex::encode_prefixed(expensive(1, 0));
    served.node.call("eth_sendRawTransaction", json!([raw])).await;
    assert_eq!(served.broadcast(&payment(1, 0, 100, 1)).await, mismatch(1, 0));
    // The same transaction is already known, and all transactions are still in the pool.
    assert_eq!(served.broadcast(&payment(0, 0, 1, 100)).await.0, 19);
    assert_eq!(pooled(&served).await, json!({ "pending": "0x3", "queued": "0x1" }));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn higher_price_replaces_an_ethereum_transaction() {
    let served = waiting().await;
    for price in [1, 2] {
        let tx = TxEip1559 {
            chain_id: CHAIN_ID,
            gas_limit: 21_000,
            max_fee_per_gas: u128::from(PRICE) * price,
            max_priority_fee_per_gas: u128::from(PRICE) * price,
            to: TxKind::Call(Address::repeat_byte(0x77)),
            ..TxEip1559::default()
        };
        let raw = hex::encode_prefixed(sign(0, tx));
        served.node.call("eth_sendRawTransaction", json!([raw])).await;
    }
    assert_eq!(pooled(&served).await["pending"], "0x1");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_use_the_sequence_after_pending_transactions() {
    let served = waiting().await;
    let home = tempfile::tempdir().unwrap();
    let key = hex::encode(DEV_ACCOUNTS[0].private_key);
    evmd(home.path(), format!("keys unsafe-import-eth-key alice {key}")).await;
    let (bob, node) = (address_of(9), format!("http://{}", served.node.rest));
    for command in ["bank send", "bank send", "evm send", "bank send"] {
        let args = format!("tx {command} alice {bob} 7atest -y --node {node}");
        evmd(home.path(), args).await;
    }
    assert_eq!(pooled(&served).await, json!({ "pending": "0x4", "queued": "0x0" }));
    let path = |address: &str| format!("/evmd/mempool/v1/pending_sequence/{address}");
    let alice = served.get(&path(&address_of(0))).await;
    assert_eq!(alice, json!({ "sequence": "4" }));
    // Transactions behind a gap do not count, and the committed sequence is unchanged.
    assert_eq!(served.broadcast(&signed(0, 6, vec![send(0, &bob, 1)])).await.0, 0);
    assert_eq!(served.get(&path(&address_of(0))).await, alice);
    let account = format!("/cosmos/auth/v1beta1/account_info/{}", address_of(0));
    assert_eq!(served.get(&account).await["info"]["sequence"], "0");
    assert_eq!(served.get(&path(&bob)).await, json!({ "sequence": "0" }));
    assert_eq!(served.ask(&path("cosmos1x")).await.0, 400);
    served.stop().await;
}
