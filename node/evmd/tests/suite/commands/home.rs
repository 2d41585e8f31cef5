//! Tests operator commands on home folders: rollback, snapshots, and the checks of `init` and `start`.

use crate::{
    client::Node,
    common::{GENESIS_TIME, exported_chain, import, native_home, producing, transfer, wait_until},
};
use alloy_primitives::{Address, U256, hex};
use chain::Genesis;
use home::{Home, snapshot};
use pipeline::Pipeline;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};
use storage::{HomeLock, StateRead};

/// Returns the paths of all files below a folder, relative to it, in ascending order.
fn files_in(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            files.extend(files_in(&path).into_iter().map(|file| format!("{name}/{file}")));
        } else {
            files.push(name.to_owned());
        }
    }
    files.sort();
    files
}

/// Runs `evmd` on a home folder. Returns the exit code, standard output and standard error.
fn evmd(home: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evmd"));
    let output = command.args(args).arg("--home").arg(home).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn rolled_back_blocks_are_removed_and_can_be_imported_again() {
    let folder = tempfile::tempdir().unwrap();
    let (file, path) = (folder.path().join("chain.rlp"), folder.path().join("home"));
    let hash = exported_chain(&file, 40);
    let home = native_home(&path);
    import(&home, vec![file.clone()]).unwrap();
    let head = home.view().unwrap().number();
    let stored = home.chain.reader().unwrap().hash(10).unwrap().unwrap();

    let (code, out, err) = evmd(&path, &["rollback"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.starts_with("error: "), "{err}");
    drop(home);
    let journal = path.join("mempool.journal");
    std::fs::write(&journal, "").unwrap();
    let (code, out, err) = evmd(&path, &["rollback"]);
    let at = |number: u64| format!("Rolled back to block {number} ");
    assert!(!journal.exists(), "transactions in the journal would be mined again");
    assert!(code == 0 && out.starts_with(&at(head - 1)), "{err}");
    assert!(out.ends_with(": 1 block removed\n"), "{out}");
    let (code, out, err) = evmd(&path, &["rollback", "--height", "10", "-o", "json"]);
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report, json!({ "height": 10, "hash": stored, "removed": head - 11 }));
    let (code, _, err) = evmd(&path, &["rollback", "--height", "10"]);
    assert_eq!(
        (code, err.as_str()),
        (1, "error: cannot roll back to block 10: the newest block is 10\n")
    );

    // The head is block 10, and the later blocks can be imported again.
    let home = Home::open(&path).unwrap();
    assert_eq!(home.view().unwrap().head.hash, stored);
    let kept = folder.path().join("kept.rlp");
    drop(home);
    let to = kept.to_str().unwrap();
    assert_eq!(evmd(&path, &["export", to]).0, 0);
    assert!(std::fs::read(&file).unwrap().starts_with(&std::fs::read(&kept).unwrap()));
    // An export to standard output has the same bytes. A compressed export can be imported; its blocks are known.
    let mut command = Command::new(env!("CARGO_BIN_EXE_evmd"));
    let output = command.arg("--home").arg(&path).args(["export", "-"]).output().unwrap();
    assert_eq!(output.stdout, std::fs::read(&kept).unwrap());
    let packed = folder.path().join("kept.rlp.gz");
    assert_eq!(evmd(&path, &["export", packed.to_str().unwrap()]).0, 0);
    assert!(std::fs::metadata(&packed).unwrap().len() < std::fs::metadata(&kept).unwrap().len());
    let (code, out, err) = evmd(&path, &["import", packed.to_str().unwrap(), "-o", "json"]);
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["imported"], &report["known"]), (&json!(0), &json!(10)));
    let bytes = std::fs::read(&packed).unwrap();
    std::fs::write(&packed, &bytes[..bytes.len() / 2]).unwrap();
    let (code, _, err) = evmd(&path, &["import", packed.to_str().unwrap()]);
    assert!(code == 1 && err.contains("kept.rlp.gz: at byte "), "{err}");

    std::fs::write(&kept, &std::fs::read(&file).unwrap()[std::fs::read(&kept).unwrap().len()..])
        .unwrap();
    let home = Home::open(&path).unwrap();
    import(&home, vec![kept]).unwrap();
    assert_eq!(home.view().unwrap().head.hash, hash);
    drop(home);
    assert_eq!(evmd(&path, &["rollback", "--height", "0"]).0, 0);
    let (code, _, err) = evmd(&path, &["rollback"]);
    assert_eq!(
        (code, err.as_str()),
        (1, "error: cannot roll back to block 0: the newest block is 0\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshot_of_a_running_chain_can_be_restored_and_continued() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::native().await;
    let to = Address::repeat_byte(0x77);
    let (copy, other) = (folder.path().join("copy"), folder.path().join("other"));
    for nonce in 0..20 {
        let raw = hex::encode_prefixed(transfer(0, nonce, to));
        let hash = node.call("eth_sendRawTransaction", json!([raw])).await;
        if nonce == 10 {
            node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
            let (code, out, err) =
                evmd(node.home(), &["snapshot", "create", copy.to_str().unwrap()]);
            assert!(code == 0 && out.starts_with("Copied blocks 0 to "), "{out}{err}");
        }
    }
    let again = evmd(node.home(), &["snapshot", "create", copy.to_str().unwrap()]);
    assert_eq!(again.0, 1);
    assert!(again.2.ends_with("is there already; choose another folder\n"), "{}", again.2);
    let files = ["chain/data.mdb", "genesis.json", "index/data.mdb"];
    assert_eq!(files_in(folder.path()), files.map(|file| format!("copy/{file}")));
    node.stop().await;
    let none = evmd(&folder.path().join("none"), &["snapshot", "create", "x"]);
    assert!(none.0 == 1 && none.2.contains("holds no chain"), "{}", none.2);

    let lock = HomeLock::acquire(&other).unwrap();
    let error =
        snapshot::restore(&copy, &other, snapshot::Checked::Opened).unwrap_err().to_string();
    assert!(error.contains("in use by process"), "{error}");
    drop(lock);
    let (code, out, err) =
        evmd(&other, &["snapshot", "restore", copy.to_str().unwrap(), "-o", "json"]);
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let home = Home::open(&other).unwrap();
    let view = home.view().unwrap();
    assert_eq!(report["height"], view.number());
    let received = view.state.reader().unwrap().account(to).unwrap().unwrap().balance;
    assert!(received >= U256::from(11), "{received}");
    // The restored chain continues.
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(5)))).unwrap();
    let reached = view.number();
    wait_until("the copy grows", || pipeline.published.load().number() > reached + 3);
    pipeline.stop();
    pipeline.join().unwrap();
    drop(home);
    let error =
        snapshot::restore(&copy, &other, snapshot::Checked::Opened).unwrap_err().to_string();
    assert!(error.contains("already holds a chain"), "{error}");
}

