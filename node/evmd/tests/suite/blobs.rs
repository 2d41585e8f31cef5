//! Tests blob transactions (EIP-4844) on an Ethereum chain: clients submit them with blobs, and blocks contain them
//! without blobs.

use crate::client::{Node, config};
use crate::common::{CHAIN_ID, FEE_CAP, export, frames::Frames, import, producing, sign};
use alloy_consensus::TxEip4844;
use alloy_eips::{
    eip4844::{BYTES_PER_BLOB, Blob, BlobTransactionSidecar, Bytes48},
    eip7594::{BlobTransactionSidecarEip7594, BlobTransactionSidecarVariant as Sidecar},
};
use alloy_primitives::{Address, Bytes, keccak256};
use alloy_rlp::Header;
use chain::{DEV_ACCOUNTS, Genesis};
use config::Config;
use home::Home;
use serde_json::{Value, json};
use std::{path::Path, time::Duration};

const RECIPIENT: Address = Address::repeat_byte(0x77);

/// Initializes an Ethereum chain in Cancun whose blocks have at most two blobs.
pub(crate) fn ethereum_home(folder: &Path) -> Home {
    let accounts = DEV_ACCOUNTS
        .iter()
        .map(|account| (account.address.to_string(), json!({ "balance": "0x3635c9adc5dea00000" })));
    let genesis = json!({
        "config": {
            "chainId": CHAIN_ID,
            "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
            "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0,
            "istanbulBlock": 0, "berlinBlock": 0, "londonBlock": 0,
            "terminalTotalDifficulty": 0, "shanghaiTime": 0, "cancunTime": 0,
            "blobSchedule": { "cancun": { "target": 1, "max": 2, "baseFeeUpdateFraction": 3338477 } }
        },
        "gasLimit": "0x1c9c380", "difficulty": "0x0", "timestamp": "0x6553f100",
        "baseFeePerGas": "0x3b9aca00", "alloc": Value::from_iter(accounts)
    });
    Home::init(folder, &Genesis::from_json(&genesis.to_string()).unwrap()).unwrap()
}

fn settings() -> Config {
    let mut config = config();
    config.json_rpc.api = ["eth", "txpool", "testing"].map(str::to_owned).into();
    config
}

async fn node(block_time: Option<Duration>) -> Node {
    let folder = tempfile::tempdir().unwrap();
    let mut home = ethereum_home(folder.path());
    home.config.mempool.accept_without_production = true;
    Node::start_with(folder, home, producing(block_time), settings()).await
}

/// Returns blobs with different contents. The first byte of each field element is 0 to keep it below the modulus.
fn blobs(count: u8) -> Vec<Blob> {
    let byte = |n: u8, at: usize| if at.is_multiple_of(32) { 0 } else { n ^ (at as u8) };
    let bytes = |n| (0..BYTES_PER_BLOB).map(|at| byte(n, at)).collect::<Vec<_>>();
    (0..count).map(|n| Blob::from_slice(&bytes(n))).collect()
}

/// Returns a sidecar with one proof per blob (EIP-4844).
pub(crate) fn whole(count: u8) -> Sidecar {
    let setup = c_kzg::ethereum_kzg_settings(0);
    BlobTransactionSidecar::try_from_blobs_with_settings(blobs(count), setup).unwrap().into()
}

/// Returns a sidecar with cell proofs (EIP-7594).
fn cells(count: u8) -> Sidecar {
    let setup = c_kzg::ethereum_kzg_settings(0);
    BlobTransactionSidecarEip7594::try_from_blobs_with_settings(blobs(count), setup).unwrap().into()
}

pub(crate) fn blob_tx(nonce: u64, sidecar: &Sidecar) -> TxEip4844 {
    TxEip4844 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: FEE_CAP,
        max_priority_fee_per_gas: 1_000_000_000,
        to: RECIPIENT,
        blob_versioned_hashes: sidecar.versioned_hashes().collect(),
        max_fee_per_blob_gas: 1_000_000_000,
        ..TxEip4844::default()
    }
}

