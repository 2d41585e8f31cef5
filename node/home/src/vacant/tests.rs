use super::*;
use crate::{
    open_environments,
    snapshot::{Checked, create, restore},
};
use alloy_primitives::B256;
use std::{collections::BTreeMap, fs, path::PathBuf};
use storage::{FlushBlock, StateChanges};

/// Newest block of the index of a missing chain.
const INDEXED: u64 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum File {
    Missing,
    Valid,
    InvalidJson,
    /// A folder with the name of the file.
    Unreadable,
    /// A link whose target is missing.
    Dangling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Index {
    Missing,
    GenesisOnly,
    Blocks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transactions {
    NoFile,
    None,
    Some,
}

#[derive(Clone, Copy, Debug)]
struct Folder {
    genesis: File,
    chain_folder: bool,
    index: Index,
    journal: Transactions,
    config: bool,
}

impl Folder {
    fn all() -> Vec<Self> {
        let genesis =
            [File::Missing, File::Valid, File::InvalidJson, File::Unreadable, File::Dangling];
        let mut all = Vec::new();
        for genesis in genesis {
            for index in [Index::Missing, Index::GenesisOnly, Index::Blocks] {
                for journal in [Transactions::NoFile, Transactions::None, Transactions::Some] {
                    for (chain_folder, config) in [(false, false), (true, true)] {
                        all.push(Self { genesis, chain_folder, index, journal, config });
                    }
                }
            }
        }
        all
    }

    fn make(self, path: &Path) {
        let file = path.join(GENESIS_FILE);
        match self.genesis {
            File::Missing => {}
            File::Valid => fs::write(file, own_genesis().to_json()).unwrap(),
            File::InvalidJson => fs::write(file, "{").unwrap(),
            File::Unreadable => fs::create_dir(file).unwrap(),
            File::Dangling => {
                std::os::unix::fs::symlink("/nonexistent/genesis.json", file).unwrap();
            }
        }
        if self.chain_folder {
            fs::create_dir(path.join(CHAIN_FOLDER)).unwrap();
        }
        if self.index != Index::Missing {
            index_of(path, if self.index == Index::Blocks { INDEXED } else { 0 });
        }
        let journal = path.join(JOURNAL_FILE);
        match self.journal {
            Transactions::NoFile => {}
            Transactions::None => fs::write(journal, b"evmdtxs\x01").unwrap(),
            Transactions::Some => fs::write(journal, b"evmdtxs\x01 and records").unwrap(),
        }
        if self.config {
            fs::write(path.join("config.toml"), "[engine]\nempty-blocks = false\n").unwrap();
        }
    }

    fn has_data(self) -> bool {
        self.index == Index::Blocks || self.journal == Transactions::Some
    }

    fn has_signs(self) -> bool {
        self.chain_folder || self.index != Index::Missing || self.journal != Transactions::NoFile
    }
}

/// A genesis with another chain id than [`default_genesis`].
fn own_genesis() -> Genesis {
    let text = Genesis::native_dev(1_700_000_000).to_json();
    let mut file: serde_json::Value = serde_json::from_str(&text).unwrap();
    file["config"]["chainId"] = 77_777.into();
    Genesis::from_json(&file.to_string()).unwrap()
}

fn default_genesis() -> Genesis {
    Genesis::native_dev(1_800_000_000)
}

/// Creates an index with blocks 0 to `newest`.
fn index_of(home: &Path, newest: u64) {
    let options = IndexOptions { map_bytes: Config::default().storage.index_map_bytes };
    let index = IndexDb::open(home.join(INDEX_FOLDER), options).unwrap();
    let changes = StateChanges::default();
    let blocks: Vec<_> = (0..=newest)
        .map(|number| FlushBlock {
            number,
            hash: B256::with_last_byte(number as u8),
            tx_hashes: &[],
            posting_keys: &[],
            changes: &changes,
        })
        .collect();
    index.flush(&blocks).unwrap();
}

fn newest(home: &Path) -> Option<u64> {
    let folder = home.join(INDEX_FOLDER);
    let map_bytes = Config::default().storage.index_map_bytes;
    folder.exists().then(|| newest_indexed(&folder, map_bytes).unwrap()).flatten()
}

/// Returns the contents of the files that a refused command must not change.
fn files(home: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let entries = fs::read_dir(home).unwrap().map(|entry| entry.unwrap().path());
    let entries = entries.filter(|path| !path.ends_with("LOCK") && !path.ends_with("evmd.lock"));
    entries.map(|path| (path.clone(), fs::read(path).ok())).collect()
}

fn start(path: &Path) -> Result<Home, HomeError> {
    let genesis = Home::genesis_for_start(path)?.unwrap_or_else(default_genesis);
    Home::init(path, &genesis)
}

fn init(path: &Path) -> Result<Home, HomeError> {
    let genesis = Home::genesis_file(path)?.unwrap_or_else(default_genesis);
    Home::init(path, &genesis)
}

/// Runs `command` in every kind of folder; `refuses` states whether it must fail.
fn check_all(command: fn(&Path) -> Result<Home, HomeError>, refuses: fn(Folder) -> bool) {
    for folder in Folder::all() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path();
        folder.make(path);
        let (before, indexed) = (files(path), newest(path));
        match command(path) {
            Ok(home) => {
                assert!(!refuses(folder), "{folder:?}");
                let expected = match folder.genesis {
                    File::Missing => default_genesis(),
                    _ => own_genesis(),
                };
                assert_eq!(*home.spec, expected.spec, "{folder:?}");
                assert_eq!(home.view().unwrap().head.hash, expected.header().hash_slow());
                assert_eq!(home.config.engine.empty_blocks, !folder.config, "{folder:?}");
                home.check_genesis_file().unwrap();
            }
            Err(error) => {
                assert!(refuses(folder), "{folder:?}: {error}");
                let text = error.to_string();
                assert!(text.contains("evmd init"), "{folder:?}: names a remedy: {text}");
                assert_eq!(files(path), before, "{folder:?}");
                assert_eq!(newest(path), indexed, "{folder:?}: the index is kept");
                assert!(!Home::exists(path), "{folder:?}: no partial chain is left");
            }
        }
    }
}

/// The disk of a chain may not be mounted.
#[test]
fn a_link_to_a_chain_that_is_missing_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join(CHAIN_FOLDER);
    std::os::unix::fs::symlink("/nonexistent/chain", &link).unwrap();
    let errors = [
        Home::genesis_for_start(folder.path()).unwrap_err(),
        Home::init(folder.path(), &own_genesis()).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, HomeError::ChainMissing { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("a link whose target is missing") && text.contains("mount it"),
            "{text}"
        );
    }
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn init_uses_the_genesis_file_and_keeps_the_data_of_a_missing_chain() {
    check_all(init, |folder| {
        !matches!(folder.genesis, File::Missing | File::Valid) || folder.has_data()
    });
}

#[test]
fn start_uses_the_genesis_file_of_a_folder_that_never_had_a_chain() {
    check_all(start, |folder| match folder.genesis {
        File::Missing => folder.has_data(),
        File::Valid => folder.has_signs(),
        _ => true,
    });
}

#[test]
fn init_refuses_a_genesis_other_than_that_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(GENESIS_FILE);
    let text = own_genesis().to_json().replace('\n', "\n ");
    fs::write(&file, &text).unwrap();
    let error = Home::init(folder.path(), &default_genesis()).unwrap_err();
    assert!(matches!(error, HomeError::GenesisFileInTheWay { .. }), "{error}");
    assert!(error.to_string().contains("remove the file"), "{error}");
    // A genesis with the same block 0 but other rules belongs to another chain.
    let mut same: serde_json::Value = serde_json::from_str(&text).unwrap();
    same["config"]["osakaTime"] = 7.into();
    let other_rules = Genesis::from_json(&same.to_string()).unwrap();
    let error = Home::init(folder.path(), &other_rules).unwrap_err();
    assert!(matches!(error, HomeError::GenesisFileInTheWay { .. }), "{error}");
    assert!(!Home::exists(folder.path()));
    drop(Home::init(folder.path(), &own_genesis()).unwrap());
    assert_eq!(fs::read_to_string(&file).unwrap(), text, "the operator's file stays as it is");
}

