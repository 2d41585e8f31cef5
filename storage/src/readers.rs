//! The read transactions of an environment: those in use, those that are ready for use, and those of other
//! processes.
//!
//! To begin or end a read transaction, LMDB writes to the mapped file `lock.mdb`. While the file system is
//! frozen (as during a backup of the machine), such a write blocks the thread. Therefore, a node keeps several
//! transactions on the newest commit ready: a reader takes one and returns it after use, and usually only the
//! writing thread begins and ends transactions. The ready ones are replaced after each commit, before the next write
//! begins, so they do not prevent pages from being reused.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use heed::{Env, RoTxn, WithoutTls};

use crate::reader_table::ReaderTable;

/// Number of transactions that are kept ready. If more threads read at the same time, the others begin new ones.
const READY: usize = 64;
/// Maximum number of transactions of older commits that wait for the writing thread to end them. Each uses a
/// reader slot.
const MAX_OUTDATED: usize = 64;

type Txn = RoTxn<'static, WithoutTls>;

/// See the module documentation.
pub(crate) struct Readers {
    // Dropped before the table: the table must outlive the environment, which the transactions keep open.
    state: Mutex<State>,
    /// Held while the ready transactions are replaced.
    renewal: Mutex<()>,
    table: ReaderTable,
}

#[derive(Default)]
struct State {
    next: u64,
    /// The time at which each transaction in use was taken.
    used: BTreeMap<u64, Instant>,
    /// Number of transactions to keep ready; 0 in a process that does not serve readers.
    wanted: usize,
    /// Id of the commit that the ready transactions can see.
    newest: usize,
    ready: Vec<Txn>,
    outdated: Vec<Txn>,
}

impl State {
    /// Counts a transaction as used from now on, and returns its number.
    fn begin_use(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.used.insert(number, Instant::now());
        number
    }
}

impl Readers {
    pub(crate) fn new(table: ReaderTable) -> Self {
        Self { state: Mutex::default(), renewal: Mutex::default(), table }
    }

    /// Returns the number of transactions in use, in this process and in others, and the age of the oldest one.
    /// The age of a transaction of another process is measured from the time when this function first found it.
    pub(crate) fn count_and_oldest(&self) -> (u32, Option<Duration>) {
        // If the table cannot be read, the numbers of this process are still useful.
        let (others, other_since) = self.table.others().unwrap_or_default();
        let state = self.lock();
        let own_since = state.used.first_key_value().map(|(_, since)| *since);
        let oldest = own_since.into_iter().chain(other_since).min();
        (state.used.len() as u32 + others, oldest.map(|since| since.elapsed()))
    }

    /// Keeps transactions ready from now on.
    pub(crate) fn keep_ready(&self, env: &Env<WithoutTls>) {
        self.lock().wanted = READY;
        self.renew(env);
    }

    /// Replaces the ready transactions with transactions on the newest commit. The writing thread calls this.
    pub(crate) fn renew(&self, env: &Env<WithoutTls>) {
        let wanted = self.lock().wanted;
        if wanted == 0 {
            return;
        }
        // If two threads commit at the same time, the second one replaces the transactions again.
        let _renewal = self.renewal.lock().unwrap_or_else(PoisonError::into_inner);
        // The lock of the state is not held here, because the disk may not respond. If no slot is free, readers
        // begin new transactions.
        let begin = || env.clone().static_read_txn().ok();
        let ready: Vec<_> = std::iter::from_fn(begin).take(wanted).collect();
        let mut state = self.lock();
        state.newest = ready.first().map_or(0, |txn| txn.id());
        let replaced = mem::replace(&mut state.ready, ready);
        drop(state);
        drop(replaced);
    }

    /// Ends the transactions on older commits. The writing thread calls this before it writes.
    pub(crate) fn end_outdated(&self) {
        let outdated = mem::take(&mut self.lock().outdated);
        drop(outdated);
    }

    fn return_txn(&self, txn: Txn) {
        let mut state = self.lock();
        if txn.id() == state.newest && state.ready.len() < state.wanted {
            state.ready.push(txn);
        } else if state.wanted > 0 && state.outdated.len() < MAX_OUTDATED {
            state.outdated.push(txn);
        } else {
            drop(state);
            drop(txn);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each critical section leaves a consistent state at every step, so poisoning can be ignored.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a read transaction for as long as it is in use.
pub(crate) struct Lease {
    readers: Arc<Readers>,
    number: u64,
}

impl Lease {
    /// Counts a transaction that LMDB begins internally.
    pub(crate) fn new(readers: &Arc<Readers>) -> Self {
        let number = readers.lock().begin_use();
        Self { readers: Arc::clone(readers), number }
    }

    /// Returns a lease, and a ready transaction if there is one.
    fn with_ready(readers: &Arc<Readers>) -> (Self, Option<Txn>) {
        let mut state = readers.lock();
        let number = state.begin_use();
        let ready = state.ready.pop();
        drop(state);
        (Self { readers: Arc::clone(readers), number }, ready)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.readers.lock().used.remove(&self.number);
    }
}

/// A read transaction in use. Dropping it returns it to [`Readers`].
pub(crate) struct UsedTxn {
    /// `None` only while it is dropped.
    txn: Option<Txn>,
    has_failed: Cell<bool>,
    // Dropped after the transaction, so that every slot in use is counted.
    lease: Lease,
}

impl UsedTxn {
    /// Returns a transaction on the newest commit.
    pub(crate) fn take(env: &Env<WithoutTls>, readers: &Arc<Readers>) -> Result<Self, heed::Error> {
        let (lease, ready) = Lease::with_ready(readers);
        let txn = ready.map_or_else(|| env.clone().static_read_txn(), Ok)?;
        Ok(Self { txn: Some(txn), has_failed: Cell::new(false), lease })
    }

    pub(crate) fn txn(&self) -> &Txn {
        self.txn.as_ref().expect("only taken when dropped")
    }

    /// Marks the transaction to be ended rather than returned for reuse: after an error, LMDB may refuse further
    /// reads in it.
    pub(crate) fn fail(&self) {
        self.has_failed.set(true);
    }
}

impl Drop for UsedTxn {
    fn drop(&mut self) {
        if let Some(txn) = self.txn.take()
            && !self.has_failed.get()
        {
            self.lease.readers.return_txn(txn);
        }
    }
}
