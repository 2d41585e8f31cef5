//! Tests imports of chains from files: valid chains are imported up to their last block, and invalid blocks are refused
//! with a reason. Neither invalid blocks nor later ones are stored.

use crate::common::{exported_chain, fixtures, import, native_home};
use alloy_primitives::{B256, Bytes, b256, keccak256};
use chain::{
    Genesis,
    block::{Block, join},
};
use home::{Home, HomeError};
use std::{
    fs,
    path::{Path, PathBuf},
};
use storage::StateRead;

fn decode(file: &Path) -> Vec<Block> {
    let mut rest = Bytes::from(fs::read(file).unwrap());
    let mut blocks = Vec::new();
    while !rest.is_empty() {
        let header = alloy_rlp::Header::decode(&mut rest.as_ref()).unwrap();
        let length = header.length_with_payload();
        blocks.push(Block::decode(&rest.slice(..length)).unwrap());
        rest = rest.slice(length..);
    }
    blocks
}

fn encode(blocks: &[Block]) -> Vec<u8> {
    blocks.iter().flat_map(|b| join(&alloy_rlp::encode(&b.header), &b.encode_body())).collect()
}

#[test]
fn exported_chain_imports_to_the_same_head() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chain.rlp");
    let head = exported_chain(&file, 8);
    let home = native_home(&folder.path().join("home"));
    import(&home, vec![file.clone()]).unwrap();
    assert_eq!(home.view().unwrap().head.hash, head);
    // Known blocks are skipped.
    import(&home, vec![file]).unwrap();
    assert_eq!(home.view().unwrap().head.hash, head);
}

#[test]
fn files_that_overlap_are_imported_by_one_command() {
    let folder = tempfile::tempdir().unwrap();
    let [chain, first, second] =
        ["chain.rlp", "first.rlp", "second.rlp"].map(|name| folder.path().join(name));
    let head = exported_chain(&chain, 8);
    let blocks = decode(&chain);
    fs::write(&first, encode(&blocks[..6])).unwrap();
    fs::write(&second, encode(&blocks[3..])).unwrap();
    // The pipeline may or may not have published the first blocks when the second file is read.
    for attempt in 0..5 {
        let home = native_home(&folder.path().join(attempt.to_string()));
        import(&home, vec![first.clone(), second.clone(), first.clone()]).unwrap();
        assert_eq!(home.view().unwrap().head.hash, head);
    }

    let mut other = decode(&chain);
    other[3].header.gas_used += 1;
    fs::write(&second, encode(&other[3..])).unwrap();
    let home = native_home(&folder.path().join("competing"));
    let error = import(&home, vec![first, second]).unwrap_err().to_string();
    assert!(error.contains("competing blocks are refused"), "{error}");
}

/// Returns the results of all lookups in the index of a chain, through the view at its head.
fn lookups(home: &Home) -> Vec<String> {
    let view = home.view().unwrap();
    let blocks = view.blocks().unwrap();
    let mut results = Vec::new();
    for number in 0..=view.number() {
        let (hash, _) = blocks.header(number).unwrap().unwrap();
        results.push(format!("{:?}", view.block_number(hash).unwrap()));
        let state = view.state.reader_at(number).unwrap();
        for change in blocks.changes(number).unwrap().unwrap().accounts {
            results.push(format!("{:?}", state.account(change.address).unwrap()));
            for (slot, _) in change.slots {
                results.push(format!("{:?}", state.storage(change.address, slot).unwrap()));
            }
        }
        let (hash, header) = blocks.header(number).unwrap().unwrap();
        let body = blocks.body(number).unwrap().unwrap();
        for raw in Block::from_parts(hash, &header, &body).unwrap().transactions {
            results.push(format!("{:?}", view.tx_location(keccak256(raw)).unwrap()));
        }
    }
    results
}

#[test]
fn rebuilt_index_returns_the_same_results() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chain.rlp");
    exported_chain(&file, 8);
    let path = folder.path().join("home");
    let home = native_home(&path);
    import(&home, vec![file]).unwrap();
    let results = lookups(&home);
    assert!(results.iter().any(|result| result.contains(", 0)")), "transactions were found");
    drop(home);
    // A damaged index is refused. It can be rebuilt with the same contents.
    fs::write(path.join("index").join("data.mdb"), b"not an index").unwrap();
    Home::open(&path).unwrap_err();
    let home = Home::reindex(&path).unwrap();
    assert_eq!(lookups(&home), results);
    // If the index is missing, a normal start builds it.
    drop(home);
    fs::remove_dir_all(path.join("index")).unwrap();
    assert_eq!(lookups(&Home::open(&path).unwrap()), results);
}

/// Imports the chain after changing its fourth block. Returns the error and the remaining head.
fn import_changed(change: impl FnOnce(&mut Block)) -> (String, u64) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chain.rlp");
    exported_chain(&file, 8);
    let mut blocks = decode(&file);
    change(&mut blocks[3]);
    fs::write(&file, encode(&blocks)).unwrap();
    let home = native_home(&folder.path().join("home"));
    let error = import(&home, vec![file]).unwrap_err().to_string();
    (error, home.view().unwrap().number())
}

