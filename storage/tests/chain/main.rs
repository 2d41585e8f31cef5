//! Tests the public interface of the `chain` environment.

// Helper functions of tests may panic, too.
#![allow(clippy::unwrap_used)]

#[path = "../blocks/mod.rs"]
mod blocks;

use std::ops::RangeInclusive;

use alloy_primitives::{B256, Bytes};
use blocks::block;
use storage::{BlockRecord, ChainDb, ChainOptions, ChainReader, OpenError, WriteError};

fn open(folder: &tempfile::TempDir) -> ChainDb {
    ChainDb::open(folder.path(), ChainOptions { map_bytes: 256 << 20 }).unwrap()
}

fn blocks(range: RangeInclusive<u64>) -> Vec<BlockRecord> {
    range.map(block).collect()
}

fn stored(reader: &ChainReader, number: u64) -> Option<BlockRecord> {
    let (hash, header) = reader.header(number).unwrap()?;
    assert_eq!(reader.hash(number).unwrap(), Some(hash));
    Some(BlockRecord {
        number,
        hash,
        flags: storage::BlockFlags::NONE,
        header,
        body: reader.body(number).unwrap()?,
        senders: reader.senders(number).unwrap()?,
        receipts: reader.receipts(number).unwrap()?,
        changes: reader.changes(number).unwrap()?.into(),
        fees: reader.fees(number).unwrap()?,
        module: reader.module(number).unwrap()?,
        governance: Vec::new(),
        certificate: None,
    })
}

#[test]
fn appended_blocks_are_read_back_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let chain = open(&folder);
    assert_eq!(chain.reader().unwrap().head().unwrap(), None);
    chain.append(&blocks(0..=4)).unwrap();
    chain.append(&blocks(5..=5)).unwrap();
    chain.append::<BlockRecord>(&[]).unwrap();
    chain.put_meta("genesis", b"{}").unwrap();
    drop(chain);
    let chain = open(&folder);
    let reader = chain.reader().unwrap();
    assert_eq!(reader.first().unwrap(), Some((0, block(0).hash)));
    assert_eq!(reader.head().unwrap(), Some((5, block(5).hash)));
    for number in 0..=5 {
        assert_eq!(stored(&reader, number), Some(block(number)));
    }
    assert_eq!(stored(&reader, 6), None);
    assert_eq!(chain.meta("genesis").unwrap(), Some(Bytes::from_static(b"{}")));
    assert_eq!(chain.meta("env.format").unwrap(), None);
}

#[test]
fn blocks_that_are_not_consecutive_are_refused_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let chain = open(&folder);
    chain.append(&blocks(7..=9)).unwrap();
    for (slice, expected, found) in [
        (blocks(11..=11), 10, 11),
        (blocks(9..=9), 10, 9),
        (vec![block(10), block(12)], 11, 12),
        (vec![block(10), block(10)], 11, 10),
    ] {
        match chain.append(&slice).unwrap_err() {
            WriteError::NotNext { expected: e, found: f, .. } => {
                assert_eq!((e, f), (expected, found));
            }
            other => panic!("{other}"),
        }
        assert_eq!(chain.reader().unwrap().head().unwrap(), Some((9, block(9).hash)));
    }
    chain.append(&blocks(10..=10)).unwrap();
}

#[test]
fn truncation_removes_all_rows_and_appending_continues() {
    let folder = tempfile::tempdir().unwrap();
    let chain = open(&folder);
    chain.append(&blocks(0..=20)).unwrap();
    assert_eq!(chain.truncate_after(12).unwrap(), 8);
    assert_eq!(chain.truncate_after(12).unwrap(), 0);
    assert_eq!(chain.truncate_after_and_put_meta(u64::MAX, "authority", b"a").unwrap(), 0);
    assert_eq!(chain.meta("authority").unwrap().unwrap(), b"a"[..]);
    let reader = chain.reader().unwrap();
    assert_eq!(reader.head().unwrap(), Some((12, block(12).hash)));
    assert_eq!(reader.body(13).unwrap(), None);
    assert_eq!(reader.module(13).unwrap(), None);
    chain.append(&blocks(13..=14)).unwrap();
    let reader = chain.reader().unwrap();
    assert_eq!(stored(&reader, 14), Some(block(14)));
}

