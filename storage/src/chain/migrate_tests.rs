//! Migrates a format-3 environment with an interruption at every transaction.

use std::path::Path;

use alloy_primitives::{Address, B256, Bytes, Log, U256, keccak256};

use super::*;
use crate::chain::{BLOCK_TABLES, BlockRecord, CHAIN_FORMAT, ChainOptions, KIND, MIGRATED_FORMAT};
use crate::env::{Environment, Opened};
use crate::kind::Kind;
use crate::receipt::{ReceiptOutcome, StoredReceipt};
use crate::{Account, AccountChange, StateChanges};

const OPTIONS: ChainOptions = ChainOptions { map_bytes: 64 << 20 };
/// First block, and number of blocks, which fill several batches of the size that tests use.
const FIRST: u64 = 5;
const BLOCKS: u64 = 23;
const GENESIS: &[u8] = b"{\"config\": {}}";

fn block(number: u64) -> BlockRecord {
    let seed = keccak256(number.to_be_bytes());
    let address = Address::from_word(seed);
    let log = Log::new_unchecked(address, vec![seed, B256::ZERO], Bytes::from(seed.to_vec()));
    let account =
        Some(Account { nonce: number, balance: U256::from(number), ..Account::default() });
    let slots = vec![(U256::from(1), U256::from(number))];
    let change = AccountChange { address, account, wiped: false, slots };
    BlockRecord {
        number,
        hash: seed,
        flags: crate::BlockFlags::NONE,
        header: seed.repeat(17).into(),
        body: vec![number as u8; (number as usize % 3) * 20_000].into(),
        senders: vec![address; number as usize % 4],
        receipts: vec![StoredReceipt {
            tx_type: 2,
            outcome: ReceiptOutcome::Status(true),
            cumulative_gas_used: 21_000,
            logs: vec![log],
        }],
        changes: StateChanges { accounts: vec![change], codes: Vec::new() }.into(),
        fees: seed.repeat(3).into(),
        module: Bytes::new(),
        governance: Vec::new(),
        certificate: None,
    }
}

/// Writes the environment as a program with format 3 did: without checksums and without block flags.
fn write_format_3(folder: &Path) {
    let kind = Kind { format: MIGRATED_FORMAT, ..KIND };
    let names = BLOCK_TABLES.map(|(name, _)| name);
    let Opened { env, meta, tables, .. } =
        Environment::open(folder, kind, OPTIONS.map_bytes, names, false).unwrap();
    let mut txn = env.write().unwrap();
    meta.table.delete(&mut txn, b"env.check").unwrap();
    meta.table.put(&mut txn, b"user.genesis", GENESIS).unwrap();
    for number in FIRST..FIRST + BLOCKS {
        let block = block(number);
        let key = number.to_be_bytes();
        let encoded = |encode: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            encode(&mut out);
            out
        };
        let rows = [
            [block.hash.as_slice(), &block.header].concat(),
            block.body.to_vec(),
            encoded(&|out| codec::encode_senders(out, &block.senders)),
            encoded(&|out| codec::encode_receipts(out, &block.receipts)),
            encoded(&|out| codec::encode_changes(out, &block.changes)),
            block.fees.to_vec(),
            block.module.to_vec(),
        ];
        for (table, row) in tables.iter().zip(rows) {
            table.put(&mut txn, &key, &row).unwrap();
        }
    }
    env.commit(txn).unwrap();
}

fn assert_is_migrated(folder: &Path) {
    let chain = ChainDb::open(folder, OPTIONS).unwrap();
    let reader = chain.reader().unwrap();
    assert_eq!(reader.numbers().unwrap(), Some(FIRST..=FIRST + BLOCKS - 1));
    for number in FIRST..FIRST + BLOCKS {
        let expected = block(number);
        assert_eq!(reader.verify_block(number).unwrap(), 7);
        assert_eq!(reader.header(number).unwrap(), Some((expected.hash, expected.header)));
        assert_eq!(reader.body(number).unwrap(), Some(expected.body));
        assert_eq!(reader.senders(number).unwrap(), Some(expected.senders));
        assert_eq!(reader.receipts(number).unwrap(), Some(expected.receipts));
        assert_eq!(reader.changes(number).unwrap().as_ref(), Some(&*expected.changes));
        assert_eq!(reader.fees(number).unwrap(), Some(expected.fees));
        assert_eq!(reader.module(number).unwrap(), Some(expected.module));
    }
    assert_eq!(chain.meta("genesis").unwrap(), Some(Bytes::from_static(GENESIS)));
    chain.append(&[block(FIRST + BLOCKS)]).unwrap();
    chain.truncate_after(FIRST + BLOCKS - 1).unwrap();
}

/// Opens the old environment and executes one step, which is committed or aborted.
fn one_step(folder: &Path, commit: bool) -> Step {
    let (chain, is_old) = ChainDb::open_any(folder, OPTIONS, true).unwrap();
    assert!(is_old);
    let mut txn = chain.env.write().unwrap();
    let step = step(&chain, &mut txn).unwrap();
    if commit {
        chain.env.commit(txn).unwrap();
    }
    step
}

