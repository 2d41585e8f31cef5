//! Tests damaged, truncated and old home folders: every response is either correct or an error, and each error names a
//! remedy that works.

use crate::{
    client::Node,
    common::{exported_chain, fixtures, import, native_home, producing},
};
use home::{
    Home, HomeError,
    doctor::{self, Outcome, Report},
    snapshot::{self, Checked},
};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

const PAGE_BYTES: u64 = 4096;

fn data(home: &Path, environment: &str) -> PathBuf {
    home.join(environment).join("data.mdb")
}

/// Creates a home with some blocks and transfers.
fn home_with_blocks(folder: &Path) -> Home {
    let file = folder.join("chain.rlp");
    exported_chain(&file, 8);
    let home = native_home(&folder.join("home"));
    import(&home, vec![file]).unwrap();
    home
}

/// Returns the positions of these bytes in a file.
fn occurrences(file: &[u8], content: &[u8]) -> Vec<usize> {
    assert!(content.len() > 8, "the content is too short to be unique");
    (0..=file.len() - content.len()).filter(|at| file[*at..].starts_with(content)).collect()
}

/// Flips one bit of the byte at each of these offsets. Memory mappings of the file change too.
fn flip(path: &Path, offsets: &[usize]) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    for offset in offsets {
        let mut byte = [0];
        file.read_exact_at(&mut byte, *offset as u64).unwrap();
        byte[0] ^= 0x10;
        file.write_all_at(&byte, *offset as u64).unwrap();
    }
}

/// Returns the contents of a block's rows in five tables, each with the name of the table.
fn rows(home: &Home, number: u64) -> Vec<(&'static str, Vec<u8>)> {
    let blocks = home.chain.reader().unwrap();
    let senders = blocks.senders(number).unwrap().unwrap();
    vec![
        ("headers", blocks.header(number).unwrap().unwrap().1.to_vec()),
        ("bodies", blocks.body(number).unwrap().unwrap().to_vec()),
        ("senders", senders.iter().flat_map(|sender| sender.to_vec()).collect()),
        ("fees", blocks.fees(number).unwrap().unwrap().to_vec()),
        ("module", blocks.module(number).unwrap().unwrap().to_vec()),
    ]
}

/// Returns the number of a block with transactions, and the hash of its first transaction.
fn block_with_transactions(home: &Home) -> (u64, String) {
    let view = home.view().unwrap();
    let blocks = view.blocks().unwrap();
    let number = (1..=view.number()).find(|number| blocks.tx_count(*number).unwrap() > 0).unwrap();
    let (hash, header) = blocks.header(number).unwrap().unwrap();
    let body = blocks.body(number).unwrap().unwrap();
    let block = chain::block::Block::from_parts(hash, &header, &body).unwrap();
    (number, alloy_primitives::keccak256(&block.transactions[0]).to_string())
}

/// Returns the responses to calls that read these tables.
async fn responses(node: &Node, number: u64, tx: &str) -> Vec<Value> {
    let block = format!("{number:#x}");
    let calls = [
        ("eth_getBlockByNumber", json!([block, true])),
        ("eth_getBlockByNumber", json!([block, false])),
        ("eth_getTransactionByHash", json!([tx])),
        ("eth_getTransactionReceipt", json!([tx])),
        ("eth_getTransactionByBlockNumberAndIndex", json!([block, "0x0"])),
        ("eth_getBlockReceipts", json!([block])),
        ("eth_getBlockTransactionCountByNumber", json!([block])),
        ("eth_getLogs", json!([{ "fromBlock": block, "toBlock": block }])),
        ("eth_feeHistory", json!(["0x1", block, [50]])),
        ("eth_gasPrice", json!([])),
    ];
    let mut responses = Vec::new();
    for (method, params) in calls {
        responses.push(node.response(method, params).await);
    }
    responses
}

#[test]
fn damaged_row_is_an_internal_error_and_never_a_wrong_response() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with_blocks(folder.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(serve_damaged_rows(folder, home));
}

