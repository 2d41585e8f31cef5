//! Tests snapshots that a node creates itself, and upgrades, which operators can reverse with a snapshot.

use crate::{
    common::{native_home, wait_until},
    start_safety::run,
    stored_data::old_home,
};
use home::{Home, snapshot::kept};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
};
use testkit::NodeProcess;
use tokio::runtime::Runtime;

/// Settings with which several snapshots become due within seconds.
const SETTINGS: &str = "[snapshot]\nevery-blocks = 5\nkeep = 2\n";
const KEEP: usize = 2;

fn home_with_settings(folder: &Path) -> PathBuf {
    let home = folder.join("home");
    drop(native_home(&home));
    fs::write(home.join("config.toml"), SETTINGS).unwrap();
    home
}

fn start(home: &Path) -> NodeProcess {
    NodeProcess::start(Path::new(env!("CARGO_BIN_EXE_evmd")), home, &["--block-time", "200ms"])
}

/// Returns the value of a metric without labels.
fn metric(runtime: &Runtime, node: &NodeProcess, name: &str) -> u64 {
    let (status, text) = runtime.block_on(node.endpoints().get("/metrics"));
    assert_eq!(status, 200);
    let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn head(runtime: &Runtime, node: &NodeProcess) -> u64 {
    let head = runtime.block_on(node.endpoints().call("eth_blockNumber", json!([])));
    u64::from_str_radix(head.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// Runs a command that must succeed.
fn succeed(home: &Path, args: &[&str]) {
    let (code, _, error) = run(home, args);
    assert_eq!(code, 0, "{args:?}: {error}");
}

fn newest(home: &Path) -> u64 {
    kept::list(&home.join("snapshots")).unwrap().last().map_or(0, |kept| kept.number)
}

#[test]
fn a_node_makes_and_verifies_snapshots_and_keeps_the_newest() {
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let home = home_with_settings(folder.path());
    let mut node = start(&home);
    let number = || metric(&runtime, &node, "evmd_snapshot_block_number");
    // More snapshots are created than are kept.
    for _ in 0..=KEEP {
        let last = number();
        wait_until("there is another snapshot", || number() > last);
        assert!(kept::list(&home.join("snapshots")).unwrap().len() <= KEEP);
    }
    assert_eq!(metric(&runtime, &node, "evmd_snapshots_failed_total"), 0);
    node.kill();
    // The process that was creating a snapshot when the node was killed ends by itself.
    let before = newest(&home);
    let mut node = start(&home);
    wait_until("there is another snapshot", || newest(&home) > before);
    node.stop();
    let names = fs::read_dir(home.join("snapshots")).unwrap();
    let hidden =
        names.filter(|name| name.as_ref().unwrap().file_name().as_encoded_bytes()[0] == b'.');
    assert_eq!(hidden.count(), 0, "an unfinished snapshot was not removed");

    let kept = kept::list(&home.join("snapshots")).unwrap().pop().unwrap();
    succeed(&kept.path, &["doctor", "--verify"]);
    let restored = folder.path().join("restored");
    succeed(&restored, &["snapshot", "restore", kept.path.to_str().unwrap()]);
    // A snapshot contains no keys, and only the producer may sign blocks of its chain.
    let (code, _, error) = run(&restored, &["start", "--port-offset", "1"]);
    assert!(code == 1 && error.contains("producer.key is missing"), "{error}");
    fs::copy(home.join("producer.key"), restored.join("producer.key")).unwrap();
    // Other nodes may already have later blocks of the first home, so a new term is needed.
    let (code, _, error) = run(&restored, &["start", "--port-offset", "1"]);
    assert!(code == 1 && error.contains("rollback --new-term"), "{error}");
    succeed(&restored, &["rollback", "--new-term"]);
    let mut node = start(&restored);
    assert!(head(&runtime, &node) >= kept.number);
    node.stop();
}

#[test]
fn a_failed_snapshot_is_counted_and_does_not_stop_the_node() {
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let home = home_with_settings(folder.path());
    let snapshots = home.join("snapshots");
    let mut node = start(&home);
    fs::remove_dir_all(&snapshots).unwrap();
    fs::write(&snapshots, "a file").unwrap();
    let failed = || metric(&runtime, &node, "evmd_snapshots_failed_total");
    wait_until("a snapshot fails", || failed() > 0);
    let at = head(&runtime, &node);
    wait_until("blocks are still produced", || head(&runtime, &node) > at + 2);
    fs::remove_file(&snapshots).unwrap();
    fs::create_dir(&snapshots).unwrap();
    wait_until("the next snapshot succeeds", || newest(&home) > 0);
    node.stop();
    // `start` refuses a setting that can never work.
    fs::write(home.join("config.toml"), format!("{SETTINGS}folder = \"genesis.json\"\n")).unwrap();
    let (code, _, error) = run(&home, &["start", "--port-offset", "1"]);
    assert!(code == 1 && error.contains("genesis.json"), "{error}");
}

#[test]
fn a_verified_snapshot_has_no_temporary_files() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    drop(native_home(&home));
    let copy = folder.path().join("copy");
    succeed(&home, &["snapshot", "create", "--verify", copy.to_str().unwrap()]);
    let files = |folder: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|f| f.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(files(&copy), ["chain", "genesis.json", "index"]);
    assert_eq!(files(&copy.join("chain")), ["data.mdb"]);
    assert_eq!(files(&copy.join("index")), ["data.mdb"]);
}

/// Follows the steps in `docs/backups-and-upgrades.md` with a home folder of an older version.
#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn old_home_is_upgraded_and_the_upgrade_is_reversed_with_a_snapshot() {
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (home, hash) = old_home(folder.path());
    // A snapshot as the older version creates it. This version must migrate the data first, so it refuses below.
    let snapshot = folder.path().join("before-upgrade");
    for part in ["chain", "index"] {
        fs::create_dir_all(snapshot.join(part)).unwrap();
        fs::copy(home.join(part).join("data.mdb"), snapshot.join(part).join("data.mdb")).unwrap();
    }
    fs::copy(home.join("genesis.json"), snapshot.join("genesis.json")).unwrap();
    let copy = fs::read(snapshot.join("chain/data.mdb")).unwrap();
    let (code, _, error) =
        run(&home, &["snapshot", "create", folder.path().join("no").to_str().unwrap()]);
    assert!(code == 1 && error.contains("evmd start"), "{error}");

    let upgraded = |home: &Path| {
        let mut node =
            NodeProcess::start(Path::new(env!("CARGO_BIN_EXE_evmd")), home, &["--no-produce"]);
        let block = runtime
            .block_on(node.endpoints().call("eth_getBlockByNumber", json!(["latest", false])));
        assert_eq!(block["hash"], hash);
        node.stop();
        succeed(home, &["doctor", "--verify"]);
        drop(Home::open(home).unwrap());
    };
    upgraded(&home);
    // The snapshot is unchanged from what the older version wrote, and it can be restored.
    let back = folder.path().join("back");
    succeed(&back, &["snapshot", "restore", snapshot.to_str().unwrap()]);
    assert_eq!(fs::read(snapshot.join("chain/data.mdb")).unwrap(), copy);
    upgraded(&back);
}