#[test]
fn migration_continues_after_an_interruption_at_every_transaction() {
    let folder = tempfile::tempdir().unwrap();
    write_format_3(folder.path());
    let mut steps = 0;
    let mut next = FIRST;
    loop {
        // An aborted step leaves no changes.
        let lost = one_step(folder.path(), false);
        let done = one_step(folder.path(), true);
        steps += 1;
        match (lost, done) {
            (Step::Batch(lost), Step::Batch(done)) => {
                assert_eq!(lost, done);
                assert!(done.next > next);
                next = done.next;
                let error = ChainDb::open(folder.path(), OPTIONS).unwrap_err();
                assert!(matches!(error, OpenError::NotMigrated { found: 3, .. }), "{error}");
                assert!(error.to_string().contains("evmd start"), "{error}");
            }
            (Step::Finished, Step::Finished) => break,
            _ => panic!("the aborted and the committed step differ"),
        }
        assert!(steps < 100);
    }
    assert!(steps > 5, "{steps} steps");
    assert_is_migrated(folder.path());
}

#[test]
fn a_migration_without_interruption_reports_its_progress() {
    let folder = tempfile::tempdir().unwrap();
    write_format_3(folder.path());
    let mut reports = Vec::new();
    let chain = ChainDb::open_or_migrate(folder.path(), OPTIONS, |at| reports.push(at)).unwrap();
    drop(chain);
    assert!(reports.len() > 5);
    assert!(reports.is_sorted_by_key(|at| at.next));
    assert_eq!(reports.last().unwrap().next, FIRST + BLOCKS);
    assert_is_migrated(folder.path());
    let again = ChainDb::open_or_migrate(folder.path(), OPTIONS, |_| panic!("nothing to do"));
    drop(again.unwrap());
}

#[test]
fn an_environment_without_blocks_is_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let kind = Kind { format: MIGRATED_FORMAT, ..KIND };
    let opened = Environment::open(folder.path(), kind, OPTIONS.map_bytes, ["headers"], false);
    let Opened { env, meta, .. } = opened.unwrap();
    let mut txn = env.write().unwrap();
    meta.table.delete(&mut txn, b"env.check").unwrap();
    env.commit(txn).unwrap();
    drop(env);
    drop(ChainDb::open_or_migrate(folder.path(), OPTIONS, |_| {}).unwrap());
    let chain = ChainDb::open(folder.path(), OPTIONS).unwrap();
    assert_eq!(chain.reader().unwrap().head().unwrap(), None);
}

#[test]
fn damaged_format_number_does_not_start_a_migration() {
    for bit in 0..32 {
        let folder = tempfile::tempdir().unwrap();
        let chain = ChainDb::open(folder.path(), OPTIONS).unwrap();
        chain.append(&[block(FIRST)]).unwrap();
        let mut txn = chain.env.write().unwrap();
        let found = CHAIN_FORMAT ^ 1 << bit;
        // Tests the format numbers that differ in one of the bits 0 to 30, and the one that is migrated.
        let found = if bit == 31 { MIGRATED_FORMAT } else { found };
        chain.tables.meta.table.put(&mut txn, b"env.format", &found.to_be_bytes()).unwrap();
        chain.env.commit(txn).unwrap();
        drop(chain);
        let error = ChainDb::open_or_migrate(folder.path(), OPTIONS, |_| {}).unwrap_err();
        assert!(
            matches!(error, OpenError::Format { .. } | OpenError::Damaged { .. }),
            "format {found}: {error}"
        );
    }
}

/// Environment variable of the child process: the folder to migrate.
const CHILD_FOLDER: &str = "STORAGE_TEST_MIGRATES";

/// Runs in a child process: migrates until it is killed. Does nothing in an ordinary test run.
#[test]
fn child_migrates() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    let chain = ChainDb::open_or_migrate(Path::new(&folder), OPTIONS, |at| {
        println!("\nnext {}", at.next);
    });
    drop(chain.unwrap());
    println!("\nmigrated");
}

#[test]
fn migration_survives_repeated_kills() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().unwrap();
    write_format_3(folder.path());
    let mut reached = FIRST;
    for kills in 0..=BLOCKS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "chain::migrate::tests::child_migrates", "--nocapture"])
            .env(CHILD_FOLDER, folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut lines = lines.filter(|line| line.starts_with("next ") || line == "migrated");
        let line = lines.next().expect("the child reports its progress");
        // The child is killed while it writes the next batch.
        child.kill().unwrap();
        child.wait().unwrap();
        let Some(next) = line.strip_prefix("next ") else {
            assert!(kills > 2, "the migration ended after {kills} kills");
            break;
        };
        let next: u64 = next.parse().unwrap();
        assert!(next > reached, "committed batches are not repeated");
        reached = next;
    }
    drop(ChainDb::open_or_migrate(folder.path(), OPTIONS, |_| {}).unwrap());
    assert_is_migrated(folder.path());
}
