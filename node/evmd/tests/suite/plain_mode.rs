//! Tests that nodes in plain mode, without caches, prefetching, prediction and fast paths, have the same blocks.

use crate::common::{export, exported_chain, exported_chain_of, fixtures, import, native_home};
use chain::Genesis;
use home::Home;
use std::{fs, path::Path, process::Command};

/// Switches a home folder to plain mode.
fn plain(mut home: Home) -> Home {
    home.caches = None;
    home
}

#[test]
fn blocks_of_a_fast_node_are_valid_in_plain_mode_and_conversely() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second, third] = ["1.rlp", "2.rlp", "3.rlp"].map(|name| folder.path().join(name));
    let home = |name: &str| native_home(&folder.path().join(name));
    let head = exported_chain(&first, 8);
    let importing = plain(home("plain-import"));
    import(&importing, vec![first.clone()]).unwrap();
    assert_eq!(export(&importing, &second), head);
    assert_eq!(fs::read(&first).unwrap(), fs::read(&second).unwrap());

    let head = exported_chain_of(&plain(home("plain-production")), &third, 8);
    let importing = home("fast-import");
    assert!(importing.caches.is_some(), "the tests run without EVMD_PLAIN");
    import(&importing, vec![third]).unwrap();
    assert_eq!(importing.view().unwrap().head.hash, head);
}

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn third_party_chains_import_in_plain_mode() {
    for name in ["chains/ethrex-cancun-20", "chains/hive-sync-3000", "execution-apis/tests"] {
        let chain = fixtures(name);
        let genesis = fs::read_to_string(chain.join("genesis.json")).unwrap();
        let genesis = Genesis::from_json(&genesis).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let [fast, slow] =
            ["fast", "plain"].map(|name| Home::init(&folder.path().join(name), &genesis).unwrap());
        let slow = plain(slow);
        let heads = [fast, slow].map(|home| {
            import(&home, vec![chain.join("chain.rlp")]).unwrap();
            home.view().unwrap().head.hash
        });
        assert_eq!(heads[0], heads[1], "{name}");
    }
}

#[test]
fn environment_selects_plain_mode() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chain.rlp");
    let head = exported_chain(&file, 4);
    let run = |arguments: &[&Path]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evmd"));
        let done = command.args(arguments).env("EVMD_PLAIN", "1").output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stderr).unwrap() + &String::from_utf8(done.stdout).unwrap()
    };
    let path = folder.path().join("home");
    drop(native_home(&path));
    let output = run(&[Path::new("import"), &file, Path::new("--home"), &path]);
    assert!(output.contains("EVMD_PLAIN=1"), "a node in plain mode logs it: {output}");
    assert_eq!(Home::open(&path).unwrap().view().unwrap().head.hash, head);
}
