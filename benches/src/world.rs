//! A home folder with many funded accounts, generated in bulk: block 0 is a small genesis, and each
//! later block only changes the state of up to a million accounts. The folder is kept under `target/`
//! and copied for each run.

use crate::{token, workload::cache_folder};
use alloy_consensus::Header;
use alloy_primitives::{Address, Bytes, KECCAK256_EMPTY, U256, keccak256};
use alloy_rlp::Decodable;
use chain::Genesis;
use home::Home;
use state::StateTrie;
use std::{
    fs,
    path::{Path, PathBuf},
};
use storage::{
    Account, AccountChange, BlockRecord, FlushBlock, StateChanges, trie::TRIE_CACHE_BYTES_DEFAULT,
};

/// Timestamp of genesis, in seconds.
const GENESIS_TIME: u64 = 1_700_000_000;
/// Accounts in one block of the bulk load.
const CHUNK: usize = 1_000_000;
/// Version of the generated folder. It must be incremented if the contents change.
const VERSION: u32 = 3;

/// The genesis of the benchmarks: the development chain with a block gas limit of `gas`, and a base
/// fee that rises only slowly with full blocks.
pub fn genesis(gas: u64) -> Genesis {
    let text = Genesis::native_dev(GENESIS_TIME).to_json();
    let mut file: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
    file["gasLimit"] = format!("{gas:#x}").into();
    let section = &mut file["config"]["evmd"];
    section["maxGas"] = gas.to_string().into();
    section["feemarket"]["params"]["base_fee_change_denominator"] = 1_000_000.into();
    Genesis::from_json(&file.to_string()).expect("a valid genesis")
}

/// Copies the home with these funded accounts to `to`. With `with_token`, each of them also holds
/// 10^18 units of the token.
pub fn copy_home(accounts: &[Address], with_token: bool, gas: u64, to: &Path) -> Home {
    let suffix = if with_token { "-token" } else { "" };
    let name = format!(
        "home-{}{suffix}-gas{gas}-v{VERSION}.{}.{}",
        accounts.len(),
        storage::CHAIN_FORMAT,
        storage::INDEX_FORMAT
    );
    let cached = cache_folder().join(name);
    if !cached.exists() {
        let partial = cached.with_extension("making");
        if partial.exists() {
            fs::remove_dir_all(&partial)
                .expect("the leftovers of an interrupted run can be removed");
        }
        make_home(accounts, with_token, gas, &partial);
        fs::rename(&partial, &cached).expect("renamed");
    }
    copy_folder(&cached, to);
    Home::open(to).expect("a home that was just copied")
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let (path, target): (PathBuf, _) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, &target).expect("copied");
        }
    }
}

fn make_home(accounts: &[Address], with_token: bool, gas: u64, path: &Path) {
    eprintln!("generating a home with {} accounts, once", accounts.len());
    let home = Home::init(path, &genesis(gas)).expect("a fresh folder");
    let blocks = home.chain.reader().expect("a reader");
    let (_, first) = blocks.header(0).expect("readable").expect("there");
    let (fees, module) = (blocks.fees(0).expect("readable"), blocks.module(0).expect("readable"));
    let body = blocks.body(0).expect("readable").expect("there");
    let (fees, module) = (fees.expect("there"), module.expect("there"));
    let mut header = Header::decode(&mut first.as_ref()).expect("as it was written");
    let mut sorted = accounts.to_vec();
    sorted.sort_unstable();
    let mut chunks: Vec<_> = sorted.chunks(CHUNK).map(with_ether).collect();
    if with_token {
        chunks.extend(sorted.chunks(CHUNK).map(with_tokens));
    }
    let mut trie = StateTrie::open(&home.index, TRIE_CACHE_BYTES_DEFAULT).expect("readable");
    for changes in chunks {
        let root = trie.update(&changes).expect("a sound trie below");
        header.parent_hash = header.hash_slow();
        header.number += 1;
        header.timestamp += 1;
        header.state_root = root;
        let record = BlockRecord {
            number: header.number,
            hash: header.hash_slow(),
            flags: storage::BlockFlags::NONE,
            header: alloy_rlp::encode(&header).into(),
            body: body.clone(),
            senders: Vec::new(),
            receipts: Vec::new(),
            changes: changes.into(),
            fees: fees.clone(),
            module: module.clone(),
            governance: Vec::new(),
            certificate: None,
        };
        home.chain.append(&[&record]).expect("appended");
        let block = FlushBlock {
            number: record.number,
            hash: record.hash,
            tx_hashes: &[],
            posting_keys: &[],
            changes: &record.changes,
        };
        home.index.flush(&[block]).expect("flushed");
        write_trie(&home, &mut trie);
    }
}

fn write_trie(home: &Home, trie: &mut StateTrie) {
    let checkpoint = trie.checkpoint().expect("there are blocks");
    home.index.write_trie(&checkpoint).expect("written");
    trie.written(checkpoint.number);
}

fn with_ether(addresses: &[Address]) -> StateChanges {
    // A thousand ether: enough for the fees of any run.
    let balance = U256::from(10u64).pow(U256::from(21));
    let account = Some(Account { nonce: 0, balance, code_hash: KECCAK256_EMPTY });
    let change = |address: &Address| AccountChange {
        address: *address,
        account,
        wiped: false,
        slots: Vec::new(),
    };
    StateChanges { accounts: addresses.iter().map(change).collect(), codes: Vec::new() }
}

fn with_tokens(addresses: &[Address]) -> StateChanges {
    let code: Bytes = token::code();
    let code_hash = keccak256(&code);
    let units = U256::from(10u64).pow(U256::from(18));
    let mut slots: Vec<_> =
        addresses.iter().map(|holder| (token::balance_slot(*holder), units)).collect();
    slots.sort_unstable();
    let account = Some(Account { nonce: 1, balance: U256::ZERO, code_hash });
    StateChanges {
        accounts: vec![AccountChange { address: token::TOKEN, account, wiped: false, slots }],
        codes: vec![(code_hash, code)],
    }
}
