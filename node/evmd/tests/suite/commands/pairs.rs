//! Every pair of commands that write to a home folder or a file, run concurrently: each succeeds or fails with
//! an error that names the other process, and no data is lost.

use crate::common::{GENESIS_TIME, exported_chain_of, native_home};
use chain::{DEV_ACCOUNTS, Genesis};
use home::{Home, doctor, snapshot};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};
use testkit::copy_folder;

/// A command and the condition that holds after it has succeeded.
struct Writer {
    name: &'static str,
    /// Arguments. The number distinguishes the two commands of a pair.
    args: fn(&Place, usize) -> Vec<String>,
    /// Checks the effect.
    check: fn(&Place, usize),
    /// Part of the error if the other command has already finished.
    too_late: &'static str,
}

/// For commands that can follow any other command.
const NEVER: &str = "(never)";

/// The folder of a pair of commands.
struct Place {
    home: PathBuf,
    /// Blocks 1 to 8 of the chain of the home, which has blocks 1 to 4.
    blocks: PathBuf,
    /// A snapshot of the home.
    snapshot: PathBuf,
    /// The output of the commands outside the home folder.
    out: PathBuf,
}

impl Place {
    fn text(path: &Path) -> String {
        path.to_str().unwrap().to_owned()
    }
}

fn words(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

fn nothing(_: &Place, _: usize) {}

/// Commands that write to a home folder with a chain.
const ON_A_CHAIN: [Writer; 9] = [
    Writer {
        name: "import",
        args: |place, _| words(&["import", &Place::text(&place.blocks)]),
        check: nothing,
        too_late: NEVER,
    },
    Writer {
        name: "rollback",
        args: |_, _| words(&["rollback", "--height", "2"]),
        check: nothing,
        too_late: "the newest is 2",
    },
    Writer { name: "reindex", args: |_, _| words(&["reindex"]), check: nothing, too_late: NEVER },
    Writer {
        name: "snapshot create",
        args: |place, _| words(&["snapshot", "create", &Place::text(&place.out.join("snapshot"))]),
        check: |place, number| {
            let home = place.out.join(format!("restored-{number}"));
            drop(
                snapshot::restore(&place.out.join("snapshot"), &home, snapshot::Checked::Opened)
                    .unwrap(),
            );
        },
        too_late: "is there already",
    },
    Writer {
        name: "config set",
        args: |_, number| {
            let settings = [["engine.block-time-ms", "1234"], ["mempool.price-bump", "17"]];
            words(&[&["config", "set"], &settings[number][..]].concat())
        },
        check: |place, number| {
            let config = config::Config::load(&place.home).unwrap();
            let found = [config.engine.block_time_ms == 1234, config.mempool.price_bump == 17];
            assert!(found[number], "the setting is lost");
        },
        too_late: NEVER,
    },
    Writer {
        name: "export",
        args: |place, _| words(&["export", &Place::text(&place.out.join("chain.rlp"))]),
        check: |place, _| {
            // The export is complete, up to any of the heights of the chain.
            let exported = fs::read(place.out.join("chain.rlp")).unwrap();
            assert!(
                fs::read(&place.blocks).unwrap().starts_with(&exported) && !exported.is_empty()
            );
        },
        too_late: NEVER,
    },
    Writer {
        name: "genesis add-account",
        args: |place, number| {
            let (file, address) = (Place::text(&place.out.join("genesis.json")), account(number));
            words(&["genesis", "add-account", &address, "7", "--file", &file])
        },
        check: |place, number| {
            let file = fs::read_to_string(place.out.join("genesis.json")).unwrap();
            Genesis::from_json(&file).unwrap();
            assert!(file.contains(&account(number)[2..]), "the account is lost");
        },
        too_late: NEVER,
    },
    Writer {
        name: "keys add",
        args: |_, number| {
            words(&["keys", "add", &format!("key{number}"), "--keyring-backend", "test"])
        },
        check: |place, number| {
            let list = words(&["keys", "list", "-n", "-o", "json", "--keyring-backend", "test"]);
            let output = start(place, &list).wait_with_output().unwrap();
            let names: Vec<String> = serde_json::from_slice(&output.stdout).unwrap();
            assert!(names.contains(&format!("key{number}")), "{names:?}");
        },
        too_late: NEVER,
    },
    Writer {
        name: "rules adopt",
        args: |_, _| words(&["rules", "adopt", "--version", "1", "--height", "99"]),
        check: nothing,
        too_late: NEVER,
    },
];

/// Commands that write to an empty folder.
const ON_NOTHING: [Writer; 2] = [
    Writer {
        name: "init",
        args: |_, _| words(&["init"]),
        check: nothing,
        too_late: "holds a chain",
    },
    Writer {
        name: "snapshot restore",
        args: |place, _| words(&["snapshot", "restore", &Place::text(&place.snapshot)]),
        check: nothing,
        too_late: "holds a chain",
    },
];

fn account(number: usize) -> String {
    format!("0x{:040x}", 0xabc0 + number)
}

fn start(place: &Place, args: &[String]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_evmd"))
        .args(args)
        .env("EVMD_HOME", &place.home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs two commands concurrently and checks both. Returns which of them succeeded.
fn run(place: &Place, pair: [&Writer; 2]) -> [bool; 2] {
    let children = [0, 1].map(|number| start(place, &(pair[number].args)(place, number)));
    let outputs: [Output; 2] = children.map(|child| child.wait_with_output().unwrap());
    let names = format!("{} and {}", pair[0].name, pair[1].name);
    for (number, output) in outputs.iter().enumerate() {
        let error = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => (pair[number].check)(place, number),
            Some(1) => {
                let texts = ["process", pair[number].too_late];
                assert!(texts.iter().any(|text| error.contains(text)), "{names}: {error}");
            }
            _ => panic!("{names}: {}: {error}", output.status),
        }
    }
    outputs.map(|output| output.status.success())
}

#[test]
fn concurrent_commands_on_a_home_leave_it_intact() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let blocks = at("blocks.rlp");
    // With rules of an older version, which can be replaced.
    let mut genesis: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    genesis["config"]["evmd"]["rules"] = json!([{ "version": 0, "height": 0 }]);
    let genesis = Genesis::from_json(&genesis.to_string()).unwrap();
    exported_chain_of(&Home::init(&at("template"), &genesis).unwrap(), &blocks, 8);
    drop(Home::rollback(&at("template"), 4, false).unwrap());
    for (number, first) in ON_A_CHAIN.iter().enumerate() {
        for (with, second) in ON_A_CHAIN.iter().enumerate().skip(number) {
            let place = Place {
                home: at(&format!("home-{number}-{with}")),
                blocks: blocks.clone(),
                snapshot: PathBuf::new(),
                out: at(&format!("out-{number}-{with}")),
            };
            copy_folder(&at("template"), &place.home);
            fs::create_dir(&place.out).unwrap();
            fs::write(place.out.join("genesis.json"), Genesis::native_dev(0).to_json()).unwrap();
            let done = run(&place, [first, second]);
            let names = format!("{} and {}", first.name, second.name);
            assert!(done.contains(&true), "{names}: both were refused");
            let report = doctor::run(&place.home, true).unwrap();
            assert_eq!(report.failed(), 0, "{names}");
            fs::remove_dir_all(&place.home).unwrap();
        }
    }
}

#[test]
fn concurrent_commands_on_an_empty_folder_create_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    drop(native_home(&at("template")));
    snapshot::create(&at("template"), &at("snapshot"), snapshot::Checked::Verified).unwrap();
    for (number, first) in ON_NOTHING.iter().enumerate() {
        for (with, second) in ON_NOTHING.iter().enumerate().skip(number) {
            for attempt in 0..3 {
                let place = Place {
                    home: at(&format!("home-{number}-{with}-{attempt}")),
                    blocks: PathBuf::new(),
                    snapshot: at("snapshot"),
                    out: PathBuf::new(),
                };
                let done = run(&place, [first, second]);
                assert!(done.contains(&true), "{} and {}", first.name, second.name);
                let home = Home::open(&place.home).unwrap();
                let account = home.view().unwrap().state.reader().unwrap();
                assert!(
                    storage::StateRead::account(&account, DEV_ACCOUNTS[0].address)
                        .unwrap()
                        .is_some()
                );
                home.check_genesis_file().unwrap();
            }
        }
    }
}
