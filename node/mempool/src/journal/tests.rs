use super::*;
use alloy_consensus::{SignableTransaction, TxLegacy};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{B256, Signature, U256, keccak256};
use transactions::Transaction;

pub(super) const GENESIS: B256 = B256::repeat_byte(9);

pub(super) fn tx(nonce: u64) -> RecoveredTx {
    let signature = Signature::new(U256::ONE, U256::ONE, false);
    let body = TxLegacy { nonce, chain_id: Some(1), ..TxLegacy::default() };
    let tx = Transaction::Legacy(body.into_signed(signature));
    let raw = Bytes::from(tx.encoded_2718());
    let sender = Address::with_last_byte(nonce as u8);
    RecoveredTx {
        hash: keccak256(&raw),
        raw,
        tx,
        sender,
        high_s: false,
        authorities: OnceLock::new(),
        cosmos: None,
    }
}

pub(super) fn entry(nonce: u64) -> Entry {
    Entry { raw: tx(nonce).raw, sender: tx(nonce).sender }
}

/// Reads the transactions in the bytes of a file of the chain [`GENESIS`].
pub(super) fn read(bytes: &[u8]) -> Records {
    match Found::in_file(bytes, GENESIS) {
        Found::Usable(_, records) => records,
        Found::Other { entries, .. } => Records { entries, ..Records::default() },
    }
}

/// Returns the copies of `journal` that are kept in a folder.
fn kept(folder: &Path) -> Vec<Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let kept = files.filter(|path| path.to_string_lossy().contains("journal.kept-"));
    kept.map(|path| fs::read(path).unwrap()).collect()
}

/// Encodes a record of version 1.
fn record_v1(nonce: u64) -> Vec<u8> {
    let Entry { raw, sender } = entry(nonce);
    let covered = [sender.as_slice(), &raw].concat();
    let length = u32::try_from(raw.len()).unwrap().to_be_bytes();
    [&length, &crc32fast::hash(&covered).to_be_bytes(), covered.as_slice()].concat()
}

pub(super) fn write_journal(path: &Path, count: u64) {
    let (mut journal, _) = Journal::open(path, false, GENESIS).unwrap();
    for nonce in 0..count {
        journal.push(&tx(nonce));
    }
    journal.write().unwrap();
}

#[test]
fn written_transactions_survive_a_kill_of_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    write_journal(&path, 3);
    let (mut journal, entries) = Journal::open(&path, true, GENESIS).unwrap();
    assert_eq!(entries, [entry(0), entry(1), entry(2)]);
    journal.push(&tx(3));
    journal.write().unwrap();
    let (_, entries) = Journal::open(&path, false, GENESIS).unwrap();
    assert_eq!(entries.len(), 4);
    let again = entries[3].clone().recovered(1).unwrap();
    assert_eq!((again.hash, again.sender), (tx(3).hash, tx(3).sender));
}

#[test]
fn retracted_transaction_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (mut journal, _) = Journal::open(&path, false, GENESIS).unwrap();
    journal.push(&tx(0));
    let before = journal.push(&tx(1));
    journal.retract(before);
    journal.push(&tx(2));
    journal.write().unwrap();
    assert_eq!(Journal::open(&path, false, GENESIS).unwrap().1, [entry(0), entry(2)]);
}

#[test]
fn truncation_keeps_the_records_before_it_and_a_flipped_bit_all_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    write_journal(&path, 3);
    let whole = fs::read(&path).unwrap();
    let record = (whole.len() - HEADER_BYTES) / 3;
    for at in HEADER_BYTES..whole.len() {
        let before = (at - HEADER_BYTES) / record;
        let cut = read(&whole[..at]);
        assert_eq!((cut.entries.len(), cut.damaged), (before, 0), "cut at {at}");
        assert_eq!(cut.valid, before * record, "cut at {at}");
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            let mut others = vec![entry(0), entry(1), entry(2)];
            others.remove(before);
            assert_eq!(read(&flipped).entries, others, "bit {bit} flipped at {at}");
        }
    }
    // After a truncation, appended records are readable, and no copy is needed.
    fs::write(&path, &whole[..whole.len() - 5]).unwrap();
    let (mut journal, entries) = Journal::open(&path, false, GENESIS).unwrap();
    assert_eq!(entries.len(), 2);
    journal.push(&tx(9));
    journal.write().unwrap();
    assert_eq!(Journal::open(&path, false, GENESIS).unwrap().1.last(), Some(&entry(9)));
    assert_eq!(kept(folder.path()), Vec::<Vec<u8>>::new());
}

