//! Tests faults of validators, each of which runs in its own process.

use super::processes::{Network, VALIDATORS, advance, agree, head, mined, reach, transfer};
use crate::start_safety::run;
use std::{
    fs,
    io::Write,
    net::TcpStream,
    time::{Duration, Instant},
};
use testkit::{NodeProcess, copy_folder};

/// How long a chain without a quorum is observed. With a quorum, it would produce 30 blocks in this time.
const OBSERVED: Duration = Duration::from_secs(3);
/// Number of connections of unknown peers, and number of bytes that each peer sends.
const UNKNOWN_PEERS: usize = 40;
const UNKNOWN_BYTES: usize = 64 * 1024;

pub(super) fn all(nodes: &[NodeProcess]) -> Vec<&NodeProcess> {
    nodes.iter().collect()
}

/// Waits until a validator passes the current head of the first one. Then all nodes must have the same blocks.
pub(super) async fn catches_up(nodes: &[NodeProcess], number: usize) {
    let target = head(&nodes[0]).await + 2;
    reach(&nodes[number], target).await;
    agree(&all(nodes)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chain_stops_without_a_quorum_and_continues_with_it() {
    let network = Network::new();
    let mut nodes = network.start_all();
    advance(&nodes[0], 3).await;
    nodes[2].kill();
    nodes[3].kill();
    // Blocks that were certified before the kill may still appear.
    let begun = Instant::now();
    let mut last = head(&nodes[0]).await;
    let mut changes = 0;
    while begun.elapsed() < OBSERVED {
        let now = head(&nodes[0]).await;
        changes += u32::from(now != last);
        last = now;
    }
    assert!(changes <= 2, "{changes} blocks without a quorum");
    let accepted = transfer(&nodes[0], 1, 0).await;
    nodes[3] = network.start(3);
    mined(&nodes[1], &accepted).await;
    nodes[2] = network.start(2);
    mined(&nodes[2], &accepted).await;
    agree(&all(&nodes)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validator_that_was_suspended_catches_up() {
    let network = Network::new();
    let nodes = network.start_all();
    advance(&nodes[0], 2).await;
    nodes[1].pause();
    advance(&nodes[0], 5).await;
    nodes[1].resume();
    catches_up(&nodes, 1).await;
}

/// A validator without a chain receives all blocks from the others. However, its record of votes must exist.
#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_home_returns_with_its_key_and_record() {
    let network = Network::new();
    let mut nodes = network.start_all();
    let first = transfer(&nodes[3], 1, 0).await;
    mined(&nodes[3], &first).await;
    nodes[3].kill();
    let home = network.home(3);
    for folder in ["chain", "index"] {
        fs::remove_dir_all(home.join(folder)).unwrap();
    }
    fs::remove_file(home.join("mempool.journal")).unwrap();
    // The files of the engine are now ahead of the chain.
    nodes[3] = network.start(3);
    mined(&nodes[3], &first).await;
    nodes[3].stop();
    // Without the record of votes, it must not vote.
    let consensus = home.join("consensus");
    fs::rename(&consensus, network.path("consensus")).unwrap();
    let error = network.fails_to_start(3);
    assert!(error.contains("votes is missing"), "{error}");
    let (code, _, error) = run(&home, &["validator", "new-record"]);
    assert!(code == 1 && error.contains("--old-votes-are-passed"), "{error}");
    advance(&nodes[0], 2).await;
    let (code, _, error) = run(&home, &["validator", "new-record", "--old-votes-are-passed"]);
    assert_eq!(code, 0, "{error}");
    nodes[3] = network.start(3);
    catches_up(&nodes, 3).await;
}

/// An old copy of a home lacks later votes, so it is refused until it has the newest record of votes. The other
/// validators send the blocks that it lacks.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_backup_is_not_used_by_mistake() {
    let network = Network::new();
    let mut nodes = network.start_all();
    advance(&nodes[2], 2).await;
    nodes[2].stop();
    let (home, backup) = (network.home(2), network.path("backup"));
    copy_folder(&home, &backup);
    nodes[2] = network.start(2);
    let later = transfer(&nodes[2], 1, 0).await;
    mined(&nodes[2], &later).await;
    nodes[2].kill();
    let original = network.path("original");
    fs::rename(&home, &original).unwrap();
    copy_folder(&backup, &home);
    let error = network.fails_to_start(2);
    assert!(error.contains("was copied or restored"), "{error}");
    // The newest record of the original is moved, not copied. With this record, the old chain is accepted.
    fs::remove_dir_all(home.join("consensus")).unwrap();
    fs::rename(original.join("consensus"), home.join("consensus")).unwrap();
    nodes[2] = network.start(2);
    mined(&nodes[2], &later).await;
    catches_up(&nodes, 2).await;
}

/// Unknown peers have no effect, whatever they send. A key that the genesis does not name cannot vote.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_peers_and_unknown_keys_are_refused() {
    let network = Network::new();
    let nodes = network.start_all();
    advance(&nodes[0], 2).await;
    let mut peers = Vec::new();
    for number in 0..UNKNOWN_PEERS {
        let mut peer = TcpStream::connect(network.address(number % VALIDATORS)).unwrap();
        peer.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        // The validator may close the connection before this write ends.
        let _ = peer.write_all(&vec![number as u8; UNKNOWN_BYTES]);
        peers.push(peer);
    }
    advance(&nodes[1], 5).await;
    drop(peers);
    agree(&all(&nodes)).await;
    drop(nodes);
    let home = network.home(1);
    fs::remove_file(home.join("validator.key")).unwrap();
    let error = network.fails_to_start(1);
    assert!(error.contains("has no validator.key"), "{error}");
    fs::remove_dir_all(home.join("consensus")).unwrap();
    let (code, key, error) = run(&home, &["validator", "new-key"]);
    assert_eq!(code, 0, "{error}");
    let error = network.fails_to_start(1);
    assert!(error.contains(key.trim()) && error.contains("is not that of a validator"), "{error}");
    let (code, _, error) = run(&home, &["validator", "new-key"]);
    assert!(code == 1 && error.contains("validator.key exists"), "{error}");
    // `new-key` creates no empty record for a key that may have voted.
    fs::remove_dir_all(home.join("consensus")).unwrap();
    let (code, _, error) = run(&home, &["validator", "new-key"]);
    assert!(code == 1 && error.contains("validator.key exists"), "{error}");
    assert!(!home.join("consensus").exists());
}
