use super::*;
use crate::execution::Transaction;
use alloy_consensus::{SignableTransaction, TxLegacy};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{B256, Signature, U256, keccak256};

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

pub(super) fn written(path: &Path, count: u64) {
    let (mut journal, _) = Journal::open(path, false).unwrap();
    for nonce in 0..count {
        journal.push(&tx(nonce));
    }
    journal.write().unwrap();
}

#[test]
fn what_was_written_comes_back_without_an_orderly_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    written(&path, 3);
    let (mut journal, entries) = Journal::open(&path, true).unwrap();
    assert_eq!(entries, [entry(0), entry(1), entry(2)]);
    journal.push(&tx(3));
    journal.write().unwrap();
    let (_, entries) = Journal::open(&path, false).unwrap();
    assert_eq!(entries.len(), 4);
    let again = entries[3].clone().recovered(1).unwrap();
    assert_eq!((again.hash, again.sender), (tx(3).hash, tx(3).sender));
}

#[test]
fn what_was_taken_back_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (mut journal, _) = Journal::open(&path, false).unwrap();
    journal.push(&tx(0));
    let before = journal.push(&tx(1));
    journal.retract(before);
    journal.push(&tx(2));
    journal.write().unwrap();
    assert_eq!(Journal::open(&path, false).unwrap().1, [entry(0), entry(2)]);
}

#[test]
fn any_cut_leaves_the_records_before_and_any_flipped_byte_all_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    written(&path, 3);
    let whole = fs::read(&path).unwrap();
    let record = (whole.len() - MAGIC.len()) / 3;
    for at in 0..whole.len() {
        let before = at.saturating_sub(MAGIC.len()) / record;
        let before = if at < MAGIC.len() { 0 } else { before };
        let cut = read(&whole[..at]);
        assert_eq!((cut.entries.len(), cut.damaged), (before, 0), "cut at {at}");
        assert!(cut.valid <= at);
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        let found = read(&flipped);
        // A damaged length leads nowhere.
        let is_length = at < MAGIC.len() || (at - MAGIC.len()) % record < 4;
        let (left, damaged) = match before {
            _ if is_length => (before, 0),
            2 => (2, 0),
            _ => (2, 1),
        };
        assert_eq!((found.entries.len(), found.damaged), (left, damaged), "flipped at {at}");
    }
    // What follows a damaged record stays in the file.
    let mut damaged = whole.clone();
    damaged[MAGIC.len() + record + 10] ^= 1;
    fs::write(&path, &damaged).unwrap();
    for _ in 0..2 {
        assert_eq!(Journal::open(&path, false).unwrap().1, [entry(0), entry(2)]);
    }
    // After a cut, what is appended can be read.
    fs::write(&path, &whole[..whole.len() - 5]).unwrap();
    let (mut journal, entries) = Journal::open(&path, false).unwrap();
    assert_eq!(entries.len(), 2);
    journal.push(&tx(9));
    journal.write().unwrap();
    assert_eq!(Journal::open(&path, false).unwrap().1.last(), Some(&entry(9)));
}

#[test]
fn a_rewrite_keeps_blocks_that_are_not_durable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    written(&path, 5);
    let (mut journal, _) = Journal::open(&path, false).unwrap();
    journal.built(7, Arc::new(vec![Arc::new(tx(0))]), 6);
    journal.built(8, Arc::new(vec![Arc::new(tx(1))]), 6);
    journal.compact(&Mempool::default(), 7, Instant::now()).unwrap();
    let (_, entries) = Journal::open(&path, false).unwrap();
    assert_eq!(entries, [entry(1)]);
    journal.keep_late(vec![Arc::new(tx(2))]);
    journal.compact(&Mempool::default(), 7, Instant::now()).unwrap();
    assert_eq!(Journal::open(&path, false).unwrap().1, [entry(1), entry(2)]);
    assert_eq!(journal.take_late().len(), 1);
    journal.compact(&Mempool::default(), 7, Instant::now()).unwrap();
    // No more dead bytes than are worth it since the last rewrite, whatever that has left.
    journal.bytes += SLACK_BYTES;
    assert!(!journal.is_bloated(&Mempool::default(), Instant::now()));
    journal.bytes += 1;
    assert!(journal.is_bloated(&Mempool::default(), Instant::now()));
    journal.push(&tx(4));
    journal.write().unwrap();
    assert_eq!(Journal::open(&path, false).unwrap().1, [entry(1), entry(4)]);
    assert_ne!(tx(4).hash, B256::ZERO);
}

