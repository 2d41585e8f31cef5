//! Tests versions of the consensus rules: adoption, export and import, snapshots, and a chain of a program without
//! rules versions.

use crate::common::{
    CHAIN_ID, GENESIS_TIME, export, exported_chain, fixtures, import, producing, transfer,
    wait_until,
};
use alloy_primitives::{Address, B256};
use chain::{Activation, DEV_ACCOUNTS, Genesis, RulesVersion};
use home::{AdoptError, Home, snapshot};
use pipeline::Pipeline;
use serde_json::{Value, json};
use state::View;
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use storage::StateRead;

/// Returns the development genesis as written by programs without rules versions.
fn version_0() -> Genesis {
    let mut file: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    file["config"]["evmd"].as_object_mut().unwrap().remove("rules").unwrap();
    Genesis::from_json(&file.to_string()).unwrap()
}

/// Produces blocks with transfers until the head is at least `height`. Returns the number of the head.
fn grow(home: &Home, height: u64) -> u64 {
    let pipeline = Pipeline::start(home, producing(Some(Duration::from_millis(5)))).unwrap();
    let sender = DEV_ACCOUNTS[0].address;
    let state = pipeline.published.load().state.reader().unwrap();
    let account = state.account(sender).unwrap().unwrap();
    let (client, recipient) = (pipeline.client(), Address::repeat_byte(0x77));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for nonce in account.nonce..account.nonce + 3 {
        runtime.block_on(client.submit(transfer(0, nonce, recipient))).unwrap();
    }
    // If transactions remained in the journal, the next call would reuse their nonces.
    let are_mined = |view: &View| {
        let state = view.state.reader().unwrap();
        state.account(sender).unwrap().unwrap().nonce == account.nonce + 3
    };
    wait_until("there are enough blocks, and all transactions are mined", || {
        let view = pipeline.published.load();
        view.number() >= height && are_mined(&view)
    });
    pipeline.stop();
    pipeline.join().unwrap();
    home.view().unwrap().number()
}

/// A chain of version 0 that adopted version 1 at `height`, some blocks below its head.
struct Adopted {
    /// The export of the chain.
    file: PathBuf,
    head: B256,
    height: u64,
}

fn adopted_chain(folder: &Path) -> Adopted {
    let path = folder.join("adopted");
    let mut home = Home::init(&path, &version_0()).unwrap();
    let head = grow(&home, 3);
    let version = RulesVersion::V1;
    for height in [0, head - 1, head] {
        let error = home.adopt_rules(1, height).unwrap_err();
        assert!(matches!(error, AdoptError::NotAboveHead { .. }), "{error}");
    }
    let height = head + 1;
    home.adopt_rules(1, height).unwrap();
    drop(home);
    let mut home = Home::open(&path).unwrap();
    home.check_genesis_file().unwrap();
    let native = home.spec.native().unwrap();
    assert_eq!(native.rules.adopted(), [Activation { version, height }]);
    let head = grow(&home, height + 3);
    let error = home.adopt_rules(1, head + 1).unwrap_err();
    assert!(matches!(error, AdoptError::NotNewer { .. }), "{error}");
    assert!(matches!(home.cancel_rules(), Err(AdoptError::NothingPending { .. })));
    let file = folder.join("chain.rlp");
    Adopted { head: export(&home, &file), file, height }
}

#[test]
fn chain_with_an_adoption_imports_only_with_the_same_adoption() {
    let folder = tempfile::tempdir().unwrap();
    let Adopted { file, head, height } = adopted_chain(folder.path());
    let fresh = |name: &str| Home::init(&folder.path().join(name), &version_0()).unwrap();

    let mut same = fresh("same");
    same.adopt_rules(1, height).unwrap();
    import(&same, vec![file.clone()]).unwrap();
    assert_eq!(same.view().unwrap().head.hash, head);

    // The first block whose version differs has a different commitment in its header.
    let cases = [("without", None), ("earlier", Some(height - 1)), ("later", Some(height + 1))];
    for (name, adopted) in cases {
        let mut home = fresh(name);
        if let Some(height) = adopted {
            home.adopt_rules(1, height).unwrap();
        }
        let error = import(&home, vec![file.clone()]).unwrap_err().to_string();
        let refused = adopted.unwrap_or(height).min(height);
        assert!(error.contains("extraData"), "{name}: {error}");
        assert_eq!(home.view().unwrap().number(), refused - 1, "{name}: {error}");
    }
}