#[test]
fn start_and_init_keep_an_invalid_config_file_and_create_no_chain() {
    for command in [start, init] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.toml"), "no-such-key = 1\n").unwrap();
        assert!(matches!(command(folder.path()), Err(HomeError::Config(_))));
        assert!(!Home::exists(folder.path()));
    }
    // A link whose target is missing is treated differently from a missing file.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    std::os::unix::fs::symlink("/nonexistent/config.toml", &file).unwrap();
    assert!(matches!(init(folder.path()), Err(HomeError::Config(_))));
    assert!(fs::symlink_metadata(&file).unwrap().is_symlink());
}

#[test]
fn an_index_behind_a_link_without_target_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join(INDEX_FOLDER);
    std::os::unix::fs::symlink("/nonexistent/index", &link).unwrap();
    for command in [start, init] {
        assert!(matches!(command(folder.path()), Err(HomeError::ChainMissing { .. })));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}

#[test]
fn a_snapshot_replaces_neither_a_genesis_file_nor_a_journal_of_another_chain() {
    let folder = tempfile::tempdir().unwrap();
    let [source, copy] = ["source", "copy"].map(|name| folder.path().join(name));
    drop(Home::init(&source, &own_genesis()).unwrap());
    create(&source, &copy, Checked::Opened).unwrap();
    let home = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let other = home("other");
    fs::write(other.join(GENESIS_FILE), default_genesis().to_json()).unwrap();
    let error = restore(&copy, &other, Checked::Opened).unwrap_err();
    assert!(matches!(error, HomeError::GenesisFileInTheWay { .. }), "{error}");
    assert!(!Home::exists(&other) && !other.join(INDEX_FOLDER).exists());

    let unknown = home("unknown");
    fs::write(unknown.join(JOURNAL_FILE), b"evmdtxs\x01 and records").unwrap();
    let error = restore(&copy, &unknown, Checked::Opened).unwrap_err();
    assert!(matches!(error, HomeError::ChainMissing { .. }), "{error}");

    let lost = home("lost");
    fs::write(lost.join(GENESIS_FILE), own_genesis().to_json()).unwrap();
    fs::write(lost.join(JOURNAL_FILE), b"evmdtxs\x01 and records").unwrap();
    index_of(&lost, INDEXED);
    drop(restore(&copy, &lost, Checked::Opened).unwrap());
    assert!(mempool::journal::has_transactions(&lost.join(JOURNAL_FILE)).unwrap());
    assert_eq!(newest(&lost), Some(0), "the index is that of the snapshot");
}