#[test]
fn copy_of_a_damaged_journal_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    write_journal(&path, 3);
    let whole = fs::read(&path).unwrap();
    let record = (whole.len() - HEADER_BYTES) / 3;
    // Damages a record in the middle, and one at the end.
    for (n, undamaged) in [(1, [entry(0), entry(2)]), (2, [entry(0), entry(1)])] {
        let mut damaged = whole.clone();
        damaged[HEADER_BYTES + n * record + 10] ^= 1;
        fs::write(&path, &damaged).unwrap();
        // The first start replaces the file with an undamaged one, so the second makes no copy.
        for _ in 0..2 {
            assert_eq!(Journal::open(&path, false, GENESIS).unwrap().1, undamaged);
            let copies = kept(folder.path());
            assert_eq!(copies.iter().filter(|copy| **copy == damaged).count(), 1);
            assert_eq!(copies.len(), n);
        }
    }
}

#[test]
fn journal_of_another_chain_or_version_is_kept_and_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    write_journal(&path, 2);
    let ours = fs::read(&path).unwrap();
    let other_chain = Journal::open(&path, false, B256::repeat_byte(8)).unwrap().1;
    assert_eq!(other_chain, [], "transactions of another chain are not used");
    assert_eq!(kept(folder.path()), std::slice::from_ref(&ours));
    // An empty journal of another chain needs no copy.
    assert_eq!(Journal::open(&path, false, GENESIS).unwrap().1, []);
    assert_eq!(kept(folder.path()).len(), 1);
    for version in [0, 3, 255] {
        let mut other = ours.clone();
        other[7] = version;
        fs::write(&path, &other).unwrap();
        let (mut journal, entries) = Journal::open(&path, true, GENESIS).unwrap();
        assert_eq!(entries, []);
        journal.push(&tx(5));
        journal.write().unwrap();
        drop(journal);
        assert!(kept(folder.path()).contains(&other), "version {version}");
        assert_eq!(Journal::open(&path, false, GENESIS).unwrap().1, [entry(5)]);
    }
    assert_eq!(kept(folder.path()).len(), 4);
}

#[test]
fn journal_of_version_1_is_read_and_rewritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let first = [b"evmdtxs\x01".as_slice(), &record_v1(0), &record_v1(1), &record_v1(2)].concat();
    fs::write(&path, &first).unwrap();
    assert!(has_transactions(&path).unwrap());
    let all = [entry(0), entry(1), entry(2)];
    assert_eq!(Journal::open(&path, false, GENESIS).unwrap().1, all);
    assert_eq!(read(&fs::read(&path).unwrap()).entries, all, "the new file has version 2");
    assert_eq!(kept(folder.path()), Vec::<Vec<u8>>::new());
    assert_eq!(Journal::open(&path, false, B256::ZERO).unwrap().1, []);
    // A damaged record is skipped by its length.
    let mut damaged = first;
    damaged[8 + record_v1(0).len() + 10] ^= 1;
    fs::write(&path, &damaged).unwrap();
    assert_eq!(Journal::open(&path, false, GENESIS).unwrap().1, [entry(0), entry(2)]);
    assert!(kept(folder.path()).contains(&damaged));
    // A header alone contains no transactions, in either version.
    fs::write(&path, b"evmdtxs\x01").unwrap();
    assert!(!has_transactions(&path).unwrap());
    drop(Journal::open(&path, false, GENESIS).unwrap());
    assert!(!has_transactions(&path).unwrap());
}

/// The record of the outer transaction is damaged. The client that created it does not know the salt.
#[test]
fn record_inside_a_transaction_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (mut journal, _) = Journal::open(&path, false, GENESIS).unwrap();
    let carrier = RecoveredTx { raw: record_v1(7).into(), ..tx(0) };
    journal.push(&carrier);
    journal.push(&tx(1));
    journal.write().unwrap();
    let mut damaged = fs::read(&path).unwrap();
    damaged[HEADER_BYTES + 2] ^= 1;
    fs::write(&path, &damaged).unwrap();
    assert_eq!(Journal::open(&path, false, GENESIS).unwrap().1, [entry(1)]);
}

#[test]
fn rewrite_keeps_transactions_of_blocks_that_are_not_durable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    write_journal(&path, 5);
    let (mut journal, _) = Journal::open(&path, false, GENESIS).unwrap();
    journal.record_block(7, Arc::new(vec![Arc::new(tx(0))]), 6);
    journal.record_block(8, Arc::new(vec![Arc::new(tx(1))]), 6);
    journal.compact(&Mempool::default(), 7, Instant::now()).unwrap();
    let (_, entries) = Journal::open(&path, false, GENESIS).unwrap();
    assert_eq!(entries, [entry(1)]);
    journal.store_for_retry(vec![Arc::new(tx(2))]);
    journal.compact(&Mempool::default(), 7, Instant::now()).unwrap();
    assert_eq!(Journal::open(&path, false, GENESIS).unwrap().1, [entry(1), entry(2)]);
    assert_eq!(journal.take_for_retry().len(), 1);
    journal.compact(&Mempool::default(), 7, Instant::now()).unwrap();
    // A rewrite is due only when the file has grown by more than [`SLACK_BYTES`] since the last one.
    journal.bytes += SLACK_BYTES;
    assert!(!journal.is_bloated(&Mempool::default(), Instant::now()));
    journal.bytes += 1;
    assert!(journal.is_bloated(&Mempool::default(), Instant::now()));
    journal.push(&tx(4));
    journal.write().unwrap();
    assert_eq!(Journal::open(&path, false, GENESIS).unwrap().1, [entry(1), entry(4)]);
    assert_ne!(tx(4).hash, B256::ZERO);
}

