//! The mempool's journal: every accepted transaction is in this file before its submitter is told,
//! and stays there until it is in a durable block or has left the pool.
//!
//! A killed process loses nothing it has answered for, since what was written is the kernel's. A
//! power failure can lose what the kernel had not written back yet (some seconds), unless the file
//! is synced before each answer, which the settings offer.
//!
//! Format: the 8 bytes [`MAGIC`], then records: 4 bytes length of the transaction and 4 bytes
//! CRC-32 of the rest, both big-endian; 20 bytes sender; the EIP-2718 bytes. A record cut off or
//! damaged ends the file. Senders are kept so that a restart recovers no signature again; the file
//! is to be trusted as much as the databases beside it.
//!
//! Bound: rewritten with the living transactions alone when it is more than twice their size, and has grown by
//! [`SLACK_BYTES`] since.

use super::fault::Fault;
use crate::{
    execution::{DecodeError, DecodedTx, RecoveredTx},
    mempool::Mempool,
    whole_file::is_present,
};
use alloy_primitives::{Address, Bytes};
use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, Write},
    mem,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// First bytes of the file; the last one is the version.
const MAGIC: &[u8; 8] = b"evmdtxs\x01";
/// Bytes of a record before its transaction.
const HEAD_BYTES: usize = 4 + 4 + Address::len_bytes();
/// Bytes of dead records that are not worth a rewrite: some 400,000 transfers, which a restart
/// passes over in half a second.
const SLACK_BYTES: u64 = 64 * 1024 * 1024;

/// A transaction as the journal has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// EIP-2718 bytes.
    pub(super) raw: Bytes,
    /// Who signed it.
    pub(super) sender: Address,
}

impl Entry {
    /// Decodes it. Its signature had a low `s`, or it would not have been accepted.
    pub(super) fn recovered(self) -> Result<RecoveredTx, DecodeError> {
        let DecodedTx { raw, tx, hash, cosmos } = DecodedTx::decode(self.raw)?;
        Ok(RecoveredTx {
            raw,
            tx,
            hash,
            sender: self.sender,
            high_s: false,
            authorities: OnceLock::new(),
            cosmos,
        })
    }
}