#[test]
fn invalid_block_is_refused_with_its_field_and_not_stored() {
    type Change = fn(&mut Block);
    let cases: [(&str, Change); 7] = [
        ("stateRoot", |b| b.header.state_root = B256::repeat_byte(1)),
        ("receiptsRoot", |b| b.header.receipts_root = B256::repeat_byte(1)),
        ("transactionsRoot", |b| b.header.transactions_root = B256::repeat_byte(1)),
        ("parentHash", |b| b.header.parent_hash = B256::repeat_byte(1)),
        ("gasUsed", |b| b.header.gas_used += 1),
        ("logsBloom", |b| b.header.logs_bloom.0[0] = 1),
        ("baseFeePerGas", |b| b.header.base_fee_per_gas = Some(1)),
    ];
    for (field, change) in cases {
        let (error, head) = import_changed(change);
        assert!(error.starts_with("block 4 "), "{error}");
        assert!(error.contains(field), "{field}: {error}");
        assert_eq!(head, 3, "{field}");
    }
}

/// The summary counts exactly the stored blocks: it neither omits blocks because stages were still working nor counts
/// the refused block.
#[test]
fn summary_of_a_failed_import_counts_imported_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chain.rlp");
    exported_chain(&file, 12);
    let mut blocks = decode(&file);
    let full = blocks.iter().rposition(|block| !block.transactions.is_empty()).unwrap();
    blocks[full].header.state_root = B256::repeat_byte(1);
    fs::write(&file, encode(&blocks)).unwrap();
    let home = folder.path().join("home");
    drop(native_home(&home));
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_evmd"))
        .args(["import", "-o", "json", "--home"])
        .args([&home, &file])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let summary: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let kept = &blocks[..full];
    let transactions: usize = kept.iter().map(|block| block.transactions.len()).sum();
    let gas: u64 = kept.iter().map(|block| block.header.gas_used).sum();
    assert_eq!(summary["imported"], full);
    assert_eq!(summary["transactions"], transactions);
    assert_eq!(summary["gas"], gas);
    assert_eq!(summary["head"]["number"], full);
}

#[test]
fn truncated_file_imports_its_complete_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chain.rlp");
    exported_chain(&file, 8);
    let blocks = decode(&file);
    let bytes = fs::read(&file).unwrap();
    let whole: usize = blocks[..5].iter().map(|block| block.rlp_bytes).sum();
    fs::write(&file, &bytes[..whole + 7]).unwrap();
    let home = native_home(&folder.path().join("home"));
    let error = import(&home, vec![file]).unwrap_err().to_string();
    assert!(error.contains("ends inside a block"), "{error}");
    assert_eq!(home.view().unwrap().number(), 5);
}

#[test]
fn garbage_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("garbage.rlp");
    let home = native_home(&folder.path().join("home"));
    for garbage in [&b"hello"[..], &[0xc0], &[0xff; 64], &[0xfb, 0x7f, 0xff, 0xff, 0xff, 0]] {
        fs::write(&file, garbage).unwrap();
        import(&home, vec![file.clone()]).unwrap_err();
    }
    import(&home, vec![PathBuf::from("/nonexistent/chain.rlp")]).unwrap_err();
    assert_eq!(home.view().unwrap().number(), 0);
}

#[test]
fn second_process_is_refused_with_the_pid_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let _home = native_home(folder.path());
    let Err(HomeError::Open(error)) = Home::open(folder.path()) else {
        panic!("the home folder is locked");
    };
    let error = error.to_string();
    assert!(error.contains(&std::process::id().to_string()), "{error}");
}

/// Number of blocks. Each has more than 400 bytes, so together they exceed the small map, whatever the size of the
/// commits is.
const SMALL_MAP_BLOCKS: u64 = 512;

#[test]
fn full_map_is_an_error_and_corrupts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chain.rlp");
    let head = exported_chain(&file, SMALL_MAP_BLOCKS);
    let path = folder.path().join("home");
    drop(native_home(&path));
    let config = path.join("config.toml");
    let settings = fs::read_to_string(&config).unwrap();
    let small = settings.replace("# chain-map-bytes = 1099511627776", "chain-map-bytes = 131072");
    assert_ne!(small, settings);
    fs::write(&config, small).unwrap();
    let home = Home::open(&path).unwrap();
    let error = import(&home, vec![file.clone()]).unwrap_err().to_string();
    assert!(error.contains("storage.chain-map-bytes") && error.contains("131072"), "{error}");
    drop(home);
    fs::write(&config, settings).unwrap();
    let home = Home::open(&path).unwrap();
    import(&home, vec![file]).unwrap();
    assert_eq!(home.view().unwrap().head.hash, head);
}

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn third_party_chains_import_to_their_heads() {
    let chains = [
        (
            "chains/ethrex-cancun-20",
            b256!("8f64c4436f7213cfdf02cfb9f45d012f1774dfb329b8803de5e7479b11586902"),
        ),
        (
            "chains/hive-sync-3000",
            b256!("d4a8090b9de16baae99540d32b02b4d970428fb1d07b4ea200bc6bb7894034a0"),
        ),
        (
            "execution-apis/tests",
            b256!("d226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7"),
        ),
    ];
    for (name, head) in chains {
        let chain = fixtures(name);
        let folder = tempfile::tempdir().unwrap();
        let genesis = fs::read_to_string(chain.join("genesis.json")).unwrap();
        let home = Home::init(folder.path(), &Genesis::from_json(&genesis).unwrap()).unwrap();
        import(&home, vec![chain.join("chain.rlp")]).unwrap();
        assert_eq!(home.view().unwrap().head.hash, head, "{name}");
    }
}
