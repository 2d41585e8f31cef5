//! The mempool's journal: every accepted transaction is written to this file before its submitter receives a
//! result, and stays there until it is in a durable block or has left the pool.
//!
//! If the process is killed, no acknowledged transaction is lost, because the kernel has the written data. A
//! power failure can lose the data that the kernel had not written back yet (some seconds), unless the setting
//! that syncs the file before each acknowledgement is on.
//!
//! For the format see [`format`]. The file contains the hash of block 0. A file of another chain or of an unknown
//! version is kept under another name. An incomplete record at the end is cut off. If other records are damaged, a
//! copy of the file is kept, and the remaining records are used. The file contains the senders, so that a restart
//! does not recover signatures again. It must therefore be as trusted as the databases in the same folder.
//!
//! The file is rewritten with the live transactions when it exceeds both twice their size and its size after the
//! last rewrite by more than [`SLACK_BYTES`]. If a rewrite fails, for example because no file descriptor or disk
//! space is free, it is repeated later. Until then the file grows, up to [`MAX_POSTPONED_BYTES`].

mod aside;
mod format;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod replacement;

use crate::Mempool;
use alloy_primitives::{Address, B256, Bytes};
use format::{HEADER_BYTES, Header, RECORD_HEAD_BYTES, Records, Version};
use platform::whole_file::is_present;
use replacement::{Failure, Replacement};
use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, Read, Write},
    mem,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Instant,
};
use transactions::{DecodeError, DecodedTx, RecoveredTx};

/// Size of dead records that does not justify a rewrite: about 400,000 transfers, which a restart rejects in half
/// a second.
const SLACK_BYTES: u64 = 64 * 1024 * 1024;
/// File size from which a failed rewrite is fatal, because a restart reads the whole file.
const MAX_POSTPONED_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// A transaction in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// EIP-2718 bytes.
    pub raw: Bytes,
    /// The recovered sender.
    pub sender: Address,
}

impl Entry {
    /// Decodes the transaction. Its signature has a low `s`, because it was accepted. The signature of a Cosmos
    /// transaction is checked again, because the rules depend on the parts that it covers.
    pub fn recovered(self, chain_id: u64) -> Result<RecoveredTx, DecodeError> {
        let DecodedTx { raw, tx, hash, cosmos } = DecodedTx::decode(self.raw)?;
        let verified =
            cosmos.map(|cosmos| Arc::unwrap_or_clone(cosmos).with_verified_signature(chain_id));
        let cosmos =
            verified.transpose().map_err(|refusal| DecodeError::Cosmos(Box::new(refusal)))?;
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

/// The journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("mempool journal {}: {source}", path.display())]
pub struct JournalError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub source: io::Error,
}

/// Returns whether a file is longer than the header of a journal. The records are not read, so a longer file that
/// is damaged or of another version counts as containing transactions.
pub fn has_transactions(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(_) if !is_present(path) => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut start = Vec::new();
    (&file).take(HEADER_BYTES as u64).read_to_end(&mut start)?;
    Ok(file.metadata()?.len() > format::header_bytes(&start) as u64)
}

/// The open journal.
#[derive(Debug)]
pub struct Journal {
    /// `None` if the journal is disabled.
    file: Option<File>,
    path: PathBuf,
    header: Header,
    sync: bool,
    /// Size of the file in bytes.
    bytes: u64,
    /// Records not written yet.
    buffer: Vec<u8>,
    /// Blocks that are executed but not durable. Their transactions have left the pool, but must be restored if
    /// the process is killed before the blocks are durable.
    building: VecDeque<(u64, Arc<Vec<Arc<RecoveredTx>>>)>,
    /// Journalled transactions from before the start that the pool has not readmitted yet.
    to_retry: Vec<Arc<RecoveredTx>>,
    /// Size of the file in bytes after the last rewrite.
    rewritten: u64,
    /// `None` if the journal is disabled.
    replacement: Option<Replacement>,
}

impl Journal {
    /// Opens the journal of the chain whose block 0 has the hash `genesis`, and returns its transactions.
    pub fn open(
        path: &Path,
        sync: bool,
        genesis: B256,
    ) -> Result<(Self, Vec<Entry>), JournalError> {
        Self::try_open(path, sync, genesis)
            .map_err(|source| JournalError { path: path.to_owned(), source })
    }