async fn serve_damaged_rows(folder: TempDir, home: Home) {
    let (number, tx) = block_with_transactions(&home);
    let rows = rows(&home, number);
    let path = data(&home.path, "chain");
    let node = Node::start(folder, home, producing(None)).await;
    let contents = fs::read(&path).unwrap();
    let mut found = Vec::new();
    for (table, content) in &rows {
        let offsets: Vec<_> = occurrences(&contents, content)
            .into_iter()
            .map(|start| start + content.len() / 2)
            .collect();
        assert!(!offsets.is_empty(), "{table}");
        // The damaged data is read before the correct data so that no response comes from a cache.
        flip(&path, &offsets);
        let damaged = responses(&node, number, &tx).await;
        flip(&path, &offsets);
        let correct = responses(&node, number, &tx).await;
        for (damaged, correct) in damaged.iter().zip(&correct) {
            assert!(correct.get("error").is_none(), "{correct}");
            let Some(error) = damaged.get("error") else {
                assert_eq!(damaged, correct, "{table}");
                continue;
            };
            // Clients receive no details. Only the log names the table, the block and the remedy.
            assert_eq!(error["code"], -32603, "{table}: {error}");
            found.push(*table);
        }
    }
    for table in ["headers", "bodies", "senders"] {
        assert!(found.contains(&table), "{found:?}");
    }
    node.stop().await;
}

fn failed<'a>(report: &'a Report, name: &str) -> &'a doctor::Check {
    let check = report.checks.iter().find(|check| check.name == name).unwrap();
    assert_eq!(check.outcome, Outcome::Failed, "{report:?}");
    check
}

#[test]
fn doctor_verifies_a_chain_and_names_block_table_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with_blocks(folder.path());
    let (number, _) = block_with_transactions(&home);
    let (rows, path) = (rows(&home, number), home.path.clone());
    assert!(matches!(doctor::run(&path, true), Err(HomeError::Open(_))), "the home is in use");
    drop(home);
    let report = doctor::run(&path, true).unwrap();
    assert_eq!(report.failed(), 0, "{report:?}");
    assert!(report.checks.iter().all(|check| check.outcome == Outcome::Passed), "{report:?}");
    let file = data(&path, "chain");
    let contents = fs::read(&file).unwrap();
    // Rows of the fee history and of the modules may have the same contents in other blocks.
    for (table, content) in rows.into_iter().take(3) {
        let mut starts = occurrences(&contents, &content);
        if table == "senders" {
            // The sender's address is also in other rows. Each row is preceded by its length and a checksum.
            let length = (content.len() as u32).to_be_bytes();
            starts.retain(|start| contents[start - 8..*start].starts_with(&length));
        }
        let offsets: Vec<_> = starts.iter().map(|start| start + content.len() / 2).collect();
        flip(&file, &offsets);
        let report = doctor::run(&path, true).unwrap();
        let check = failed(&report, "chain.rows");
        for part in [table, &format!("block {number}")] {
            assert!(check.detail.contains(part), "{part}: {check:?}");
        }
        let remedy = check.remedy.as_deref().unwrap();
        assert!(remedy.contains(&format!("evmd rollback --height {}", number - 1)), "{remedy}");
        flip(&file, &offsets);
    }
    // The remedy removes the block and leaves the rest intact.
    let report = doctor::run(&path, true).unwrap();
    assert_eq!(report.failed(), 0, "{report:?}");
    let (home, _) = Home::rollback(&path, number - 1, false).unwrap();
    drop(home);
    assert_eq!(doctor::run(&path, true).unwrap().failed(), 0);
}

