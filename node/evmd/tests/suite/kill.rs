//! Kills imports repeatedly (SIGKILL): the head never moves back, and the final head equals that of an import without
//! kills.

use crate::common::{exported_chain, fixtures, import};
use alloy_primitives::B256;
use chain::Genesis;
use home::Home;
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Kills the import `kills` times, then lets it finish. Returns the head.
fn import_with_kills(chain: &Path, home: &Path, duration: Duration, kills: u32) -> B256 {
    let mut reached = 0;
    for round in 1..=kills {
        // The kills are spread over the duration of a whole import.
        let fraction = f64::from((round * 7) % kills) / f64::from(kills) + 0.013;
        let mut process = evmd(home, chain).spawn().unwrap();
        std::thread::park_timeout(duration.mul_f64(fraction));
        process.kill().unwrap();
        process.wait().unwrap();
        let opened = Home::open(home).unwrap();
        let number = opened.view().unwrap().number();
        assert!(number >= reached, "round {round}: head {number} after {reached}");
        reached = number;
    }
    assert!(evmd(home, chain).status().unwrap().success());
    Home::open(home).unwrap().view().unwrap().head.hash
}

fn evmd(home: &Path, chain: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evmd"));
    command.arg("import").arg("--home").arg(home).arg(chain).stdout(Stdio::null());
    command
}

/// Imports the chain with and without kills, and compares the heads.
fn compare(file: &Path, genesis: &Genesis, kills: u32) {
    let folder = tempfile::tempdir().unwrap();
    let undisturbed = Home::init(&folder.path().join("undisturbed"), genesis).unwrap();
    let begun = Instant::now();
    import(&undisturbed, vec![file.to_owned()]).unwrap();
    let duration = begun.elapsed();
    let killed = folder.path().join("killed");
    drop(Home::init(&killed, genesis).unwrap());
    let head = import_with_kills(file, &killed, duration, kills);
    assert_eq!(head, undisturbed.view().unwrap().head.hash);
}

#[test]
fn killed_imports_have_the_result_of_an_undisturbed_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chain.rlp");
    exported_chain(&file, 60);
    compare(&file, &Genesis::native_dev(crate::common::GENESIS_TIME), 6);
}

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn killed_imports_of_the_3000_block_chain_have_the_result_of_an_undisturbed_one() {
    let chain = fixtures("chains/hive-sync-3000");
    let genesis = fs::read_to_string(chain.join("genesis.json")).unwrap();
    compare(&chain.join("chain.rlp"), &Genesis::from_json(&genesis).unwrap(), 20);
}