#[test]
fn genesis_file_of_another_chain_is_refused_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("home");
    let home = native_home(&path);
    let hash = home.view().unwrap().head.hash;
    let file = path.join("genesis.json");
    let own = std::fs::read_to_string(&file).unwrap();
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        home.check_genesis_file().map_err(|error| error.to_string())
    };
    assert_eq!(check(&own), Ok(()));
    // The same content in a different JSON format is accepted.
    let mut json: Value = serde_json::from_str(&own).unwrap();
    assert_eq!(check(&json.to_string()), Ok(()));
    json["config"]["osakaTime"] = json!(7);
    // From rules version 1 on, block 0 commits to the forks.
    let rules = check(&json.to_string()).unwrap_err();
    assert!(rules.contains("block 0 of the file is "), "{rules}");
    assert!(check("{}").unwrap_err().contains("genesis.json: "));
    let other = Genesis::native_dev(GENESIS_TIME + 1);
    let message = check(&other.to_json()).unwrap_err();
    let hashes = format!(
        "block 0 of the file is {}, block 0 of the chain in this home is {hash}",
        other.header().hash_slow()
    );
    assert!(message.contains(&hashes) && message.contains("evmd init --genesis"), "{message}");
    drop(home);
    let (code, out, err) = evmd(&path, &["start", "--no-produce", "--quiet"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.ends_with(&format!("error: {message}\n")), "{err}");
    std::fs::remove_file(&file).unwrap();
    Home::open(&path).unwrap().check_genesis_file().unwrap();
}