#[test]
fn snapshot_and_rollback_keep_the_adoption() {
    let folder = tempfile::tempdir().unwrap();
    let Adopted { head, height, .. } = adopted_chain(folder.path());
    let (copy, restored) = (folder.path().join("copy"), folder.path().join("restored"));
    snapshot::create(&folder.path().join("adopted"), &copy, snapshot::Checked::Opened).unwrap();
    let home = snapshot::restore(&copy, &restored, snapshot::Checked::Opened).unwrap();
    assert_eq!(home.view().unwrap().head.hash, head);
    assert_eq!(home.spec.rules_version(height), RulesVersion::V1);
    drop(home);
    // After a rollback to below the adoption's height, the adoption can be changed again.
    let (mut home, _) = Home::rollback(&restored, height - 1, false).unwrap();
    assert_eq!(home.spec.rules_version(height), RulesVersion::V1);
    home.adopt_rules(1, height + 1).unwrap();
    assert_eq!(home.spec.rules_version(height), RulesVersion::V0);
    grow(&home, height + 2);
}

#[test]
fn chain_of_the_newest_version_imports_and_another_genesis_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chain.rlp");
    let head = exported_chain(&file, 3);
    let home =
        |name: &str, genesis: &Genesis| Home::init(&folder.path().join(name), genesis).unwrap();
    let same = home("same", &Genesis::native_dev(GENESIS_TIME));
    import(&same, vec![file.clone()]).unwrap();
    assert_eq!(same.view().unwrap().head.hash, head);
    // Validators are neither in a module row nor in an account, so only the commitment distinguishes the two chains.
    let text = Genesis::native_dev(GENESIS_TIME).to_json();
    let other = text.replace(r#""power": "1""#, r#""power": "2""#);
    assert_ne!(text, other);
    for (name, genesis) in
        [("version-0", version_0()), ("validators", Genesis::from_json(&other).unwrap())]
    {
        let home = home(name, &genesis);
        let error = import(&home, vec![file.clone()]).unwrap_err().to_string();
        assert!(error.contains("parentHash"), "{name}: {error}");
        assert_eq!(home.view().unwrap().number(), 0);
    }
}

/// Runs `evmd` on a home folder. Returns the exit code, standard output and standard error.
fn evmd(home: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evmd"));
    let output = command.args(args).arg("--home").arg(home).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn rules_commands_show_adopt_and_cancel() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("home");
    let home = Home::init(&path, &version_0()).unwrap();
    // The lock of a running node blocks commands that write, but not the command that only reads.
    let (code, _, err) = evmd(&path, &["rules", "adopt", "--version", "1", "--height", "9"]);
    assert!(code == 1 && err.contains("in use"), "{err}");
    assert_eq!(evmd(&path, &["rules", "show"]).0, 0);
    drop(home);

    let (code, out, err) =
        evmd(&path, &["rules", "adopt", "--version", "1", "--height", "9", "-o", "json"]);
    assert_eq!(code, 0, "{err}");
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        shown,
        json!({
            "chainId": CHAIN_ID,
            "head": 0,
            "version": 0,
            "newest": RulesVersion::NEWEST.number(),
            "activations": [
                { "version": 0, "height": 0, "source": "genesis" },
                { "version": 1, "height": 9, "source": "adopted" },
            ],
        })
    );
    let (code, out, _) = evmd(&path, &["rules", "cancel"]);
    assert!(code == 0 && out.ends_with("version 0 from block 0 on (genesis)\n"), "{out}");
    for (args, reason) in [
        (["cancel"].as_slice(), "no adopted rules version starts above"),
        (&["adopt", "--version", "0", "--height", "9"], "is not newer than version 0"),
        (&["adopt", "--version", "99", "--height", "9"], "rules version 99 is unknown"),
        (&["adopt", "--version", "1", "--height", "0"], "--height must be at least 1"),
    ] {
        let (code, _, err) = evmd(&path, &[&["rules"], args].concat());
        assert!(code == 1 && err.contains(reason), "{err}");
    }
    // A new chain starts with the newest version.
    let new = folder.path().join("new");
    assert_eq!(evmd(&new, &["init"]).0, 0);
    let (_, out, _) = evmd(&new, &["rules", "show", "-o", "json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["version"], shown["newest"]);
}

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn chain_of_a_program_without_versions_imports_to_the_same_head() {
    let data = fixtures("native-a142d93");
    let genesis = std::fs::read_to_string(data.join("genesis.json")).unwrap();
    let head = std::fs::read_to_string(data.join("head")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let home = Home::init(folder.path(), &Genesis::from_json(&genesis).unwrap()).unwrap();
    import(&home, vec![data.join("chain.rlp.gz")]).unwrap();
    let view = home.view().unwrap();
    assert_eq!((view.number(), view.head.hash), (860, head.trim().parse().unwrap()));
    assert_eq!(home.spec.rules_version(860), RulesVersion::V0);
}
