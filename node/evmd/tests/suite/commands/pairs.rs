//! Runs every pair of commands that write to a home folder or a file concurrently. Each command either succeeds or
//! fails because of the other process or its result, and no data is lost.

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

/// A command, and a check that must pass after the command has succeeded.
struct Writer {
    name: &'static str,
    /// Returns the arguments. The number distinguishes the two commands of a pair.
    args: fn(&Paths, usize) -> Vec<String>,
    /// Checks the effect of the command.
    check: fn(&Paths, usize),
    /// Part of the error if the other command finished first.
    too_late: &'static str,
}

/// The value of `too_late` for commands that can follow any other command. No error contains it.
const NEVER: &str = "(never)";

/// The paths that a pair of commands uses.
struct Paths {
    home: PathBuf,
    /// A file with the blocks of the chain from block 1 on. The home contains the first four of them.
    blocks: PathBuf,
    /// A snapshot of the home.
    snapshot: PathBuf,
    /// The folder for output outside the home folder.
    out: PathBuf,
}

impl Paths {
    fn text(path: &Path) -> String {
        path.to_str().unwrap().to_owned()
    }
}

fn words(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

fn nothing(_: &Paths, _: usize) {}

/// Commands that write to a home folder with a chain.
const ON_A_CHAIN: [Writer; 9] = [
    Writer {
        name: "import",
        args: |paths, _| words(&["import", &Paths::text(&paths.blocks)]),
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
        args: |paths, _| words(&["snapshot", "create", &Paths::text(&paths.out.join("snapshot"))]),
        check: |paths, number| {
            let home = paths.out.join(format!("restored-{number}"));
            drop(
                snapshot::restore(&paths.out.join("snapshot"), &home, snapshot::Checked::Opened)
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
        check: |paths, number| {
            let config = config::Config::load(&paths.home).unwrap();
            let found = [config.engine.block_time_ms == 1234, config.mempool.price_bump == 17];
            assert!(found[number], "the setting is lost");
        },
        too_late: NEVER,
    },
    Writer {
        name: "export",
        args: |paths, _| words(&["export", &Paths::text(&paths.out.join("chain.rlp"))]),
        check: |paths, _| {
            // The export is complete up to one of the heights of the chain.
            let exported = fs::read(paths.out.join("chain.rlp")).unwrap();
            assert!(
                fs::read(&paths.blocks).unwrap().starts_with(&exported) && !exported.is_empty()
            );
        },
        too_late: NEVER,
    },
    Writer {
        name: "genesis add-account",
        args: |paths, number| {
            let (file, address) = (Paths::text(&paths.out.join("genesis.json")), account(number));
            words(&["genesis", "add-account", &address, "7", "--file", &file])
        },
        check: |paths, number| {
            let file = fs::read_to_string(paths.out.join("genesis.json")).unwrap();
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
        check: |paths, number| {
            let list = words(&["keys", "list", "-n", "-o", "json", "--keyring-backend", "test"]);
            let output = start(paths, &list).wait_with_output().unwrap();
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
        args: |paths, _| words(&["snapshot", "restore", &Paths::text(&paths.snapshot)]),
        check: nothing,
        too_late: "holds a chain",
    },
];

fn account(number: usize) -> String {
    format!("0x{:040x}", 0xabc0 + number)
}

fn start(paths: &Paths, args: &[String]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_evmd"))
        .args(args)
        .env("EVMD_HOME", &paths.home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs two commands concurrently and checks both. Returns which of them succeeded.
fn run(paths: &Paths, pair: [&Writer; 2]) -> [bool; 2] {
    let children = [0, 1].map(|number| start(paths, &(pair[number].args)(paths, number)));
    let outputs: [Output; 2] = children.map(|child| child.wait_with_output().unwrap());
    let names = format!("{} and {}", pair[0].name, pair[1].name);
    for (number, output) in outputs.iter().enumerate() {
        let error = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => (pair[number].check)(paths, number),
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
    // The chain starts with an older rules version, which `rules adopt` can replace.
    let mut genesis: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    genesis["config"]["evmd"]["rules"] = json!([{ "version": 0, "height": 0 }]);
    let genesis = Genesis::from_json(&genesis.to_string()).unwrap();
    exported_chain_of(&Home::init(&at("template"), &genesis).unwrap(), &blocks, 8);
    drop(Home::rollback(&at("template"), 4, false).unwrap());
    for (number, first) in ON_A_CHAIN.iter().enumerate() {
        for (other, second) in ON_A_CHAIN.iter().enumerate().skip(number) {
            let paths = Paths {
                home: at(&format!("home-{number}-{other}")),
                blocks: blocks.clone(),
                snapshot: PathBuf::new(),
                out: at(&format!("out-{number}-{other}")),
            };
            copy_folder(&at("template"), &paths.home);
            fs::create_dir(&paths.out).unwrap();
            fs::write(paths.out.join("genesis.json"), Genesis::native_dev(0).to_json()).unwrap();
            let done = run(&paths, [first, second]);
            let names = format!("{} and {}", first.name, second.name);
            assert!(done.contains(&true), "{names}: both failed");
            let report = doctor::run(&paths.home, true).unwrap();
            assert_eq!(report.failed(), 0, "{names}");
            fs::remove_dir_all(&paths.home).unwrap();
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
        for (other, second) in ON_NOTHING.iter().enumerate().skip(number) {
            for attempt in 0..3 {
                let paths = Paths {
                    home: at(&format!("home-{number}-{other}-{attempt}")),
                    blocks: PathBuf::new(),
                    snapshot: at("snapshot"),
                    out: PathBuf::new(),
                };
                let done = run(&paths, [first, second]);
                assert!(done.contains(&true), "{} and {}", first.name, second.name);
                let home = Home::open(&paths.home).unwrap();
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
