//! Tests a validator with a full disk or with damaged files.

use super::{
    faults::{all, catches_up},
    processes::{Network, advance, agree, mined, transfer},
};
use crate::{
    common::{sign, unsigned},
    development::PROGRAM,
    start_safety::run,
};
use alloy_consensus::TxEip1559;
use alloy_primitives::TxKind;
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use testkit::{Endpoints, MAX_WAIT, NodeProcess, copy_folder};

/// The validator whose disk has the fault.
const FAULTY: usize = 3;
/// Bytes by which the largest file may grow. `ulimit` counts in units of 512 bytes.
const FREE_BYTES: u64 = 512 * 1024;
const UNIT_BYTES: u64 = 512;
/// Size of the data in a large transaction.
const LARGE_BYTES: usize = 60_000;
/// Maximum number of large transactions that are sent.
const MAX_LARGE: u64 = 200;
const LARGE_GAS: u64 = 3_000_000;
/// Files of the engine that are at most this large contain no blocks.
const SMALL_BYTES: u64 = 2_000;

/// Returns all files in a folder and its subfolders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let nested = entries.map(|path| if path.is_dir() { files(&path) } else { vec![path] });
    nested.flatten().collect()
}

fn size(file: &Path) -> u64 {
    fs::metadata(file).unwrap().len()
}

/// Runs a validator until it ends. A limit on file sizes simulates a full disk.
fn run_on_a_full_disk(home: &Path, options: &[String]) -> Output {
    let largest = files(home).iter().map(|file| size(file)).max().unwrap();
    let units = (largest + FREE_BYTES) / UNIT_BYTES;
    let script = format!("ulimit -f {units}; trap '' XFSZ; exec \"$0\" \"$@\"");
    let mut command = Command::new("timeout");
    command.arg(MAX_WAIT.as_secs().to_string()).args(["sh", "-c", &script, PROGRAM]);
    command.args(["start", "--quiet"]).args(options).args(Endpoints::unused().options());
    command.arg("--home").arg(home).output().unwrap()
}

/// Sends a transaction with a large amount of data, which no contract reads.
async fn send_large(node: &NodeProcess, nonce: u64) -> Value {
    let call = unsigned(nonce, TxKind::Call(DEV_ACCOUNTS[9].address), vec![0xa5; LARGE_BYTES]);
    let raw = sign(1, TxEip1559 { gas_limit: LARGE_GAS, ..call });
    node.endpoints().call("eth_sendRawTransaction", json!([raw])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validator_with_a_full_disk_ends_and_returns() {
    let network = Network::new();
    let mut nodes = network.start_all();
    advance(&nodes[0], 2).await;
    nodes.pop().unwrap().stop();
    let (home, options) = (network.home(FAULTY), network.options(FAULTY));
    let full = home.clone();
    let mut ended = tokio::task::spawn_blocking(move || run_on_a_full_disk(&full, &options));
    let mut nonce = 0;
    while !ended.is_finished() && nonce < MAX_LARGE {
        let hash = send_large(&nodes[0], nonce).await;
        mined(&nodes[0], &hash).await;
        nonce += 1;
    }
    let ended = (&mut ended).await.unwrap();
    let error = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{error}");
    assert!(error.contains("no disk space left for"), "{error}");
    // The other validators continue.
    let later = transfer(&nodes[2], 2, 0).await;
    mined(&nodes[1], &later).await;
    let (code, out, error) = run(&home, &["doctor", "--verify"]);
    assert_eq!(code, 0, "{out}{error}");
    nodes.push(network.start(FAULTY));
    mined(&nodes[FAULTY], &later).await;
    catches_up(&nodes, FAULTY).await;
}

/// Inverts 64 bytes in the middle of a file.
fn damage(path: &Path) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = [0; 64];
    let middle = size(path) / 2;
    file.read_exact_at(&mut bytes, middle).unwrap();
    file.write_all_at(&bytes.map(|byte| !byte), middle).unwrap();
}

/// A validator whose engine has damaged files ends with an error that names their folder. When they have been removed,
/// the validator receives the blocks from the others.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_blocks_of_the_engine_are_replaced() {
    let network = Network::new();
    let mut nodes = network.start_all();
    let first = transfer(&nodes[0], 1, 0).await;
    mined(&nodes[FAULTY], &first).await;
    advance(&nodes[0], 5).await;
    nodes.pop().unwrap().stop();
    let home = network.home(FAULTY);
    let engine = home.join("consensus/engine");
    let damaged: Vec<_> =
        files(&engine).into_iter().filter(|file| size(file) > SMALL_BYTES).collect();
    assert!(!damaged.is_empty(), "the engine stores blocks");
    damaged.iter().for_each(|file| damage(file));
    advance(&nodes[0], 2).await;
    let error = network.fails_to_start(FAULTY);
    assert!(error.contains("consensus/engine") && error.contains("remove"), "{error}");
    agree(&all(&nodes)).await;
    fs::remove_dir_all(&engine).unwrap();
    nodes.push(network.start(FAULTY));
    catches_up(&nodes, FAULTY).await;
    mined(&nodes[FAULTY], &first).await;
}

