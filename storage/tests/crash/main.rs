//! Tests that after a crash at any moment the environments contain only complete blocks, including all
//! announced ones, and that a full disk causes an error but does not damage data.

// Helper functions of tests may panic, too.
#![allow(clippy::unwrap_used)]

#[path = "../blocks/mod.rs"]
mod blocks;
#[path = "../power/mod.rs"]
mod power;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use alloy_primitives::{B256, U256, keccak256};
use blocks::{account, block, changes};
use storage::trie::{EMPTY_ROOT_HASH, MIN_TRIE_CACHE_BYTES, Nibbles, NodeRead};
use storage::{
    ChainDb, ChainOptions, FlushBlock, IndexDb, IndexOptions, IndexReader, LiveTrie, ReadError,
    StateChanges, WriteError, update_state_root,
};

/// Environment variable of a child process: the folder to write to.
const CHILD_FOLDER: &str = "STORAGE_TEST_FOLDER";
/// Environment variable of a child process that ends by itself: the number of announcements.
const CHILD_ANNOUNCES: &str = "STORAGE_TEST_ANNOUNCES";
/// Large enough for everything that a child writes before it is killed.
const MAP_BYTES: u64 = 4 << 30;
/// Number of kills of each child.
const KILLS: u64 = 20;
/// Number of blocks in one flush.
const FLUSH_BLOCKS: u64 = 3;
/// Approximate number of blocks between checkpoints of the trie.
const CHECKPOINT_BLOCKS: u64 = 7;
/// Maximum size of a file of the child whose disk is full, in the shell's blocks of 512 bytes: 4 MiB.
const MAX_FILE_BLOCKS: u32 = 8192;

fn open_chain(folder: &Path) -> ChainDb {
    ChainDb::open(folder, ChainOptions { map_bytes: MAP_BYTES }).unwrap()
}

fn open_index(folder: &Path) -> IndexDb {
    IndexDb::open(folder, IndexOptions { map_bytes: MAP_BYTES }).unwrap()
}

/// Number of announcements that a child may still make; unlimited without [`CHILD_ANNOUNCES`].
struct Announcements(u64);

impl Announcements {
    fn new() -> Self {
        let max = std::env::var(CHILD_ANNOUNCES).ok();
        Self(max.map_or(u64::MAX, |max| max.parse().unwrap()))
    }

    /// Announces a block. Returns whether another announcement may follow.
    fn announce(&mut self, number: u64) -> bool {
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nwritten {number}").unwrap();
        out.flush().unwrap();
        self.0 -= 1;
        self.0 > 0
    }
}

fn next_block(chain: &ChainDb) -> u64 {
    chain.reader().unwrap().head().unwrap().map_or(0, |(number, _)| number + 1)
}

/// Not a test by itself: appends blocks until it is killed, the disk is full, or no announcement may follow.
#[test]
fn child_appends() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    let chain = open_chain(folder.as_ref());
    let mut next = next_block(&chain);
    let mut announcements = Announcements::new();
    let mut continues = true;
    while continues {
        let slice: Vec<_> = (next..next + 1 + next % 3).map(block).collect();
        match chain.append(&slice) {
            Ok(()) => continues = announcements.announce(slice[slice.len() - 1].number),
            Err(error @ WriteError::DiskFull { .. }) => return println!("\nrefused: {error}"),
            Err(error) => panic!("{error}"),
        }
        next += slice.len() as u64;
    }
}

/// Not a test by itself: flushes blocks until it is killed, or no announcement may follow.
#[test]
fn child_flushes() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    let index = open_index(folder.as_ref());
    let reader = index.reader().unwrap();
    let mut next = reader.flushed().unwrap().map_or(0, |number| number + 1);
    let at = reader.trie_block().unwrap();
    drop(reader);
    let mut trie = LiveTrie::new(at.map_or(EMPTY_ROOT_HASH, |at| at.1), MIN_TRIE_CACHE_BYTES);
    // Applies flushed blocks that are not in the trie records yet.
    for number in at.map_or(0, |at| at.0 + 1)..next {
        trie.update(&index.reader().unwrap(), &changes(number)).unwrap();
    }
    let mut announcements = Announcements::new();
    let mut continues = true;
    while continues {
        let batch: Vec<_> =
            (next..next + FLUSH_BLOCKS).map(|number| (number, changes(number))).collect();
        for (_, changes) in &batch {
            trie.update(&index.reader().unwrap(), changes).unwrap();
        }
        let blocks: Vec<_> = batch.iter().map(|(n, changes)| flush_block(*n, changes)).collect();
        index.flush(&blocks).unwrap();
        next += FLUSH_BLOCKS;
        if next % CHECKPOINT_BLOCKS < FLUSH_BLOCKS {
            index.write_trie(&trie.checkpoint(next - 1)).unwrap();
            trie.written(next - 1);
        }
        continues = announcements.announce(next - 1);
    }
}

fn flush_block(number: u64, changes: &StateChanges) -> FlushBlock<'_> {
    let hash = keccak256(number.to_be_bytes());
    FlushBlock { number, hash, tx_hashes: &[], posting_keys: &[], changes }
}

fn root_of(reader: &impl NodeRead<Error = ReadError>) -> B256 {
    let root = reader.node(None, &Nibbles::new()).unwrap();
    root.map_or(EMPTY_ROOT_HASH, |node| node.root_hash())
}

fn child(test: &str, folder: &Path) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]).env(CHILD_FOLDER, folder).stdout(Stdio::piped());
    child
}