    fn try_open(path: &Path, sync: bool, genesis: B256) -> io::Result<(Self, Vec<Entry>)> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let found = Found::in_file(&bytes, genesis);
        let mut journal =
            Self { path: path.to_owned(), header: Header::new(genesis)?, sync, ..Self::disabled() };
        journal.replacement = Some(Replacement::new(path)?);
        match found {
            Found::Usable(header, records) => {
                journal.header = header;
                journal.append_to(HEADER_BYTES + records.valid, bytes.len())?;
                Ok((journal, records.entries))
            }
            Found::Other { why, entries } => {
                let aside = why.map(|why| aside::keep(path).map(|aside| (why, aside)));
                let aside = aside.transpose()?;
                journal.begin(&entries).inspect_err(|_| {
                    // The next start would keep another copy.
                    if let Some((_, aside)) = &aside {
                        drop(fs::remove_file(aside));
                    }
                })?;
                if let Some((why, aside)) = aside {
                    let (path, aside) = (path.display(), aside.display());
                    tracing::error!(%path, kept_as = %aside, used = entries.len(), "the mempool's journal {why}");
                }
                Ok((journal, entries))
            }
        }
    }

    /// Continues the existing file of `length` bytes after its first `valid` bytes, and cuts off the rest.
    fn append_to(&mut self, valid: usize, length: usize) -> io::Result<()> {
        if valid < length {
            let (path, lost) = (self.path.display(), length - valid);
            tracing::warn!(%path, lost, "the incomplete end of the journal was cut off");
        }
        let file = File::options().append(true).open(&self.path)?;
        self.bytes = valid as u64;
        file.set_len(self.bytes)?;
        if self.sync {
            // The process that wrote the file may not have synced its contents or its name.
            file.sync_all()?;
            self.replacement.as_ref().map_or(Ok(()), Replacement::sync_name)?;
        }
        self.file = Some(file);
        Ok(())
    }

    /// Replaces the file with a new one that contains these transactions.
    fn begin(&mut self, entries: &[Entry]) -> io::Result<()> {
        let mut bytes = self.header.to_bytes();
        for entry in entries {
            self.header.put_entry(&mut bytes, entry);
        }
        self.replace(&bytes).map_err(|failure| match failure {
            Failure::Postponed(source) | Failure::NotSynced(source) => source,
        })
    }

    /// Creates a journal that stores nothing.
    pub const fn disabled() -> Self {
        Self {
            file: None,
            path: PathBuf::new(),
            header: Header::NONE,
            sync: false,
            bytes: 0,
            buffer: Vec::new(),
            building: VecDeque::new(),
            to_retry: Vec::new(),
            rewritten: 0,
            replacement: None,
        }
    }

    /// Adds a transaction for the next [`Self::write`]. Returns its position in the buffer for [`Self::retract`].
    pub fn push(&mut self, tx: &RecoveredTx) -> usize {
        let before = self.buffer.len();
        if self.file.is_some() {
            self.header.put(&mut self.buffer, tx);
        }
        before
    }

    /// Removes the transaction that was added last, at position `before`, because it was not accepted.
    pub fn retract(&mut self, before: usize) {
        self.buffer.truncate(before);
    }

    /// Returns whether writes are synced.
    pub const fn syncs(&self) -> bool {
        self.sync
    }