/// Whether a file holds more than the first bytes of a journal. Nothing is read: of a damaged journal or
/// one of another version it is not known what is lost with it.
pub(crate) fn journal_has_transactions(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(file) => Ok(file.len() > MAGIC.len() as u64),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_present(path) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The open journal.
#[derive(Debug)]
pub(super) struct Journal {
    /// Absent when none is kept.
    file: Option<File>,
    path: PathBuf,
    sync: bool,
    /// Bytes in the file.
    bytes: u64,
    /// Records not written yet.
    buffer: Vec<u8>,
    /// Blocks built that are not durable yet: their transactions have left the pool, and must come
    /// back if the process ends now.
    building: VecDeque<(u64, Arc<Vec<Arc<RecoveredTx>>>)>,
    /// Transactions of before the start that the pool has not taken in again yet.
    late: Vec<Arc<RecoveredTx>>,
    /// Bytes in the file after the last rewrite.
    rewritten: u64,
}

impl Journal {
    /// Opens the journal, with what it holds. A damaged end is cut off.
    pub(super) fn open(path: &Path, sync: bool) -> Result<(Self, Vec<Entry>), Fault> {
        let fault = |source| Fault::Journal { path: path.to_owned(), source };
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(fault(error)),
        };
        let (entries, valid) = read(&bytes);
        let mut journal = Self { path: path.to_owned(), sync, ..Self::none() };
        if valid == 0 {
            if !bytes.is_empty() {
                tracing::error!(path = %path.display(), "not a mempool journal; it starts empty");
            }
            journal.replace(MAGIC)?;
            return Ok((journal, entries));
        }
        if valid < bytes.len() {
            let lost = bytes.len() - valid;
            tracing::warn!(path = %path.display(), lost, "the journal's end is cut off");
        }
        let file = File::options().append(true).open(path).map_err(fault)?;
        journal.bytes = valid as u64;
        file.set_len(journal.bytes).map_err(fault)?;
        journal.file = Some(file);
        Ok((journal, entries))
    }

    /// A journal that keeps nothing.
    pub(super) const fn none() -> Self {
        Self {
            file: None,
            path: PathBuf::new(),
            sync: false,
            bytes: 0,
            buffer: Vec::new(),
            building: VecDeque::new(),
            late: Vec::new(),
            rewritten: 0,
        }
    }

    /// Adds a transaction to what [`Self::write`] writes; gives where, for [`Self::retract`].
    pub(super) fn push(&mut self, tx: &RecoveredTx) -> usize {
        let before = self.buffer.len();
        if self.file.is_some() {
            put(&mut self.buffer, tx);
        }
        before
    }

    /// Takes back the last one added, which was not accepted after all.
    pub(super) fn retract(&mut self, before: usize) {
        self.buffer.truncate(before);
    }

    /// Whether what is written is synced, too.
    pub(super) const fn syncs(&self) -> bool {
        self.sync
    }

    /// Writes what was added. Only then may its submitters be told.
    pub(super) fn write(&mut self) -> Result<(), Fault> {
        let Some(file) = self.file.as_mut().filter(|_| !self.buffer.is_empty()) else {
            return Ok(());
        };
        let written = file.write_all(&self.buffer);
        let done = if self.sync { written.and_then(|()| file.sync_data()) } else { written };
        done.map_err(|source| Fault::Journal { path: self.path.clone(), source })?;
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// A block was built of these; blocks up to `durable` are safe.
    pub(super) fn built(&mut self, number: u64, txs: Arc<Vec<Arc<RecoveredTx>>>, durable: u64) {
        if self.file.is_none() {
            return;
        }
        self.building.push_back((number, txs));
        self.forget_durable(durable);
    }

    fn forget_durable(&mut self, durable: u64) {
        while self.building.front().is_some_and(|(number, _)| *number <= durable) {
            self.building.pop_front();
        }
    }

    /// Keeps these beside the pool, until they are taken.
    pub(super) fn keep_late(&mut self, txs: Vec<Arc<RecoveredTx>>) {
        self.late.extend(txs);
    }

    /// Takes those kept beside the pool.
    pub(super) fn take_late(&mut self) -> Vec<Arc<RecoveredTx>> {
        mem::take(&mut self.late)
    }

    /// Whether most of the file is no longer needed. What is not in the pool and needed is not looked at:
    /// if it is much, a rewrite leaves much, and the next one waits for as many bytes again.
    pub(super) fn is_bloated(&self, pool: &Mempool) -> bool {
        let alive = pool.bytes() + (pool.len() * HEAD_BYTES) as u64;
        let least = (2 * alive).max(self.rewritten) + SLACK_BYTES;
        self.file.is_some() && self.bytes > least
    }

    /// Rewrites the file with what the pool and unsafe blocks hold, in order of arrival, and what is late.
    pub(super) fn compact(&mut self, pool: &Mempool, durable: u64) -> Result<(), Fault> {
        if self.file.is_none() {
            return Ok(());
        }
        self.forget_durable(durable);
        let mut pooled: Vec<_> = pool.lanes().flat_map(|lane| lane.all()).collect();
        pooled.sort_by_key(|pooled| pooled.offer.arrival);
        let mut bytes = MAGIC.to_vec();
        let built = self.building.iter().flat_map(|(_, txs)| txs.iter());
        let pooled = pooled.into_iter().map(|pooled| &pooled.tx);
        for tx in built.chain(pooled).chain(&self.late) {
            put(&mut bytes, tx);
        }
        self.replace(&bytes)
    }

    /// Writes beside the file and renames, so that a crash leaves the old one or the new one.
    fn replace(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let beside = self.path.with_extension("new");
        let replaced = (|| {
            let mut file = File::create(&beside)?;
            file.write_all(bytes)?;
            file.sync_data()?;
            fs::rename(&beside, &self.path)?;
            if self.sync {
                // The name too: what is synced from here on is in the new file.
                let folder = self.path.parent().expect("a file is in a folder");
                File::open(folder)?.sync_all()?;
            }
            io::Result::Ok(file)
        })();
        let file = replaced.map_err(|source| Fault::Journal { path: self.path.clone(), source })?;
        self.file = Some(file);
        self.bytes = bytes.len() as u64;
        self.rewritten = self.bytes;
        Ok(())
    }
}

/// Appends a record.
fn put(out: &mut Vec<u8>, tx: &RecoveredTx) {
    let length = u32::try_from(tx.raw.len()).expect("a pooled transaction is at most 128 KiB");
    let mut crc = crc32fast::Hasher::new();
    crc.update(tx.sender.as_slice());
    crc.update(&tx.raw);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&crc.finalize().to_be_bytes());
    out.extend_from_slice(tx.sender.as_slice());
    out.extend_from_slice(&tx.raw);
}