/// A damaged block in a validator's storage is detected. After its chain is removed, the others send the blocks.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_block_of_a_validator_is_detected_and_replaced() {
    let network = Network::new();
    let mut nodes = network.start_all();
    let hash = transfer(&nodes[0], 1, 0).await;
    let receipt = mined(&nodes[FAULTY], &hash).await;
    mined(&nodes[0], &hash).await;
    let expected = nodes[0].endpoints().call("eth_getTransactionByHash", json!([hash])).await;
    let raw = nodes[0].endpoints().call("eth_getRawTransactionByHash", json!([hash])).await;
    nodes.pop().unwrap().stop();
    let home = network.home(FAULTY);
    let data = home.join("chain/data.mdb");
    let raw = alloy_primitives::hex::decode(raw.as_str().unwrap()).unwrap();
    let contents = fs::read(&data).unwrap();
    let offsets: Vec<_> =
        (0..contents.len() - raw.len()).filter(|at| contents[*at..].starts_with(&raw)).collect();
    assert!(!offsets.is_empty(), "the body is stored");
    let file = File::options().write(true).open(&data).unwrap();
    for offset in offsets {
        file.write_all_at(&[!raw[40]], offset as u64 + 40).unwrap();
    }
    let (code, out, error) = run(&home, &["doctor", "--verify"]);
    let block = receipt["blockNumber"].as_str().unwrap();
    assert_eq!(code, 1, "{out}{error}");
    let number = u64::from_str_radix(&block[2..], 16).unwrap();
    assert!(format!("{out}{error}").contains(&format!("block {number}")), "{out}{error}");
    for folder in ["chain", "index"] {
        fs::remove_dir_all(home.join(folder)).unwrap();
    }
    // The journal is removed too, because a home with a journal but without a chain is refused.
    fs::remove_file(home.join("mempool.journal")).unwrap();
    nodes.push(network.start(FAULTY));
    catches_up(&nodes, FAULTY).await;
    let response = nodes[FAULTY].endpoints().call("eth_getTransactionByHash", json!([hash])).await;
    assert_eq!(response, expected);
}

/// The only validator has the only copy of its blocks. They are not removed, even if its chain has older data.
#[tokio::test(flavor = "multi_thread")]
async fn blocks_of_the_only_validator_are_not_removed() {
    let network = Network::of(1);
    let home = network.home(0);
    let (chain, older, newer) = (home.join("chain"), network.path("older"), network.path("newer"));
    let mut node = network.start(0);
    advance(&node, 2).await;
    node.stop();
    copy_folder(&chain, &older);
    node = network.start(0);
    advance(&node, 20).await;
    node.stop();
    let (code, _, error) = run(&home, &["rollback"]);
    assert_eq!(code, 1, "{error}");
    assert!(error.contains("only validator"), "{error}");
    fs::rename(&chain, &newer).unwrap();
    fs::rename(&older, &chain).unwrap();
    assert_eq!(run(&home, &["reindex"]).0, 0);
    let error = network.fails_to_start(0);
    assert!(error.contains("only validator"), "{error}");
    fs::remove_dir_all(&chain).unwrap();
    fs::rename(&newer, &chain).unwrap();
    assert_eq!(run(&home, &["reindex"]).0, 0);
    node = network.start(0);
    advance(&node, 2).await;
    node.stop();
}