#[test]
fn a_verified_snapshot_of_damaged_data_is_refused_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with_blocks(folder.path());
    let (number, _) = block_with_transactions(&home);
    let (_, body) = rows(&home, number).swap_remove(1);
    let path = home.path.clone();
    drop(home);
    let file = data(&path, "chain");
    let starts = occurrences(&fs::read(&file).unwrap(), &body);
    let offsets: Vec<_> = starts.iter().map(|start| start + body.len() / 2).collect();
    flip(&file, &offsets);
    let copy = |name: &str| folder.path().join(name);
    // Without verification, `create` checks only the data that is read when the copy is opened.
    snapshot::create(&path, &copy("opened"), Checked::Opened).unwrap();
    let error = snapshot::create(&path, &copy("verified"), Checked::Verified).unwrap_err();
    assert!(matches!(error, HomeError::DamagedCopy { check: "chain.rows", .. }), "{error:?}");
    assert!(error.to_string().contains(&format!("block {number}")), "{error}");
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<_> = names.filter(|name| name.to_string_lossy().contains("verified")).collect();
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn doctor_finds_damage_of_the_index_and_reindex_removes_it() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with_blocks(folder.path());
    let head = home.view().unwrap().head.hash;
    let (path, file) = (home.path.clone(), data(&home.path, "index"));
    // The address precedes its account in the flat table, in history pages and in trie records. Some of these are no
    // longer used.
    let address = chain::DEV_ACCOUNTS[0].address;
    drop(home);
    let contents = fs::read(&file).unwrap();
    let positions = occurrences(&contents, address.as_slice());
    assert!(positions.len() > 1);
    let mut found = Vec::new();
    for position in positions {
        flip(&file, &[position + 22]);
        let report = doctor::run(&path, true).unwrap();
        let checks = report.checks.iter().filter(|check| check.outcome == Outcome::Failed);
        for check in checks {
            assert!(check.name.starts_with("index."), "{report:?}");
            assert!(check.remedy.as_ref().unwrap().contains("evmd reindex"), "{check:?}");
            found.push(check.name);
        }
        flip(&file, &[position + 22]);
    }
    assert!(found.contains(&"index.state") && found.contains(&"index.runs"), "{found:?}");
    flip(&file, &[occurrences(&contents, address.as_slice())[0] + 22]);
    let home = Home::reindex(&path).unwrap();
    assert_eq!(home.view().unwrap().head.hash, head);
    drop(home);
    assert_eq!(doctor::run(&path, true).unwrap().failed(), 0);
}

#[test]
fn every_unusable_index_names_reindex_which_repairs_it() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with_blocks(folder.path());
    let (path, head) = (home.path.clone(), home.view().unwrap().head.hash);
    drop(home);
    let (index, chain) = (data(&path, "index"), data(&path, "chain"));
    let whole = fs::read(&index).unwrap();
    let pages = whole.len() as u64 / PAGE_BYTES;
    let cut = |bytes: u64| whole[..bytes as usize].to_vec();
    let cases = [
        ("one byte", cut(1)),
        ("one page", cut(PAGE_BYTES)),
        ("two pages", cut(2 * PAGE_BYTES)),
        ("half", cut(pages / 2 * PAGE_BYTES)),
        ("a byte less", cut(whole.len() as u64 - 1)),
        ("zeros", vec![0; whole.len()]),
        ("text", b"text ".repeat(4000)),
        ("a chain", fs::read(&chain).unwrap()),
    ];
    for (name, bytes) in cases {
        fs::write(&index, bytes).unwrap();
        let error = Home::open(&path).unwrap_err();
        assert!(error.to_string().contains("evmd reindex"), "{name}: {error}");
        let home = Home::reindex(&path).unwrap();
        assert_eq!(home.view().unwrap().head.hash, head, "{name}");
    }
    // A file replaces the folder.
    fs::remove_dir_all(path.join("index")).unwrap();
    fs::write(path.join("index"), b"").unwrap();
    Home::open(&path).unwrap_err();
    drop(Home::reindex(&path).unwrap());
}

