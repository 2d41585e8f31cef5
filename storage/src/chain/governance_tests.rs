//! Tests the history and the rollback of governance rows, and the detection of damaged ones.

use super::*;
use crate::StateChanges;
use crate::chain::{BlockRecord, ChainDb, ChainOptions, OpenError};

const OPTIONS: ChainOptions = ChainOptions { map_bytes: 4 << 20 };

fn block(number: u64, rows: &[(GovernanceKey, &'static [u8])]) -> BlockRecord {
    let row = |(key, value): &(GovernanceKey, &'static [u8])| GovernanceRow {
        key: *key,
        value: Bytes::from_static(value),
    };
    BlockRecord {
        number,
        hash: alloy_primitives::B256::with_last_byte(number as u8),
        flags: crate::BlockFlags::NONE,
        header: Bytes::from_static(b"header"),
        body: Bytes::new(),
        senders: Vec::new(),
        receipts: Vec::new(),
        changes: StateChanges { accounts: Vec::new(), codes: Vec::new() }.into(),
        fees: Bytes::new(),
        module: Bytes::new(),
        governance: rows.iter().map(row).collect(),
        certificate: None,
    }
}

fn address(last: u8) -> Address {
    Address::with_last_byte(last)
}

/// Creates blocks 0 to 9. Proposal 1 changes in blocks 2, 5 and 8, its deposits are added and removed, and its keys
/// are next to those of another proposal.
fn chain(folder: &std::path::Path) -> ChainDb {
    use GovernanceKey::{Content, Deposit, List, Proposal, Vote};
    let chain = ChainDb::open(folder, OPTIONS).unwrap();
    let blocks = [
        block(0, &[]),
        block(1, &[]),
        block(2, &[(List, b"1"), (Proposal(1), b"a"), (Content(1), b"c")]),
        block(3, &[(Deposit(1, address(7)), b"x"), (Deposit(1, Address::repeat_byte(0xff)), b"y")]),
        block(4, &[(Proposal(2), b"q"), (Deposit(2, address(1)), b"z"), (List, b"12")]),
        block(5, &[(Proposal(1), b"b"), (Deposit(1, address(7)), b"xx")]),
        block(6, &[(Deposit(1, address(7)), b""), (Vote(1, address(9)), b"v")]),
        block(7, &[]),
        block(8, &[(Proposal(1), b""), (Vote(1, address(9)), b"")]),
        block(9, &[(Proposal(3), b"r")]),
    ];
    chain.append(&blocks).unwrap();
    chain
}

#[test]
fn items_are_read_as_they_were_after_any_block() {
    use GovernanceKey::{Content, List, Proposal};
    let folder = tempfile::tempdir().unwrap();
    let chain = chain(folder.path());
    let reader = chain.reader().unwrap();
    let at = |key, number| {
        reader.governance(key, number).unwrap().map(|(height, value)| (height, value.to_vec()))
    };
    assert_eq!(at(Proposal(1), 1), None);
    assert_eq!(at(Proposal(1), 4), Some((2, b"a".to_vec())));
    assert_eq!(at(Proposal(1), 7), Some((5, b"b".to_vec())));
    assert_eq!(at(Proposal(1), 8), None, "it no longer exists");
    assert_eq!(at(Proposal(1), u64::MAX), None);
    assert_eq!(at(Content(1), 9), Some((2, b"c".to_vec())));
    assert_eq!(at(Proposal(u64::MAX), 9), None);
    assert_eq!((at(List, 3), at(List, 4)), (Some((2, b"1".to_vec())), Some((4, b"12".to_vec()))));
    let items = |items, number| {
        let found = reader.governance_items(items, 1, number).unwrap();
        found.into_iter().map(|(address, value)| (address, value.to_vec())).collect::<Vec<_>>()
    };
    let last = (Address::repeat_byte(0xff), b"y".to_vec());
    use GovernanceItems::{Deposits, Votes};
    assert_eq!(items(Deposits, 2), []);
    assert_eq!(items(Deposits, 4), [(address(7), b"x".to_vec()), last.clone()]);
    assert_eq!(items(Deposits, 5), [(address(7), b"xx".to_vec()), last.clone()]);
    assert_eq!(items(Deposits, 6), [last]);
    assert_eq!(items(Votes, 7), [(address(9), b"v".to_vec())]);
    assert_eq!(items(Votes, 9), []);
    assert_eq!(reader.verify_governance().unwrap(), 15);
}

#[test]
fn truncation_removes_the_rows_of_removed_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let chain = chain(folder.path());
    assert_eq!(chain.truncate_after(5).unwrap(), 4);
    let reader = chain.reader().unwrap();
    let proposal = reader.governance(GovernanceKey::Proposal(1), u64::MAX).unwrap().unwrap();
    assert_eq!((proposal.0, &proposal.1[..]), (5, &b"b"[..]));
    assert_eq!(reader.governance(GovernanceKey::Proposal(3), u64::MAX).unwrap(), None);
    let deposits = reader.governance_items(GovernanceItems::Deposits, 1, u64::MAX).unwrap();
    assert_eq!(deposits.len(), 2, "block 6, which removed a deposit, was removed");
    assert_eq!(reader.verify_governance().unwrap(), 10);
}

#[test]
fn damaged_and_newer_rows_are_errors() {
    let key = [GovernanceKey::Proposal(1).to_bytes(), 5_u64.to_be_bytes().to_vec()].concat();
    for newer in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let chain = chain(folder.path());
        let table = chain.tables.governance;
        let mut txn = chain.env.write().unwrap();
        if newer {
            table.put(&mut txn, &key, &[ROW_VERSION + 1, b'b']).unwrap();
        } else {
            let row = table.rows.encode(b"another key", &[ROW_VERSION, b'b']).unwrap();
            table.table.put(&mut txn, &key, &row).unwrap();
        }
        chain.env.commit(txn).unwrap();
        let reader = chain.reader().unwrap();
        let damaged = |error| matches!(error, ReadError::Corrupt { table: "governance", .. });
        assert!(damaged(reader.governance(GovernanceKey::Proposal(1), 6).unwrap_err()));
        assert!(damaged(reader.verify_governance().unwrap_err()));
        assert!(reader.governance(GovernanceKey::Proposal(1), 4).unwrap().is_some());
    }
}

#[test]
fn chain_with_rows_of_this_version_can_be_reopened() {
    let folder = tempfile::tempdir().unwrap();
    drop(chain(folder.path()));
    let opened: Result<_, OpenError> = ChainDb::open(folder.path(), OPTIONS);
    assert_eq!(opened.unwrap().reader().unwrap().verify_governance().unwrap(), 15);
}