    /// Writes the added transactions. Their submitters must not receive a result before this returns.
    pub fn write(&mut self) -> Result<(), JournalError> {
        let Some(file) = self.file.as_mut().filter(|_| !self.buffer.is_empty()) else {
            return Ok(());
        };
        let written = file.write_all(&self.buffer);
        let result = if self.sync { written.and_then(|()| file.sync_data()) } else { written };
        result.map_err(|source| JournalError { path: self.path.clone(), source })?;
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Records the transactions of a block, which stay in the journal until the block is durable. Blocks up to
    /// `durable` are durable.
    pub fn record_block(&mut self, number: u64, txs: Arc<Vec<Arc<RecoveredTx>>>, durable: u64) {
        if self.file.is_none() {
            return;
        }
        self.building.push_back((number, txs));
        self.forget_durable(durable);
    }

    /// Forgets the blocks above `number`, which were undone.
    pub fn undo_above(&mut self, number: u64) {
        self.building.retain(|(building, _)| *building <= number);
    }

    fn forget_durable(&mut self, durable: u64) {
        while self.building.front().is_some_and(|(number, _)| *number <= durable) {
            self.building.pop_front();
        }
    }

    /// Stores transactions that failed admission after a restart and are retried after the next block.
    pub fn store_for_retry(&mut self, txs: Vec<Arc<RecoveredTx>>) {
        self.to_retry.extend(txs);
    }

    /// Takes the transactions that must be retried.
    pub fn take_for_retry(&mut self) -> Vec<Arc<RecoveredTx>> {
        mem::take(&mut self.to_retry)
    }

    /// Returns whether the file should be rewritten. Transactions that are outside the pool but needed count as
    /// removable. If there are many, a rewrite removes little, and the next one is due when the file has grown by
    /// [`SLACK_BYTES`]. Returns false while a rewrite is postponed.
    pub fn is_bloated(&self, pool: &Mempool, now: Instant) -> bool {
        let live_bytes = pool.bytes() + (pool.len() * RECORD_HEAD_BYTES) as u64;
        let threshold = (2 * live_bytes).max(self.rewritten) + SLACK_BYTES;
        let is_due = self.replacement.as_ref().is_some_and(|replacement| replacement.is_due(now));
        is_due && self.bytes > threshold
    }

    /// Rewrites the file with the transactions of blocks that are not durable, then those of the pool in order of
    /// arrival, then those to be retried. If that fails, the existing file is still complete, and
    /// [`Self::is_bloated`] requests another attempt later.
    pub fn compact(
        &mut self,
        pool: &Mempool,
        durable: u64,
        now: Instant,
    ) -> Result<(), JournalError> {
        let source = match self.rewrite(pool, durable) {
            Ok(()) => return Ok(()),
            Err(Failure::Postponed(source)) if self.bytes < MAX_POSTPONED_BYTES => source,
            Err(Failure::Postponed(source) | Failure::NotSynced(source)) => {
                return Err(JournalError { path: self.path.clone(), source });
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
        // If no file can be opened, this fails before the records are collected.
        replacement.prepare()?;
        self.forget_durable(durable);
        let mut pooled: Vec<_> = pool.lanes().flat_map(|lane| lane.all()).collect();
        pooled.sort_by_key(|pooled| pooled.offer.arrival);
        let mut bytes = self.header.to_bytes();
        let in_blocks = self.building.iter().flat_map(|(_, txs)| txs.iter());
        let pooled = pooled.into_iter().map(|pooled| &pooled.tx);
        for tx in in_blocks.chain(pooled).chain(&self.to_retry) {
            self.header.put(&mut bytes, tx);
        }
        self.replace(&bytes)
    }

    fn replace(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(replacement) = &mut self.replacement else { return Ok(()) };
        // The assignment closes the old file, so `reserve` can use its descriptor.
        self.file = Some(replacement.replace(bytes)?);
        replacement.reserve();
        self.bytes = bytes.len() as u64;
        self.rewritten = self.bytes;
        Ok(())
    }
}

/// The file at the journal's path.
enum Found {
    /// A journal of this chain and version.
    Usable(Header, Records),
    /// Another file, with the transactions in it that can be used.
    Other {
        /// Why a copy is kept; `None` if nothing would be lost.
        why: Option<&'static str>,
        entries: Vec<Entry>,
    },
}

impl Found {
    fn in_file(bytes: &[u8], genesis: B256) -> Self {
        const DAMAGED: &str = "has damaged records, which are left out; a copy of it is kept";
        const OTHER_CHAIN: &str =
            "belongs to another chain, or its first bytes are damaged; it is set aside";
        const OTHER_VERSION: &str =
            "is of a version that this program cannot read; it is set aside";
        match format::version(bytes) {
            Version::Two(header, records) if header.genesis == genesis => {
                let records = format::read_v2(&header, records);
                match records.damaged {
                    0 => Self::Usable(header, records),
                    _ => Self::Other { why: Some(DAMAGED), entries: records.entries },
                }
            }
            Version::One(records) => {
                let records = format::read_v1(records);
                let why = (records.damaged > 0).then_some(DAMAGED);
                Self::Other { why, entries: records.entries }
            }
            Version::Two(_, records) => {
                let why = (!records.is_empty()).then_some(OTHER_CHAIN);
                Self::Other { why, entries: Vec::new() }
            }
            Version::Unknown => {
                let why = (!bytes.is_empty()).then_some(OTHER_VERSION);
                Self::Other { why, entries: Vec::new() }
            }
        }
    }
}

#[cfg(test)]
mod power_tests;
#[cfg(test)]
mod tests;