#[test]
fn ranges_return_existing_blocks_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let chain = open(&folder);
    chain.append(&blocks(3..=9)).unwrap();
    let reader = chain.reader().unwrap();
    let fees: Vec<_> = reader.fees_range(0..=5).unwrap().map(Result::unwrap).collect();
    assert_eq!(fees, (3..=5).map(|n| (n, block(n).fees)).collect::<Vec<_>>());
    let fees: Vec<_> = reader.fees_range(8..=u64::MAX).unwrap().map(Result::unwrap).collect();
    assert_eq!(fees, (8..=9).map(|n| (n, block(n).fees)).collect::<Vec<_>>());
    assert_eq!(reader.fees_range(RangeInclusive::new(5, 4)).unwrap().count(), 0);
}

#[test]
fn a_reader_keeps_its_snapshot_on_any_thread() {
    let folder = tempfile::tempdir().unwrap();
    let chain = open(&folder);
    chain.append(&blocks(0..=3)).unwrap();
    let reader = chain.reader().unwrap();
    chain.append(&blocks(4..=4)).unwrap();
    chain.truncate_after(1).unwrap();
    let read = move || {
        let head = reader.head().unwrap();
        assert_eq!(stored(&reader, 3), Some(block(3)));
        head
    };
    let head = std::thread::spawn(read).join().unwrap();
    assert_eq!(head, Some((3, block(3).hash)));
    assert_eq!(chain.reader().unwrap().head().unwrap(), Some((1, block(1).hash)));
}

#[test]
fn readers_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let chain = open(&folder);
    assert_eq!(chain.stats().readers, 0);
    assert_eq!(chain.stats().oldest_reader_age, None);
    let before = chain.stats();
    let (first, second) = (chain.reader().unwrap(), chain.reader().unwrap());
    assert_eq!(chain.stats().readers, 2);
    let age = chain.stats().oldest_reader_age.unwrap();
    drop(first);
    assert_eq!(chain.stats().readers, 1);
    drop(second);
    assert!(age > std::time::Duration::ZERO);
    chain.append(&blocks(0..=0)).unwrap();
    let after = chain.stats();
    assert_eq!(after.readers, 0);
    assert!(after.last_txn_id > before.last_txn_id);
    assert!(after.used_bytes > before.used_bytes && after.used_bytes < after.map_bytes);
}

#[test]
fn too_many_readers_are_refused_with_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let chain = open(&folder);
    let readers: Vec<_> = (0..storage::MAX_READERS).map(|_| chain.reader().unwrap()).collect();
    match chain.reader().unwrap_err() {
        storage::ReadError::ReadersFull { limit, .. } => assert_eq!(limit, storage::MAX_READERS),
        other => panic!("{other}"),
    }
    assert_eq!(chain.stats().readers, storage::MAX_READERS);
    drop(readers);
    chain.reader().unwrap();
}

#[test]
fn full_map_is_an_error_and_keeps_existing_data() {
    let folder = tempfile::tempdir().unwrap();
    let small = ChainOptions { map_bytes: 1 << 20 };
    let chain = ChainDb::open(folder.path(), small).unwrap();
    let mut next = 0;
    let error = loop {
        match chain.append(&[block(next)]) {
            Ok(()) => next += 1,
            Err(error) => break error,
        }
    };
    assert!(next > 10);
    match &error {
        WriteError::MapFull { map_bytes, setting, .. } => {
            assert_eq!((*map_bytes, *setting), (1 << 20, "storage.chain-map-bytes"));
        }
        other => panic!("{other}"),
    }
    assert!(error.to_string().contains("storage.chain-map-bytes"), "{error}");
    let reader = chain.reader().unwrap();
    assert_eq!(reader.head().unwrap(), Some((next - 1, block(next - 1).hash)));
    drop((reader, chain));
    let chain = open(&folder);
    for number in 0..next {
        assert_eq!(stored(&chain.reader().unwrap(), number), Some(block(number)));
    }
    chain.append(&[block(next)]).unwrap();
}

#[test]
fn folder_can_be_opened_only_once() {
    let folder = tempfile::tempdir().unwrap();
    let chain = open(&folder);
    let again = ChainDb::open(folder.path(), ChainOptions::default());
    assert!(matches!(again.unwrap_err(), OpenError::AlreadyOpen { .. }));
    // A reader keeps the environment open; dropping the last reader closes it.
    let reader = chain.reader().unwrap();
    drop(chain);
    assert_eq!(reader.head().unwrap(), None::<(u64, B256)>);
    drop(reader);
    open(&folder);
}
