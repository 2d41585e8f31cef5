//! Tests read transactions that are kept ready, and those of other processes.

// Helper functions of tests may panic, too.
#![allow(clippy::unwrap_used)]

#[path = "../blocks/mod.rs"]
mod blocks;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use blocks::{account, block, changes};
use storage::{ChainDb, ChainOptions, FlushBlock, IndexDb, IndexOptions};

/// Environment variable of a child process: the folder whose chain it reads.
const CHILD_FOLDER: &str = "STORAGE_TEST_READ_FOLDER";
const MAP_BYTES: u64 = 256 << 20;

fn open(folder: &Path) -> ChainDb {
    ChainDb::open(folder, ChainOptions { map_bytes: MAP_BYTES }).unwrap()
}

/// Returns the contents of the file that LMDB writes to when a read transaction begins or ends.
fn reader_table(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join("lock.mdb")).unwrap()
}

#[test]
fn readers_of_a_serving_process_write_nothing_to_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let chain = open(folder.path());
    chain.append(&[block(0)]).unwrap();
    let read_on_a_thread = |count: usize| {
        let read = || {
            let readers: Vec<_> = (0..count).map(|_| chain.reader().unwrap()).collect();
            assert!(readers.iter().all(|reader| reader.hash(0).unwrap().is_some()));
            assert_eq!(chain.meta("genesis").unwrap(), None);
            reader_table(folder.path())
        };
        std::thread::scope(|scope| scope.spawn(read).join().unwrap())
    };
    // Without ready transactions, LMDB writes each reader to the table.
    let before = reader_table(folder.path());
    assert_ne!(read_on_a_thread(1), before);
    chain.keep_readers_ready();
    for number in 1..4 {
        let before = reader_table(folder.path());
        assert_eq!(read_on_a_thread(40), before);
        assert_eq!(reader_table(folder.path()), before);
        chain.append(&[block(number)]).unwrap();
    }
    // LMDB begins the transaction of a copy itself, so the ready ones remain.
    for copy in 0..40 {
        chain.copy(folder.path().join(format!("copy-{copy}"))).unwrap();
    }
    let before = reader_table(folder.path());
    assert_eq!(read_on_a_thread(40), before);
    // A reader of an older commit is ended by the thread that writes next.
    let old = chain.reader().unwrap();
    chain.append(&[block(4)]).unwrap();
    let before = reader_table(folder.path());
    drop(old);
    assert_eq!(reader_table(folder.path()), before);
}

#[test]
fn ready_readers_see_the_newest_commit_and_keep_it() {
    let folder = tempfile::tempdir().unwrap();
    let chain = open(folder.path());
    chain.keep_readers_ready();
    let mut held = Vec::new();
    for number in 0..20 {
        chain.append(&[block(number)]).unwrap();
        // More readers are open at once than are kept ready.
        for _ in 0..100 {
            held.push((number, chain.reader().unwrap()));
        }
        if number % 3 == 2 {
            for (expected, reader) in held.drain(..) {
                assert_eq!(reader.head_number().unwrap(), Some(expected));
            }
            assert_eq!(chain.stats().readers, 0);
        }
        let reader = chain.reader().unwrap();
        assert_eq!(reader.head().unwrap(), Some((number, block(number).hash)));
        assert_eq!(chain.meta("key").unwrap().map_or(0, |value| u64::from(value[0])), number);
        drop(reader);
        chain.put_meta("key", &[number as u8 + 1]).unwrap();
    }
}

#[test]
fn ready_readers_do_not_make_the_file_larger() {
    let used_bytes = |ready: bool| {
        let folder = tempfile::tempdir().unwrap();
        let index = IndexDb::open(folder.path(), IndexOptions { map_bytes: MAP_BYTES }).unwrap();
        if ready {
            index.keep_readers_ready();
        }
        for number in 0..60 {
            let changes = changes(number);
            let block = FlushBlock {
                number,
                hash: block(number).hash,
                tx_hashes: &[],
                posting_keys: &[],
                changes: &changes,
            };
            index.flush(&[block]).unwrap();
            index.reader().unwrap().account(account(number)).unwrap();
        }
        index.stats().used_bytes
    };
    assert_eq!(used_bytes(true), used_bytes(false));
}

/// Not a test by itself: reads until its input ends.
#[test]
fn child_reads() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    let chain = open(folder.as_ref());
    let reader = chain.reader().unwrap();
    println!("\nreads {:?}", reader.head_number().unwrap());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop(reader);
}

#[test]
fn readers_of_another_process_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let chain = open(folder.path());
    chain.append(&[block(0)]).unwrap();
    assert_eq!(chain.stats().readers, 0);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_reads", "--nocapture"])
        .env(CHILD_FOLDER, folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // `lines` is kept, because the child fails if it cannot write.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("reads ")), "the child reads");
    let first = chain.stats();
    assert_eq!((first.readers, first.oldest_reader_age.is_some()), (1, true));
    // A reader of this process is younger.
    let own = chain.reader().unwrap();
    let second = chain.stats();
    assert_eq!(second.readers, 2);
    assert!(second.oldest_reader_age.unwrap() > Duration::ZERO);
    assert!(second.oldest_reader_age > first.oldest_reader_age);
    drop(own);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    drop(lines);
    assert_eq!(chain.stats().readers, 0);
    assert_eq!(chain.stats().oldest_reader_age, None);
}