/// The records of a file, and how many of its bytes they and the magic take; zero without magic.
fn read(bytes: &[u8]) -> (Vec<Entry>, usize) {
    let mut entries = Vec::new();
    let Some(mut rest) = bytes.strip_prefix(MAGIC) else { return (entries, 0) };
    while let Some((entry, after)) = read_one(rest) {
        entries.push(entry);
        rest = after;
    }
    (entries, bytes.len() - rest.len())
}

fn read_one(bytes: &[u8]) -> Option<(Entry, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let covered = Address::len_bytes().checked_add(length)?;
    let (covered, after) = rest.split_at_checked(covered)?;
    if crc32fast::hash(covered) != u32::from_be_bytes(*crc) {
        return None;
    }
    let (sender, raw) = covered.split_at(Address::len_bytes());
    let entry = Entry { raw: Bytes::copy_from_slice(raw), sender: Address::from_slice(sender) };
    Some((entry, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::Transaction;
    use alloy_consensus::{SignableTransaction, TxLegacy};
    use alloy_eips::eip2718::Encodable2718;
    use alloy_primitives::{B256, Signature, U256, keccak256};

    fn tx(nonce: u64) -> RecoveredTx {
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

    fn entry(nonce: u64) -> Entry {
        Entry { raw: tx(nonce).raw, sender: tx(nonce).sender }
    }

    fn written(path: &Path, count: u64) {
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
        let again = entries[3].clone().recovered().unwrap();
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
    fn any_cut_and_any_flipped_byte_leave_the_records_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        written(&path, 3);
        let whole = fs::read(&path).unwrap();
        let record = (whole.len() - MAGIC.len()) / 3;
        for at in 0..whole.len() {
            let before = at.saturating_sub(MAGIC.len()) / record;
            let before = if at < MAGIC.len() { 0 } else { before };
            let (entries, valid) = read(&whole[..at]);
            assert_eq!(entries.len(), before, "cut at {at}");
            assert!(valid <= at);
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            assert_eq!(read(&damaged).0.len(), before, "flipped at {at}");
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
        journal.compact(&Mempool::default(), 7).unwrap();
        let (_, entries) = Journal::open(&path, false).unwrap();
        assert_eq!(entries, [entry(1)]);
        journal.keep_late(vec![Arc::new(tx(2))]);
        journal.compact(&Mempool::default(), 7).unwrap();
        assert_eq!(Journal::open(&path, false).unwrap().1, [entry(1), entry(2)]);
        assert_eq!(journal.take_late().len(), 1);
        journal.compact(&Mempool::default(), 7).unwrap();
        // No more dead bytes than are worth it since the last rewrite, whatever that has left.
        journal.bytes += SLACK_BYTES;
        assert!(!journal.is_bloated(&Mempool::default()));
        journal.bytes += 1;
        assert!(journal.is_bloated(&Mempool::default()));
        journal.push(&tx(4));
        journal.write().unwrap();
        assert_eq!(Journal::open(&path, false).unwrap().1, [entry(1), entry(4)]);
        assert_ne!(tx(4).hash, B256::ZERO);
    }
}