/// Set in the process that [`transactions_are_journalled_without_free_descriptors`] starts.
const CHILD: &str = "EVMD_TEST_NO_DESCRIPTORS";
/// Maximum number of open files of the child.
const CHILD_FILES: u64 = 64;

/// The limit of open files applies to the whole process, so the test runs in a child process.
#[test]
fn transactions_are_journalled_without_free_descriptors() {
    if std::env::var_os(CHILD).is_some() {
        return journal_without_descriptors();
    }
    let executable = std::env::current_exe().unwrap();
    let name = "journal::tests::transactions_are_journalled_without_free_descriptors";
    let output = std::process::Command::new(executable)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}

fn journal_without_descriptors() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (mut journal, _) = Journal::open(&path, true, GENESIS).unwrap();
    let limit = Rlimit { current: Some(CHILD_FILES), maximum: Some(CHILD_FILES) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut taken = Vec::new();
    let take_all = |taken: &mut Vec<File>| {
        taken.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
        assert!(taken.len() < CHILD_FILES as usize, "bounded by the limit");
    };
    take_all(&mut taken);
    let add = |journal: &mut Journal, nonce| {
        journal.push(&tx(nonce));
        journal.write().unwrap();
    };
    let start = Instant::now();
    // The reserved descriptor suffices for a rewrite, and for the next one.
    for nonce in 0..3 {
        add(&mut journal, nonce);
        journal.compact(&Mempool::default(), 0, start).unwrap();
        assert_eq!(journal.bytes, HEADER_BYTES as u64, "rewritten");
    }
    // If other parts of the process have taken that descriptor, transactions are still journalled.
    journal.replacement.as_mut().unwrap().release_descriptor();
    take_all(&mut taken);
    for nonce in 0..3 {
        add(&mut journal, nonce);
        journal.compact(&Mempool::default(), 0, start).unwrap();
    }
    let record = (journal.bytes - HEADER_BYTES as u64) / 3;
    assert_eq!(journal.bytes, HEADER_BYTES as u64 + 3 * record, "nothing is rewritten");
    assert_eq!(fs::metadata(&path).unwrap().len(), journal.bytes);
    // The delay before the next attempt increases each time.
    journal.bytes += SLACK_BYTES;
    let is_due = |journal: &Journal, seconds| {
        let now = start + std::time::Duration::from_secs(seconds);
        journal.is_bloated(&Mempool::default(), now)
    };
    assert!(!is_due(&journal, 3) && is_due(&journal, 4), "the third delay is 4 s");
    journal.bytes -= SLACK_BYTES;
    // The rewrite happens as soon as descriptors are available again.
    taken.clear();
    journal.store_for_retry(vec![Arc::new(tx(2))]);
    journal.compact(&Mempool::default(), 0, start).unwrap();
    assert_eq!(journal.bytes, HEADER_BYTES as u64 + record);
    assert!(journal.replacement.as_ref().unwrap().is_due(start));
    drop(journal);
    assert_eq!(Journal::open(&path, false, GENESIS).unwrap().1, [entry(2)]);
}

#[test]
fn failed_rewrite_leaves_the_file_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    write_journal(&path, 2);
    let (mut journal, _) = Journal::open(&path, true, GENESIS).unwrap();
    // A folder with the name of the next file makes the rewrite fail.
    let next_path = path.with_extension("new");
    fs::remove_file(&next_path).unwrap();
    fs::create_dir(&next_path).unwrap();
    let now = Instant::now();
    journal.compact(&Mempool::default(), 0, now).unwrap();
    journal.push(&tx(2));
    journal.write().unwrap();
    assert_eq!(read(&fs::read(&path).unwrap()).entries, [entry(0), entry(1), entry(2)]);
    fs::remove_dir(&next_path).unwrap();
    journal.compact(&Mempool::default(), 0, now).unwrap();
    assert_eq!(fs::read(&path).unwrap(), journal.header.to_bytes(), "the second attempt succeeds");
    // From this size on, the failure is fatal.
    fs::remove_file(&next_path).unwrap();
    fs::create_dir(&next_path).unwrap();
    journal.bytes = MAX_POSTPONED_BYTES;
    assert!(matches!(journal.compact(&Mempool::default(), 0, now), Err(JournalError { .. })));
    // After a shutdown, the folder contains only the journal.
    fs::remove_dir(&next_path).unwrap();
    drop(journal);
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["journal"]);
}
