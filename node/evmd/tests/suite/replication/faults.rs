//! Tests faults of a replica's machine, and many simultaneous followers.

use super::{
    BLOCK_TIME, PROGRAM, assert_sound, follow, head, produce, producer_home, reach, replica_home,
    sources::genesis_hash, url, use_chain,
};
use crate::{
    common::{sign, unsigned},
    start_safety::run,
};
use alloy_consensus::TxEip1559;
use alloy_primitives::TxKind;
use chain::DEV_ACCOUNTS;
use futures_util::future::join_all;
use replication::protocol::{FollowRequest, Piece, source_client::SourceClient};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::{SystemTime, UNIX_EPOCH},
};
use testkit::{Endpoints, MAX_WAIT, NodeProcess, own_address};
use tonic::{Streaming, transport::Channel};

/// Number of followers that read the stream.
const READING: usize = 150;
/// Number of followers that read nothing.
const SILENT: usize = 50;
/// HTTP/2 windows of the reading and of the silent followers: the number of bytes that are sent before they read.
const LARGE_WINDOW_BYTES: u32 = 1024 * 1024;
const SMALL_WINDOW_BYTES: u32 = 1024;
/// Size of the data in a large transaction.
const LARGE_BYTES: usize = 60_000;
/// Bytes by which the largest file of a replica may grow. `ulimit` counts in units of 512 bytes.
const FREE_BYTES: u64 = 256 * 1024;
const UNIT_BYTES: u64 = 512;

/// Runs a replica until it ends because its chain cannot grow. A limit on file sizes simulates a full disk: the system
/// refuses to let a file grow beyond it.
fn follow_on_a_full_disk(home: &Path, source: &str) -> Output {
    let size = fs::metadata(home.join("chain/data.mdb")).unwrap().len();
    let units = (size + FREE_BYTES) / UNIT_BYTES;
    let script = format!("ulimit -f {units}; trap '' XFSZ; exec \"$0\" \"$@\"");
    let mut command = Command::new("timeout");
    command.arg(MAX_WAIT.as_secs().to_string()).args(["sh", "-c", &script, PROGRAM]);
    command.args(["start", "--quiet", "--follow", source]);
    command.args(Endpoints::unused().options());
    command.arg("--home").arg(home).output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_with_a_full_disk_ends_and_continues_when_there_is_space() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let producer = produce(&home);
    // These blocks need more than `FREE_BYTES`.
    let last = use_chain(&producer, 0).await.max(use_chain(&producer, 1).await);
    let replica_home = replica_home(&home, "replica");
    let (full, source) = (replica_home.clone(), url(&producer));
    let ended = tokio::task::spawn_blocking(move || follow_on_a_full_disk(&full, &source));
    let ended = ended.await.unwrap();
    let error = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{error}");
    assert!(error.contains("no disk space left for "), "{error}");
    assert_sound(&replica_home);
    let mut replica = follow(&replica_home, &url(&producer), &[]);
    reach(&replica, last).await;
    replica.kill();
    assert_sound(&replica_home);
}

/// The clocks of the two machines differ. A replica accepts the timestamps that the certificates cover.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_clock_is_an_hour_behind_follows() {
    let folder = tempfile::tempdir().unwrap();
    let other = producer_home(folder.path());
    let text = fs::read_to_string(other.join("genesis.json")).unwrap();
    let mut genesis: Value = serde_json::from_str(&text).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    genesis["timestamp"] = json!(format!("{:#x}", now + 3600));
    let file = folder.path().join("genesis.json");
    fs::write(&file, genesis.to_string()).unwrap();
    let home = folder.path().join("ahead");
    let (code, _, error) = run(&home, &["init", "--genesis", file.to_str().unwrap()]);
    assert_eq!(code, 0, "{error}");
    fs::copy(other.join("producer.key"), home.join("producer.key")).unwrap();
    let address = own_address().to_string();
    let options = ["--replication.address", &address, "--block-time", BLOCK_TIME];
    let options = [&options[..], &["--accept-future-head"]].concat();
    let producer = NodeProcess::start(Path::new(PROGRAM), &home, &options);
    let replica_home = replica_home(&home, "replica");
    let mut replica = follow(&replica_home, &url(&producer), &["--accept-future-head"]);
    reach(&replica, 3).await;
    replica.kill();
    let replica = follow(&replica_home, &url(&producer), &["--accept-future-head"]);
    reach(&replica, head(&producer.endpoints()).await + 1).await;
}

/// Follows a node on a new connection, with an HTTP/2 window of `window` bytes.
async fn client(node: &NodeProcess, request: FollowRequest, window: u32) -> Streaming<Piece> {
    let endpoint = Channel::from_shared(url(node)).unwrap();
    let endpoint =
        endpoint.initial_stream_window_size(window).initial_connection_window_size(window);
    let mut client = SourceClient::new(endpoint.connect().await.unwrap());
    client.follow(request).await.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_that_read_nothing_do_not_delay_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let followers = (READING + SILENT + 1).to_string();
    let (code, _, error) = run(&home, &["config", "set", "replication.max-followers", &followers]);
    assert_eq!(code, 0, "{error}");
    let producer = produce(&home);
    let genesis = genesis_hash(&producer).await;
    let request = FollowRequest {
        version: replication::PROTOCOL_VERSION,
        genesis_hash: genesis.clone(),
        parent: 0,
        parent_hash: genesis,
    };
    let clients = |count: usize, window: u32| {
        join_all((0..count).map(|_| client(&producer, request.clone(), window)).collect::<Vec<_>>())
    };
    let silent = clients(SILENT, SMALL_WINDOW_BYTES).await;
    let reading = clients(READING, LARGE_WINDOW_BYTES).await;
    let mut reading: Vec<_> = reading.into_iter().map(|pieces| (pieces, 0)).collect();
    let replica = follow(&replica_home(&home, "replica"), &url(&producer), &[]);
    for round in 0..3 {
        let last = send_large_transactions(&producer, round).await;
        reach(&replica, last).await;
        let read = join_all(reading.iter_mut().map(|(pieces, blocks)| async move {
            while *blocks < last {
                let piece = pieces.message().await.unwrap().unwrap();
                *blocks += u64::from(piece.ends_block);
            }
        }));
        tokio::time::timeout(MAX_WAIT, read).await.expect("every follower receives the blocks");
    }
    // The silent followers are disconnected; the others and the replica remain connected.
    let used = format!("replication_connections\"}} {}\n", READING + 1);
    let disconnected = async {
        while !producer.endpoints().get("/metrics").await.1.contains(&used) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(MAX_WAIT, disconnected).await.expect("silent followers are disconnected");
    drop(silent);
}

/// Sends five large transactions. Together they exceed a silent follower's window and the server's buffer for that
/// follower. Returns the number of the block that contains the last one.
async fn send_large_transactions(producer: &NodeProcess, round: u64) -> u64 {
    let endpoints = producer.endpoints();
    let mut last = json!(null);
    for nonce in round * 5..(round + 1) * 5 {
        let to = TxKind::Call(DEV_ACCOUNTS[2].address);
        let large = TxEip1559 { gas_limit: 1_000_000, ..unsigned(nonce, to, vec![0; LARGE_BYTES]) };
        let sent = endpoints.call("eth_sendRawTransaction", json!([sign(5, large)])).await;
        last = endpoints.wait_for("eth_getTransactionReceipt", json!([sent])).await;
    }
    let number = last["blockNumber"].as_str().unwrap();
    u64::from_str_radix(&number[2..], 16).unwrap()
}