/// Set in the process that [`transactions_are_journalled_without_free_descriptors`] starts.
const CHILD: &str = "EVMD_TEST_NO_DESCRIPTORS";
/// Open files that the child may have.
const CHILD_FILES: u64 = 64;

/// The limit of open files is that of a process, so the test runs itself again.
#[test]
fn transactions_are_journalled_without_free_descriptors() {
    if std::env::var_os(CHILD).is_some() {
        return without_descriptors();
    }
    let itself = std::env::current_exe().unwrap();
    let name = "pipeline::journal::tests::transactions_are_journalled_without_free_descriptors";
    let output = std::process::Command::new(itself)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}

fn without_descriptors() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (mut journal, _) = Journal::open(&path, true).unwrap();
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
    // The descriptor that was kept suffices for a rewrite, and for the next one.
    for nonce in 0..3 {
        add(&mut journal, nonce);
        journal.compact(&Mempool::default(), 0, start).unwrap();
        assert_eq!(journal.bytes, MAGIC.len() as u64, "rewritten");
    }
    // If other parts of the process have taken it, transactions are still journalled.
    journal.replacement.as_mut().unwrap().lose_reserve();
    take_all(&mut taken);
    for nonce in 0..3 {
        add(&mut journal, nonce);
        journal.compact(&Mempool::default(), 0, start).unwrap();
    }
    let record = (journal.bytes - MAGIC.len() as u64) / 3;
    assert_eq!(journal.bytes, MAGIC.len() as u64 + 3 * record, "nothing is rewritten");
    assert_eq!(fs::metadata(&path).unwrap().len(), journal.bytes);
    // The next attempts are later each time.
    journal.bytes += SLACK_BYTES;
    let is_due = |journal: &Journal, seconds| {
        let now = start + std::time::Duration::from_secs(seconds);
        journal.is_bloated(&Mempool::default(), now)
    };
    assert!(!is_due(&journal, 3) && is_due(&journal, 4), "the third wait is 4 s");
    journal.bytes -= SLACK_BYTES;
    // Once there are descriptors again, the rewrite happens.
    taken.clear();
    journal.keep_late(vec![Arc::new(tx(2))]);
    journal.compact(&Mempool::default(), 0, start).unwrap();
    assert_eq!(journal.bytes, MAGIC.len() as u64 + record);
    assert!(journal.replacement.as_ref().unwrap().is_due(start));
    drop(journal);
    assert_eq!(Journal::open(&path, false).unwrap().1, [entry(2)]);
}

#[test]
fn a_rewrite_that_fails_leaves_the_file_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    written(&path, 2);
    let (mut journal, _) = Journal::open(&path, true).unwrap();
    // Something has the name of the next file.
    let in_the_way = path.with_extension("new");
    fs::remove_file(&in_the_way).unwrap();
    fs::create_dir(&in_the_way).unwrap();
    let now = Instant::now();
    journal.compact(&Mempool::default(), 0, now).unwrap();
    journal.push(&tx(2));
    journal.write().unwrap();
    assert_eq!(read(&fs::read(&path).unwrap()).entries, [entry(0), entry(1), entry(2)]);
    fs::remove_dir(&in_the_way).unwrap();
    journal.compact(&Mempool::default(), 0, now).unwrap();
    assert_eq!(fs::read(&path).unwrap(), MAGIC, "the second attempt succeeds");
    // Beyond the bound the failure is a fault.
    fs::remove_file(&in_the_way).unwrap();
    fs::create_dir(&in_the_way).unwrap();
    journal.bytes = MAX_POSTPONED_BYTES;
    assert!(matches!(journal.compact(&Mempool::default(), 0, now), Err(Fault::Journal { .. })));
    // An orderly end leaves no file beside the journal.
    fs::remove_dir(&in_the_way).unwrap();
    drop(journal);
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["journal"]);
}