#[test]
fn truncated_chain_error_names_sizes_and_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with_blocks(folder.path());
    let path = home.path.clone();
    drop(home);
    let chain = data(&path, "chain");
    let whole = fs::read(&chain).unwrap();
    let length = whole.len() as u64;
    for cut in [0, 1, PAGE_BYTES, 2 * PAGE_BYTES, length / 2, length - PAGE_BYTES, length - 1] {
        fs::write(&chain, &whole[..cut as usize]).unwrap();
        let text = match Home::open(&path) {
            Err(error) => error.to_string(),
            // The last page of the file may be free, in which case no data is missing.
            Ok(home) => {
                drop(home);
                assert!(cut >= length - PAGE_BYTES, "{cut} of {length} bytes were accepted");
                assert_eq!(doctor::run(&path, true).unwrap().failed(), 0, "{cut}");
                continue;
            }
        };
        for part in ["truncated", &format!("{cut} bytes"), "snapshot"] {
            assert!(text.contains(part), "{cut}: {text}");
        }
        let report = doctor::run(&path, false);
        assert!(report.is_err() || report.unwrap().failed() > 0, "{cut}");
    }
    fs::write(&chain, &whole).unwrap();
    drop(Home::open(&path).unwrap());
}

/// Copies the home folder of an older version from the fixtures. Returns the copy, and the hash of its head.
pub fn old_home(folder: &Path) -> (PathBuf, String) {
    let archive = fixtures("native-a142d93");
    let head = fs::read_to_string(archive.join("head")).unwrap().trim().to_owned();
    let home = folder.join("home");
    for environment in ["chain", "index"] {
        fs::create_dir_all(home.join(environment)).unwrap();
        fs::copy(data(&archive.join("home"), environment), data(&home, environment)).unwrap();
    }
    for file in ["genesis.json", "config.toml", "mempool.journal"] {
        fs::copy(archive.join("home").join(file), home.join(file)).unwrap();
    }
    (home, head)
}

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn home_of_format_3_is_migrated_and_returns_the_same_results() {
    let folder = tempfile::tempdir().unwrap();
    let (path, head) = old_home(folder.path());
    let snapshot = folder.path().join("snapshot");
    fs::create_dir(&snapshot).unwrap();
    for environment in ["chain", "index"] {
        fs::create_dir(snapshot.join(environment)).unwrap();
        fs::copy(data(&path, environment), data(&snapshot, environment)).unwrap();
    }
    fs::copy(path.join("genesis.json"), snapshot.join("genesis.json")).unwrap();
    // The error of a command that only reads names the command that migrates.
    let error = home::audit::state_root(&path).unwrap_err().to_string();
    assert!(error.contains("evmd start"), "{error}");
    let home = Home::open(&path).unwrap();
    home.check_genesis_file().unwrap();
    let view = home.view().unwrap();
    assert_eq!(view.head.hash.to_string(), head);
    // All blocks are intact: another node can import an export of them, which checks the blocks.
    let file = folder.path().join("exported.rlp");
    crate::common::export(&home, &file);
    let text = fs::read_to_string(path.join("genesis.json")).unwrap();
    let genesis = chain::Genesis::from_json(&text).unwrap();
    let imported = Home::init(&folder.path().join("imported"), &genesis).unwrap();
    import(&imported, vec![file]).unwrap();
    assert_eq!(imported.view().unwrap().head.hash.to_string(), head);
    let (old, new) = (home.chain.reader().unwrap(), imported.chain.reader().unwrap());
    for number in 0..=view.number() {
        assert_eq!(old.header(number).unwrap(), new.header(number).unwrap());
        assert_eq!(old.body(number).unwrap(), new.body(number).unwrap());
        assert_eq!(old.senders(number).unwrap(), new.senders(number).unwrap());
        assert_eq!(old.receipts(number).unwrap(), new.receipts(number).unwrap());
        assert_eq!(old.changes(number).unwrap(), new.changes(number).unwrap());
        assert_eq!(old.fees(number).unwrap(), new.fees(number).unwrap());
    }
    drop((old, new, view, home, imported));
    let report = doctor::run(&path, true).unwrap();
    assert_eq!(report.failed(), 0, "{report:?}");
    // A snapshot in the old format can be restored, with and without verification.
    for (name, checked) in
        [("restored", snapshot::Checked::Opened), ("verified", snapshot::Checked::Verified)]
    {
        let restored = folder.path().join(name);
        let home = snapshot::restore(&snapshot, &restored, checked).unwrap();
        assert_eq!(home.view().unwrap().head.hash.to_string(), head);
        drop(home);
        assert_eq!(doctor::run(&restored, true).unwrap().failed(), 0);
    }
}
