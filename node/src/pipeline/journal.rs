//! The mempool's journal: every accepted transaction is in this file before its submitter is told,
//! and stays there until it is in a durable block or has left the pool.
//!
//! A killed process loses nothing it has answered for, since what was written is the kernel's. A
//! power failure can lose what the kernel had not written back yet (some seconds), unless the file
//! is synced before each answer, which the settings offer.
//!
//! Format: the 8 bytes [`MAGIC`], then records: 4 bytes length of the transaction and 4 bytes
//! CRC-32 of the rest, both big-endian; 20 bytes sender; the EIP-2718 bytes. A record that is cut off ends the
//! file. A damaged one is passed over if its length leads to one that is not damaged; else it ends the file, too.
//! Senders are kept so that a restart recovers no signature again; the file
//! is to be trusted as much as the databases beside it.
//!
//! Bound: rewritten with the living transactions alone when it is more than twice their size, and has grown by
//! [`SLACK_BYTES`] since. A rewrite that fails, for lack of file descriptors or disk space, is repeated later;
//! meanwhile the file grows, up to [`MAX_POSTPONED_BYTES`].

mod replacement;

use super::fault::Fault;
use crate::{
    execution::{DecodeError, DecodedTx, RecoveredTx},
    mempool::Mempool,
    whole_file::is_present,
};
use alloy_primitives::{Address, Bytes};
use replacement::{Failure, Replacement};
use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, Write},
    mem,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Instant,
};