/// geth also refuses such a genesis, so it could never import the blocks.
#[test]
fn genesis_with_a_block_number_is_refused_and_creates_no_home() {
    let folder = tempfile::tempdir().unwrap();
    let (file, home) = (folder.path().join("genesis.json"), folder.path().join("a/home"));
    let mut json: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    for number in ["0x7", "0xffffffffffffffff"] {
        json["number"] = json!(number);
        std::fs::write(&file, json.to_string()).unwrap();
        let path = file.to_str().unwrap();
        for args in [&["genesis", "validate", path][..], &["init", "--genesis", path]] {
            let (code, out, err) = evmd(&home, args);
            assert_eq!((code, out.as_str()), (1, ""), "{err}");
            assert!(err.contains("genesis field `number`: must be 0"), "{err}");
        }
        assert_eq!(files_in(folder.path()), ["genesis.json"]);
        assert!(!folder.path().join("a").exists());
    }
    json["number"] = json!("0x0");
    std::fs::write(&file, json.to_string()).unwrap();
    assert_eq!(evmd(&home, &["init", "--genesis", file.to_str().unwrap()]).0, 0);
}

#[test]
fn changed_forks_are_refused_at_start_if_block_0_does_not_commit_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut json: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    json["config"]["evmd"]["rules"] = json!([{ "version": 0, "height": 0 }]);
    let home = Home::init(folder.path(), &Genesis::from_json(&json.to_string()).unwrap()).unwrap();
    json["config"]["osakaTime"] = json!(7);
    std::fs::write(folder.path().join("genesis.json"), json.to_string()).unwrap();
    let error = home.check_genesis_file().unwrap_err().to_string();
    let hash = home.view().unwrap().head.hash;
    assert!(error.contains(&format!("block 0 is {hash} in both")), "{error}");
}

/// Another process, such as a CometBFT node, may use the default address.
#[test]
fn comet_address_in_use_is_only_ignored_if_it_is_the_default() {
    let folder = tempfile::tempdir().unwrap();
    // The bind fails if another process already uses the address, which has the same effect on the node.
    let _default = TcpListener::bind("127.0.0.1:26657");
    let free = "127.0.0.1:0";
    let mut args = vec!["start", "--quiet", "--json-rpc.address", free, "--rest.address", free];
    args.extend(["--json-rpc.ws-address", free, "--grpc.address", free]);
    args.extend(["--ingest.address", free, "--metrics.address", free, "--pages.address", free]);
    let mut node = Command::new(env!("CARGO_BIN_EXE_evmd"))
        .args(&args)
        .arg("--home")
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(node.stdout.take().unwrap()).lines();
    let line = lines.map(Result::unwrap).find(|line| line.starts_with("CometBFT RPC"));
    node.kill().unwrap();
    node.wait().unwrap();
    let comet_line = line.expect("the banner has a line for the CometBFT RPC");
    assert!(
        comet_line.ends_with("not served: 127.0.0.1:26657 is in use (--comet.address)"),
        "{comet_line}"
    );
    let other = TcpListener::bind(free).unwrap();
    let in_use = other.local_addr().unwrap().to_string();
    let args = [&args[..], &["--comet.address", &in_use]].concat();
    let (code, out, err) = evmd(folder.path(), &args);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains(&format!("error: CometBFT RPC on {in_use} (--comet.address): ")), "{err}");
}