/// Returns `0x03 || rlp([tx, ...sidecar])`.
pub(crate) fn wrapped(alone: &Bytes, sidecar: &Sidecar) -> Bytes {
    let payload = [&alone[1..], &sidecar.rlp_encoded_fields()].concat();
    let mut raw = vec![3];
    Header { list: true, payload_length: payload.len() }.encode(&mut raw);
    [raw, payload].concat().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn blob_transaction_with_its_sidecar_is_mined() {
    let node = node(Some(Duration::from_millis(5))).await;
    for (nonce, sidecar) in [(0_u64, whole(2)), (1, cells(1))] {
        let alone = sign(0, blob_tx(nonce, &sidecar));
        let hash = node.call("eth_sendRawTransaction", json!([wrapped(&alone, &sidecar)])).await;
        assert_eq!(hash, json!(keccak256(&alone)));
        let receipt = node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
        let blob_gas = json!(format!("{:#x}", sidecar.blobs().len() << 17));
        assert_eq!((&receipt["status"], &receipt["type"]), (&json!("0x1"), &json!("0x3")));
        assert_eq!(receipt["blobGasUsed"], blob_gas);
        let number = &receipt["blockNumber"];
        let block = node.call("eth_getBlockByNumber", json!([number, false])).await;
        assert_eq!((&block["blobGasUsed"], &block["transactions"]), (&blob_gas, &json!([hash])));
        let tx = node.call("eth_getTransactionByHash", json!([hash])).await;
        let hashes: Vec<_> = sidecar.versioned_hashes().collect();
        assert_eq!(tx["blobVersionedHashes"], json!(hashes));
        let raw = node.call("eth_getRawTransactionByHash", json!([hash])).await;
        assert_eq!(raw, json!(alone), "blocks contain no sidecar");
    }
    // One block has two blobs, which is twice the target, and another block has one.
    let fees = node.call("eth_feeHistory", json!(["0x400", "latest", []])).await;
    let ratios = fees["blobGasUsedRatio"].as_array().unwrap();
    let used = |ratio| ratios.iter().filter(|found| found.as_f64() == Some(ratio)).count();
    assert_eq!((used(1.0), used(0.5)), (1, 1), "{ratios:?}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blob_transaction_without_its_sidecar_is_refused() {
    let node = node(None).await;
    let sidecar = whole(1);
    let alone = sign(0, blob_tx(0, &sidecar));
    let send = |raw: Bytes| node.fail("eth_sendRawTransaction", json!([raw]));
    let error = |text: &str| (-32_000, text.to_owned());
    assert_eq!(send(alone.clone()).await, error("missing sidecar in blob transaction"));
    let Sidecar::Eip4844(valid) = &sidecar else { panic!("not EIP-4844") };
    let other = BlobTransactionSidecar { blobs: blobs(2).split_off(1), ..valid.clone() };
    let text = "KZG verification error: invalid blob proof: can't verify opening proof";
    assert_eq!(send(wrapped(&alone, &other.into())).await, error(text));
    let zero = BlobTransactionSidecar { commitments: vec![Bytes48::ZERO], ..valid.clone() };
    let (code, text) = send(wrapped(&alone, &zero.into())).await;
    assert!(code == -32_000 && text.starts_with("blob 0: computed hash 0x01"), "{text}");
    let three = whole(3);
    let raw = wrapped(&sign(0, blob_tx(0, &three)), &three);
    let text = "too many blobs in transaction: have 3, permitted 2";
    assert_eq!(send(raw).await, error(text));
    let none = Sidecar::default();
    let raw = wrapped(&sign(0, blob_tx(0, &none)), &none);
    assert_eq!(send(raw).await, error("blobless blob transaction"));
    // The ingest refuses blob transactions because its frames are too small for blobs.
    let mut frames = Frames::connect(node.pipeline.ingest_address.unwrap());
    frames.send([alone.as_ref()]).unwrap();
    assert_eq!(frames.response().unwrap(), Err("transaction type not supported".to_owned()));
    assert_eq!(node.call("txpool_status", json!([])).await["pending"], json!("0x0"));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn native_chain_refuses_blob_transactions() {
    let node = Node::native().await;
    let sidecar = whole(1);
    let alone = sign(0, blob_tx(0, &sidecar));
    for raw in [wrapped(&alone, &sidecar), alone] {
        let refused = node.fail("eth_sendRawTransaction", json!([raw])).await;
        assert_eq!(refused, (-32_000, "transaction type not supported".to_owned()));
    }
    node.stop().await;
}

/// After a restart, pooled blob transactions are mined in three blocks, and another node imports the blocks.
#[tokio::test(flavor = "multi_thread")]
async fn pooled_blobs_survive_a_restart() {
    let node = node(None).await;
    let sidecar = whole(2);
    let mut hashes = Vec::new();
    for from in 0..3 {
        let raw = wrapped(&sign(from, blob_tx(0, &sidecar)), &sidecar);
        hashes.push(node.call("eth_sendRawTransaction", json!([raw])).await);
    }
    assert_eq!(node.call("txpool_status", json!([])).await["pending"], json!("0x3"));
    let content = node.call("txpool_content", json!([])).await;
    assert_eq!(content, json!({ "pending": {}, "queued": {} }), "as in geth");
    let pooled = node.call("eth_getTransactionByHash", json!([hashes[0]])).await;
    assert_eq!((&pooled["blockHash"], &pooled["type"]), (&Value::Null, &json!("0x3")));
    let folder = node.stop().await;
    let home = crate::common::reopened(folder.path());
    let options = producing(Some(Duration::from_millis(5)));
    let node = Node::start_with(folder, home, options, settings()).await;
    let mut numbers = Vec::new();
    for hash in hashes {
        let receipt = node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
        numbers.push(receipt["blockNumber"].clone());
    }
    numbers.dedup();
    assert_eq!(numbers.len(), 3, "a block has at most two blobs: {numbers:?}");
    let folder = node.stop().await;
    let file = folder.path().join("blocks.rlp");
    let head = export(&crate::common::reopened(folder.path()), &file);
    let other = tempfile::tempdir().unwrap();
    let home = ethereum_home(other.path());
    import(&home, vec![file]).unwrap();
    assert_eq!(home.view().unwrap().head.hash, head);
}

#[tokio::test(flavor = "multi_thread")]
async fn testing_build_block_returns_the_blobs() {
    let node = node(None).await;
    let parent = node.call("eth_getBlockByNumber", json!(["latest", false])).await;
    let attributes = json!({
        "timestamp": "0x6553f10c",
        "prevRandao": parent["hash"],
        "suggestedFeeRecipient": RECIPIENT,
        "withdrawals": [],
        "parentBeaconBlockRoot": parent["hash"],
    });
    for sidecar in [whole(2), cells(1)] {
        let alone = sign(0, blob_tx(0, &sidecar));
        let build = |raw: &Bytes| json!([parent["hash"], attributes, [raw], "0x"]);
        let params = build(&wrapped(&alone, &sidecar));
        let built = node.call("testing_buildBlockV1", params).await;
        assert_eq!(built["executionPayload"]["transactions"], json!([alone]));
        let bundle = &built["blobsBundle"];
        assert_eq!(bundle["blobs"], json!(sidecar.blobs()));
        assert_eq!(bundle["commitments"], json!(sidecar.commitments()));
        let proofs = if sidecar.is_eip7594() { 128 } else { 2 };
        assert_eq!(bundle["proofs"].as_array().unwrap().len(), proofs);
        let refused = node.fail("testing_buildBlockV1", build(&alone)).await;
        assert_eq!(refused.1, "missing sidecar in blob transaction");
    }
    node.stop().await;
}