/// First bytes of the file; the last one is the version.
const MAGIC: &[u8; 8] = b"evmdtxs\x01";
/// Bytes of a record before its transaction.
const HEAD_BYTES: usize = 4 + 4 + Address::len_bytes();
/// Bytes of dead records that are not worth a rewrite: some 400,000 transfers, which a restart
/// passes over in half a second.
const SLACK_BYTES: u64 = 64 * 1024 * 1024;
/// Size of the file from which on a rewrite that fails ends the node: a restart reads the whole file.
const MAX_POSTPONED_BYTES: u64 = 4 * 1024 * 1024 * 1024;

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
    /// That of a Cosmos transaction is judged again, because the rules ask what it covers.
    pub(super) fn recovered(self, chain_id: u64) -> Result<RecoveredTx, DecodeError> {
        let DecodedTx { raw, tx, hash, cosmos } = DecodedTx::decode(self.raw)?;
        let judged = cosmos.map(|cosmos| Arc::unwrap_or_clone(cosmos).judged(chain_id));
        let cosmos =
            judged.transpose().map_err(|refusal| DecodeError::Cosmos(Box::new(refusal)))?;
        let cosmos = cosmos.map(Arc::new);
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

/// Whether a file holds more than the header of a journal. The contents are not read: a journal that is damaged, or
/// of another version, counts as one with transactions.
pub(crate) fn journal_has_transactions(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(file) => Ok(file.len() > MAGIC.len() as u64),
        Err(_) if !is_present(path) => Ok(false),
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
    /// Absent when none is kept.
    replacement: Option<Replacement>,
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
        let Contents { entries, valid, damaged } = read(&bytes);
        let mut journal = Self { path: path.to_owned(), sync, ..Self::none() };
        let replacement = Replacement::new(path).map_err(fault)?;
        if valid == 0 {
            journal.replacement = Some(replacement);
            if !bytes.is_empty() {
                tracing::error!(path = %path.display(), "not a mempool journal; it starts empty");
            }
            journal.replace(MAGIC).map_err(|failure| match failure {
                Failure::Postponed(source) | Failure::NotSynced(source) => fault(source),
            })?;
            return Ok((journal, entries));
        }
        if damaged > 0 {
            tracing::error!(path = %path.display(), damaged, "the journal has damaged records, which are left out");
        }
        if valid < bytes.len() {
            let lost = bytes.len() - valid;
            tracing::warn!(path = %path.display(), lost, "the journal's end is cut off");
        }
        let file = File::options().append(true).open(path).map_err(fault)?;
        journal.bytes = valid as u64;
        file.set_len(journal.bytes).map_err(fault)?;
        if sync {
            // The process that wrote it may have synced neither its contents nor its name.
            file.sync_all().and_then(|()| replacement.sync_name()).map_err(fault)?;
        }
        journal.replacement = Some(replacement);
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
            replacement: None,
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
    /// While a rewrite is postponed, it is not worth looking.
    pub(super) fn is_bloated(&self, pool: &Mempool, now: Instant) -> bool {
        let alive = pool.bytes() + (pool.len() * HEAD_BYTES) as u64;
        let least = (2 * alive).max(self.rewritten) + SLACK_BYTES;
        let is_due = self.replacement.as_ref().is_some_and(|replacement| replacement.is_due(now));
        is_due && self.bytes > least
    }

    /// Rewrites the file with what the pool and unsafe blocks hold, in order of arrival, and what is late.
    /// If that fails, the file stays as it is, which is complete, and [`Self::is_bloated`] asks for another
    /// attempt later.
    pub(super) fn compact(
        &mut self,
        pool: &Mempool,
        durable: u64,
        now: Instant,
    ) -> Result<(), Fault> {
        let source = match self.rewrite(pool, durable) {
            Ok(()) => return Ok(()),
            Err(Failure::Postponed(source)) if self.bytes < MAX_POSTPONED_BYTES => source,
            Err(Failure::Postponed(source) | Failure::NotSynced(source)) => {
                return Err(Fault::Journal { path: self.path.clone(), source });
            }
        };
        let retry_in = self.replacement.as_mut().map(|replacement| replacement.postpone(now));
        tracing::warn!(
            path = %self.path.display(),
            bytes = self.bytes,
            limit = MAX_POSTPONED_BYTES,
            ?retry_in,
            %source,
            "the mempool's journal could not be rewritten; it is complete and grows until that succeeds"
        );
        Ok(())
    }

    fn rewrite(&mut self, pool: &Mempool, durable: u64) -> Result<(), Failure> {
        let Some(replacement) = &mut self.replacement else { return Ok(()) };
        // Before all of it is put together.
        replacement.prepare()?;
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

    fn replace(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(replacement) = &mut self.replacement else { return Ok(()) };
        // The old file is closed by this, and its descriptor is free for the next one.
        self.file = Some(replacement.replace(bytes)?);
        replacement.reserve();
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

/// What a file holds.
#[derive(Debug, Default)]
struct Contents {
    entries: Vec<Entry>,
    /// Bytes up to the end of the last record that is not damaged; zero without magic.
    valid: usize,
    /// Damaged records before it.
    damaged: usize,
}

fn read(bytes: &[u8]) -> Contents {
    let mut contents = Contents::default();
    let Some(mut rest) = bytes.strip_prefix(MAGIC) else { return contents };
    contents.valid = MAGIC.len();
    let mut passed_over = 0;
    while let Some((entry, after)) = read_one(rest) {
        rest = after;
        match entry {
            Some(entry) => {
                contents.entries.push(entry);
                contents.damaged += mem::take(&mut passed_over);
                contents.valid = bytes.len() - rest.len();
            }
            None => passed_over += 1,
        }
    }
    contents
}

/// The record at the start, `None` inside if it is damaged, and what follows it.
fn read_one(bytes: &[u8]) -> Option<(Option<Entry>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let covered = Address::len_bytes().checked_add(length)?;
    let (covered, after) = rest.split_at_checked(covered)?;
    let (sender, raw) = covered.split_at(Address::len_bytes());
    let entry = (crc32fast::hash(covered) == u32::from_be_bytes(*crc))
        .then(|| Entry { raw: Bytes::copy_from_slice(raw), sender: Address::from_slice(sender) });
    Some((entry, after))
}

#[cfg(test)]
mod power_tests;
#[cfg(test)]
mod tests;
