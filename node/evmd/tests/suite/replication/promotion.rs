//! Tests that a replica can be promoted, and that the old producer stops and can become a replica.

use super::{
    BLOCK_TIME, assert_sound, follow, head, producer_home, reach, replica_home, status, url,
};
use crate::{
    common::{frames::Frames, transfer, wait_for, wait_until},
    development::PROGRAM,
    start_safety::run,
};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
};
use testkit::{Endpoints, NodeProcess, own_address};

/// Creates a home folder with a chain that has a recovery key. Returns the folder and the file of that key.
pub(super) fn recoverable_home(folder: &Path) -> (PathBuf, String) {
    let (home, key) = (folder.join("producer"), folder.join("recovery.key"));
    let key = key.to_str().unwrap().to_owned();
    let (code, out, error) = run(&home, &["init", "--recovery-key", &key]);
    assert!(code == 0 && out.contains(&format!("The key in {key} may promote")), "{out}{error}");
    (home, key)
}

/// Starts a producer at a given replication address.
fn produce_at(home: &Path, address: &str) -> NodeProcess {
    let options = ["--replication.address", address, "--block-time", BLOCK_TIME];
    NodeProcess::start(Path::new(PROGRAM), home, &options)
}

/// Runs `evmd promote`. Returns the exit code, and the output or the error.
fn promote(home: &Path, key: &str, options: &[&str]) -> (i32, String) {
    let (code, out, error) = run(home, &[&["promote", "--signed-by", key], options].concat());
    (code, if code == 0 { out } else { error })
}