/// The next snapshot, of any chain, can be restored to the same folder.
#[test]
fn a_damaged_snapshot_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let [source, copy, damaged, home] =
        ["source", "copy", "damaged", "home"].map(|name| folder.path().join(name));
    drop(Home::init(&source, &own_genesis()).unwrap());
    for copy in [&copy, &damaged] {
        create(&source, copy, Checked::Opened).unwrap();
    }
    let check_restore_fails = |checked| {
        let error = restore(&damaged, &home, checked).unwrap_err();
        assert!(matches!(error, HomeError::NotRestored { .. }), "{error}");
        assert!(!Home::exists(&home) && !home.join(INDEX_FOLDER).exists());
        assert!(!home.join(GENESIS_FILE).exists());
    };
    for name in [CHAIN_FOLDER, INDEX_FOLDER] {
        let file = damaged.join(name).join("data.mdb");
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..100]).unwrap();
        check_restore_fails(Checked::Opened);
        fs::write(&file, bytes).unwrap();
    }
    let file = damaged.join(CHAIN_FOLDER).join("data.mdb");
    let mut bytes = fs::read(&file).unwrap();
    let name = b"\"bech32Prefix\"";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
    bytes[at + 1] ^= 1;
    fs::write(&file, bytes).unwrap();
    check_restore_fails(Checked::Verified);
    assert_eq!(newest_of(restore(&copy, &home, Checked::Verified).unwrap()), 0);
}

fn newest_of(home: Home) -> u64 {
    home.view().unwrap().number()
}

#[test]
fn reindex_keeps_the_index_if_the_chain_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    drop(open_environments(path, &Config::default()).unwrap());
    index_of(path, INDEXED);
    assert!(matches!(Home::reindex(path), Err(HomeError::Empty(_))));
    assert_eq!(newest(path), Some(INDEXED));
    fs::write(path.join("config.toml"), "no-such-key = 1\n").unwrap();
    assert!(matches!(Home::reindex(path), Err(HomeError::Config(_))));
    assert_eq!(newest(path), Some(INDEXED));
}