/// Kills a child after it has announced `lines` blocks. Returns the last block it announced. The child
/// continues while its lines are read, so the kill can happen at any point.
fn kill_after(test: &str, folder: &Path, lines: u64) -> u64 {
    let mut child = child(test, folder).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut announced = None;
    let mut seen = 0;
    for line in out.lines() {
        let line = line.unwrap();
        let Some(number) = line.strip_prefix("written ") else { continue };
        announced = number.parse().ok();
        seen += 1;
        if seen == lines {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    announced.expect("the child announced a block")
}

fn check_chain(folder: &Path, announced: u64) {
    let chain = open_chain(folder);
    let reader = chain.reader().unwrap();
    let (head, hash) = reader.head().unwrap().unwrap();
    assert!(head >= announced, "block {announced} was announced, head is {head}");
    assert_eq!(hash, block(head).hash);
    for number in 0..=head {
        let expected = block(number);
        assert_eq!(reader.header(number).unwrap(), Some((expected.hash, expected.header)));
        assert_eq!(reader.body(number).unwrap(), Some(expected.body));
        assert_eq!(reader.senders(number).unwrap(), Some(expected.senders));
        assert_eq!(reader.receipts(number).unwrap(), Some(expected.receipts));
        assert_eq!(reader.changes(number).unwrap().as_ref(), Some(&*expected.changes));
        assert_eq!(reader.fees(number).unwrap(), Some(expected.fees));
        assert_eq!(reader.module(number).unwrap(), Some(expected.module));
    }
    assert_eq!(reader.body(head + 1).unwrap(), None);
}

#[test]
fn kill_while_appending_loses_no_announced_block() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..KILLS {
        let announced = kill_after("child_appends", folder.path(), 1 + round * 7 % 11);
        check_chain(folder.path(), announced);
    }
}

fn check_index(folder: &Path, announced: u64) {
    let index = open_index(folder);
    let reader = index.reader().unwrap();
    let (flushed, hash) = reader.flushed_block().unwrap().unwrap();
    assert!(flushed >= announced);
    assert_eq!(hash, keccak256(flushed.to_be_bytes()));
    let mut accounts = BTreeMap::new();
    let mut slots: BTreeMap<_, BTreeMap<U256, U256>> = BTreeMap::new();
    for number in 0..=flushed {
        for change in changes(number).accounts {
            accounts.insert(change.address, change.account.unwrap());
            let slots = slots.entry(change.address).or_default();
            if change.wiped {
                slots.clear();
            }
            slots.extend(change.slots);
        }
        let code = number.to_be_bytes();
        assert_eq!(reader.code(keccak256(code)).unwrap().unwrap()[..], code);
        let hash = keccak256(number.to_be_bytes());
        assert_eq!(reader.block_number(hash).unwrap(), Some(number));
    }
    for address in (0..64).map(account) {
        assert_eq!(reader.account(address).unwrap(), accounts.get(&address).copied());
        for slot in (0..16).map(U256::from) {
            let expected = slots.get(&address).and_then(|slots| slots.get(&slot)).copied();
            assert_eq!(reader.storage(address, slot).unwrap(), expected.unwrap_or_default());
        }
    }
    check_trie(&reader, flushed);
}

/// Checks that the trie records are complete and belong to the stated block, and that applying later changes to
/// them yields the root of the last flushed block.
fn check_trie(reader: &IndexReader, flushed: u64) {
    let Some((at, root)) = reader.trie_block().unwrap() else { return };
    assert!(at <= flushed);
    assert_eq!(root, root_of(reader));
    let mut accounts = BTreeMap::new();
    let mut trie = LiveTrie::new(root, MIN_TRIE_CACHE_BYTES);
    for number in 0..=flushed {
        let changes = changes(number);
        for change in &changes.accounts {
            let account = change.account.unwrap();
            let (now, slots) = accounts
                .entry(change.address)
                .or_insert_with(|| (account, BTreeMap::<U256, U256>::new()));
            *now = account;
            if change.wiped {
                slots.clear();
            }
            slots.extend(change.slots.iter().copied());
        }
        if number < at {
            continue;
        }
        let scratch = storage::trie::state_root_from_scratch(accounts.iter().map(
            |(address, (account, slots))| {
                (*address, *account, slots.iter().map(|(slot, value)| (*slot, *value)))
            },
        ));
        if number > at {
            let (pure, _) =
                update_state_root(&trie.nodes(reader), &changes, trie.state_root()).unwrap();
            assert_eq!(pure, scratch);
            trie.update(reader, &changes).unwrap();
        }
        assert_eq!(trie.state_root(), scratch, "block {number}");
    }
}

#[test]
fn kill_while_flushing_loses_no_announced_block() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..KILLS {
        let announced = kill_after("child_flushes", folder.path(), 1 + round * 5 % 13);
        check_index(folder.path(), announced);
    }
}

/// A limit on the size of files simulates a full disk: the system does not let the file grow.
#[test]
fn full_disk_is_an_error_and_keeps_existing_data() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("ulimit -f {MAX_FILE_BLOCKS}; trap '' XFSZ; exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child_appends", "--nocapture"])
        .env(CHILD_FOLDER, folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("refused: no disk space left"), "{text}");
    let last = text.lines().filter_map(|line| line.strip_prefix("written ")).next_back();
    let last: u64 = last.unwrap().parse().unwrap();
    check_chain(folder.path(), last);
    let chain = open_chain(folder.path());
    let next = next_block(&chain);
    chain.append(&[block(next)]).unwrap();
    drop(chain);
    check_chain(folder.path(), next);
}