/// Runs `evmd start`, which must end by itself, and returns the error.
pub(super) fn fails_to_start(home: &Path, options: &[&str]) -> String {
    let endpoints = Endpoints::unused().options();
    let mut all = vec!["start"];
    all.extend(endpoints.iter().map(String::as_str).chain(options.iter().copied()));
    let (code, _, error) = run(home, &all);
    assert_eq!(code, 1, "{error}");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_replica_continues_the_chain_and_the_old_producer_stops() {
    let folder = tempfile::tempdir().unwrap();
    let (home, recovery) = recoverable_home(folder.path());
    let mut producer = produce_at(&home, &own_address().to_string());
    let old_address = producer.endpoints().replication.unwrap().to_string();
    let homes = ["first", "second"].map(|name| replica_home(&home, name));
    let mut first = follow(&homes[0], &url(&producer), &[]);
    let first_address = first.endpoints().replication.unwrap().to_string();
    let sources = format!("http://{old_address},http://{first_address}");
    let second = follow(&homes[1], &sources, &[]);
    // Transactions that the producer has acknowledged and the replica has received are not lost.
    let mut client = Frames::connect(producer.endpoints().ingest);
    let transfers: Vec<_> =
        (0..60).map(|nonce| transfer(1, nonce, DEV_ACCOUNTS[2].address)).collect();
    client.send(transfers.iter().map(AsRef::as_ref)).unwrap();
    for _ in &transfers {
        client.response().unwrap().unwrap();
    }
    let endpoints = first.endpoints();
    let nonce = json!([DEV_ACCOUNTS[1].address, "latest"]);
    while endpoints.call("eth_getTransactionCount", nonce.clone()).await != json!("0x3c") {
        tokio::task::yield_now().await;
    }
    producer.kill();
    first.stop();
    let (code, text) = promote(&homes[0], &recovery, &["-o", "json"]);
    assert_eq!(code, 0, "{text}");
    let term: Value = serde_json::from_str(&text).unwrap();
    let last = term["last"]["number"].as_u64().unwrap();
    assert_eq!(term["term"], 1, "{term}");
    let mut first = produce_at(&homes[0], &first_address);
    reach(&first, last + 2).await;
    assert_eq!(
        first.endpoints().call("eth_getTransactionCount", nonce.clone()).await,
        json!("0x3c")
    );
    // The other replica needs no command to accept the term, because it has no later block.
    reach(&second, last + 2).await;
    assert_eq!(status(&second).await["refused"], json!([]));

    // A node that follows the old producer sends it the new term.
    let old = produce_at(&home, &old_address);
    let third = replica_home(&home, "third");
    let third = follow(&third, &format!("http://{first_address},http://{old_address}"), &[]);
    reach(&third, last + 1).await;
    first.stop();
    let address = old.endpoints().json_rpc;
    wait_until("the old producer has stopped", || TcpStream::connect(address).is_err());
    let _first = produce_at(&homes[0], &first_address);
    // The old producer refuses to produce again, but can become a replica.
    let error = fails_to_start(&home, &[]);
    assert!(error.contains("(term 1): follow that producer (--follow URL)"), "{error}");
    let source = format!("http://{first_address}");
    let keep = last.to_string();
    let (code, out, error) = run(&home, &["rollback", "--height", &keep]);
    assert!(code == 0 || error.contains("not below"), "{out}{error}");
    let mut old = follow(&home, &source, &[]);
    reach(&old, last + 3).await;
    assert_eq!(status(&old).await["refused"], json!([]));
    old.stop();
    assert_sound(&home);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_with_followers_waits_for_one_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let (home, recovery) = recoverable_home(folder.path());
    let mut producer = produce_at(&home, &own_address().to_string());
    let address = producer.endpoints().replication.unwrap().to_string();
    let replica_home = replica_home(&home, "replica");
    let mut replica = follow(&replica_home, &url(&producer), &[]);
    let replica_address = replica.endpoints().replication.unwrap().to_string();
    reach(&replica, 2).await;
    producer.stop();
    let settings = format!("[replication]\nfollowers = [\"http://{replica_address}\"]\n");
    fs::write(home.join("config.toml"), settings).unwrap();
    // The producer continues, because its follower has the same terms.
    let mut producer = produce_at(&home, &address);
    let before = head(&producer.endpoints()).await;
    reach(&producer, before + 1).await;
    producer.kill();
    replica.stop();
    assert_eq!(promote(&replica_home, &recovery, &[]).0, 0);
    let promoted = produce_at(&replica_home, &replica_address);
    reach(&promoted, before + 2).await;
    let error = fails_to_start(&home, &[]);
    assert!(error.contains("so this node produces no more blocks"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn promotions_that_lose_blocks_or_have_no_key_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let producer = produce_at(&home, &own_address().to_string());
    let replica_home = replica_home(&home, "replica");
    let source = url(&producer);
    let mut replica = follow(&replica_home, &source, &[]);
    reach(&replica, 1).await;
    replica.stop();
    // A second replica has later blocks.
    let second = super::replica_home(&home, "second");
    let mut ahead = follow(&second, &source, &[]);
    reach(&ahead, head(&producer.endpoints()).await + 2).await;
    ahead.stop();
    let key = home.join("producer.key");
    let key = key.to_str().unwrap();
    let (code, text) = promote(&replica_home, key, &["--ask", &source]);
    assert!(code == 1 && text.contains("with --accept-loss the later blocks are lost"), "{text}");
    let other = folder.path().join("other");
    assert_eq!(run(&other, &["init"]).0, 0);
    let other = other.join("producer.key");
    let (code, text) = promote(&replica_home, other.to_str().unwrap(), &[]);
    assert!(code == 1 && text.contains("(the genesis names no recovery key)"), "{text}");
    let (code, text) = promote(&replica_home, "/nonexistent", &[]);
    assert!(code == 1 && text.contains("/nonexistent does not exist"), "{text}");
    let (code, text) = promote(&home, key, &[]);
    assert!(code == 1 && text.contains("is in use"), "{text}");
    // With the old key in the replica's home, both nodes would sign blocks with that key.
    fs::copy(key, replica_home.join("producer.key")).unwrap();
    let (code, text) = promote(&replica_home, key, &[]);
    assert!(code == 1 && text.contains("which is that of a producer of this chain"), "{text}");
    fs::remove_file(replica_home.join("producer.key")).unwrap();
    // The old key signs the term, and the operator accepts the loss.
    let options = ["--ask", &source, "--accept-loss", "-o", "json"];
    let (code, text) = promote(&replica_home, key, &options);
    assert_eq!(code, 0, "{text}");
    let last = serde_json::from_str::<Value>(&text).unwrap()["last"]["number"].as_u64().unwrap();
    let old = producer.endpoints().json_rpc;
    wait_until("the old producer has stopped", || TcpStream::connect(old).is_err());
    let mut promoted = produce_at(&replica_home, &own_address().to_string());
    reach(&promoted, last + 1).await;
    // A replica that has the lost blocks reports the remedy.
    let ahead = follow(&second, &url(&promoted), &[]);
    wait_for("the source is refused", || {
        let runtime = tokio::runtime::Handle::current();
        let status = tokio::task::block_in_place(|| runtime.block_on(status(&ahead)));
        match status["refused"][0]["reason"].as_str() {
            Some(reason) if reason.contains(&format!("run `evmd rollback --height {last}`")) => {
                Ok(())
            }
            _ => Err(status.to_string()),
        }
    });
    drop(ahead);
    let (code, _, error) = run(&second, &["rollback", "--height", &last.to_string()]);
    assert_eq!(code, 0, "{error}");
    let ahead = follow(&second, &url(&promoted), &[]);
    reach(&ahead, last + 1).await;
    promoted.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_producer_with_later_blocks_becomes_a_replica_after_a_rollback() {
    let folder = tempfile::tempdir().unwrap();
    let (home, recovery) = recoverable_home(folder.path());
    let mut producer = produce_at(&home, &own_address().to_string());
    let replica_home = replica_home(&home, "replica");
    let mut replica = follow(&replica_home, &url(&producer), &[]);
    reach(&replica, 2).await;
    replica.stop();
    reach(&producer, head(&producer.endpoints()).await + 2).await;
    // No node sends the new term to the old producer.
    producer.kill();
    let (code, text) = promote(&replica_home, &recovery, &["-o", "json"]);
    assert_eq!(code, 0, "{text}");
    let last = serde_json::from_str::<Value>(&text).unwrap()["last"]["number"].as_u64().unwrap();
    let promoted = produce_at(&replica_home, &own_address().to_string());
    reach(&promoted, last + 1).await;
    let source = url(&promoted);
    let mut old = follow(&home, &source, &[]);
    let rollback = format!("`evmd rollback --height {last}");
    wait_for("the source is refused", || {
        let runtime = tokio::runtime::Handle::current();
        let status = tokio::task::block_in_place(|| runtime.block_on(status(&old)));
        let reason = status["refused"][0]["reason"].as_str().unwrap_or_default();
        if reason.contains(&rollback) { Ok(()) } else { Err(status.to_string()) }
    });
    old.stop();
    // The old producer now knows the term, so with these blocks it can neither produce, nor follow, nor be promoted.
    let error = fails_to_start(&home, &[]);
    assert!(error.contains("follow that producer (--follow URL)"), "{error}");
    let error = fails_to_start(&home, &["--follow", &source]);
    assert!(error.contains(&rollback), "{error}");
    let (code, text) = promote(&home, &recovery, &[]);
    assert!(code == 1 && text.contains(&rollback), "{text}");
    let (code, _, error) = run(&home, &["rollback", "--height", &last.to_string()]);
    assert_eq!(code, 0, "{error}");
    let old = follow(&home, &source, &[]);
    reach(&old, last + 2).await;
    assert_eq!(status(&old).await["refused"], json!([]));
}
