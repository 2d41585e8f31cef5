//! Tests that a power failure at any time preserves the acknowledged transactions, if the journal is synced.

use super::{
    tests::{GENESIS, entry, read, tx, write_journal},
    *,
};
use crashdisk::Recorder;
use std::{collections::BTreeSet, process::Command};

/// Set in the process that the test starts: the path of the journal.
const CHILD: &str = "EVMD_TEST_SYNCED_JOURNAL";
/// Number of transactions, and the number between two rewrites.
const TXS: u64 = 12;
const BETWEEN_REWRITES: u64 = 3;
/// Number of random selections, after each event, of the unsynced writes that reach the disk anyway.
const DRAWS: u32 = 3;

/// Writes transactions, and prints each one as soon as it is acknowledged.
fn write_and_acknowledge(path: &Path) {
    // The first journal comes from a node that synced neither its contents nor its name.
    let elsewhere = path.with_extension("elsewhere");
    write_journal(&elsewhere, 1);
    fs::copy(&elsewhere, path).unwrap();
    let (mut journal, entries) = Journal::open(path, true, GENESIS).unwrap();
    assert_eq!(entries, [entry(0)]);
    // The pool has the transaction from here on, so a client that sends it again gets the error "already known".
    println!("\nacknowledged 0");
    journal.store_for_retry(vec![Arc::new(tx(0))]);
    for nonce in 1..TXS {
        journal.push(&tx(nonce));
        journal.write().unwrap();
        println!("\nacknowledged {nonce}");
        journal.store_for_retry(vec![Arc::new(tx(nonce))]);
        if nonce % BETWEEN_REWRITES == 0 {
            journal.compact(&Mempool::default(), 0, Instant::now()).unwrap();
        }
    }
}

#[test]
fn power_failure_preserves_acknowledged_transactions() {
    if let Some(path) = std::env::var_os(CHILD) {
        return write_and_acknowledge(Path::new(&path));
    }
    let (own, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let recorder = Recorder::new(own.path(), home.path()).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    let name = "journal::power_tests::power_failure_preserves_acknowledged_transactions";
    child.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    child.env(CHILD, recorder.root().join("journal"));
    let output = recorder.watch(&mut child).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let recording = recorder.finish().unwrap();
    assert_eq!(recording.missed(&[]).unwrap(), Vec::<String>::new());
    assert_eq!(recording.faults(true), []);

    let mut acknowledged = BTreeSet::new();
    let mut state = 1_u64;
    let mut random_bool = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 63 == 0
    };
    recording.replay(|disk, event| {
        let output = String::from_utf8_lossy(event.output().unwrap_or_default());
        let numbers = output.lines().filter_map(|line| line.strip_prefix("acknowledged "));
        acknowledged.extend(numbers.map(|number| number.parse::<u64>().unwrap()));
        for draw in 0..=DRAWS {
            let tree = disk.tree(&mut || draw > 0 && random_bool());
            let Some(Some(bytes)) = tree.entries.get(Path::new("journal")) else {
                assert!(acknowledged.is_empty(), "there is no journal");
                continue;
            };
            let kept = read(bytes).entries;
            for nonce in &acknowledged {
                assert!(kept.contains(&entry(*nonce)), "transaction {nonce} is lost");
            }
        }
    });
    assert_eq!(acknowledged.len() as u64, TXS);
}
