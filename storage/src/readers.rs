//! The read transactions of an environment: those in use, those kept ready for use, and those of other processes.
//!
//! To begin or to end a read transaction, LMDB writes into the mapped file `lock.mdb`. While the file system is
//! frozen (as backups of a machine do), such a write stops the thread. A node therefore keeps some transactions of the
//! newest commit ready: a reader uses one of them and gives it back, and only the writing thread begins and ends them.
//! They are replaced after each commit, before the next write begins, so they keep no page from being used again.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use heed::{Env, RoTxn, WithoutTls};

use crate::reader_table::ReaderTable;

/// Transactions kept ready. More are in use at once only if more threads than that read; the others begin their own.
const READY: usize = 64;
/// Transactions of older commits that wait for the writing thread to end them; each uses one of the slots for readers.
const MAX_OUTDATED: usize = 64;

type Txn = RoTxn<'static, WithoutTls>;

/// See the module.
pub(crate) struct Readers {
    // Dropped before the table, which has to outlive the environment that the transactions keep open.
    state: Mutex<State>,
    /// Held while the ready transactions are replaced.
    renewal: Mutex<()>,
    table: ReaderTable,
}

#[derive(Default)]
struct State {
    next: u64,
    /// When each transaction in use was taken.
    used: BTreeMap<u64, Instant>,
    /// Transactions to keep ready; 0 in a process that does not serve readers.
    wanted: usize,
    /// The commit that the ready transactions read.
    newest: usize,
    ready: Vec<Txn>,
    outdated: Vec<Txn>,
}

impl Readers {
    pub(crate) fn new(table: ReaderTable) -> Self {
        Self { state: Mutex::default(), renewal: Mutex::default(), table }
    }

    /// How many transactions are in use, in this process and in others, and how long the oldest has been; for another
    /// process, since this function first found it.
    pub(crate) fn count_and_oldest(&self) -> (u32, Option<Duration>) {
        // If the table cannot be read, the figures of this process are still worth having.
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

    /// Replaces the ready transactions by such of the newest commit. Called by the writing thread.
    pub(crate) fn renew(&self, env: &Env<WithoutTls>) {
        let wanted = self.lock().wanted;
        if wanted == 0 {
            return;
        }
        // A thread that commits while another replaces the transactions has to replace those once more.
        let _renewal = self.renewal.lock().unwrap_or_else(PoisonError::into_inner);
        // Without the state, because the disk may not respond. If no slot is free, readers begin their own.
        let begin = || env.clone().static_read_txn().ok();
        let ready: Vec<_> = std::iter::from_fn(begin).take(wanted).collect();
        let mut state = self.lock();
        state.newest = ready.first().map_or(0, |txn| txn.id());
        let replaced = mem::replace(&mut state.ready, ready);
        drop(state);
        drop(replaced);
    }

    /// Ends the transactions of older commits. Called by the writing thread before it writes.
    pub(crate) fn end_outdated(&self) {
        let outdated = mem::take(&mut self.lock().outdated);
        drop(outdated);
    }

    fn give_back(&self, txn: Txn) {
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
        // Each critical section leaves a consistent state at every step, so a panic elsewhere does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one read transaction for as long as it is in use.
pub(crate) struct Lease {
    readers: Arc<Readers>,
    number: u64,
}

impl Lease {
    /// Counts a transaction that LMDB begins by itself.
    pub(crate) fn new(readers: &Arc<Readers>) -> Self {
        Self::with_ready(readers).0
    }

    /// A lease, and a ready transaction if there is one.
    fn with_ready(readers: &Arc<Readers>) -> (Self, Option<Txn>) {
        let mut state = readers.lock();
        let number = state.next;
        state.next += 1;
        state.used.insert(number, Instant::now());
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

/// A read transaction in use. It is given back when it is dropped.
pub(crate) struct UsedTxn {
    /// Only `None` while it is dropped.
    txn: Option<Txn>,
    has_failed: Cell<bool>,
    // Dropped after the transaction, so that a slot is never in use uncounted.
    lease: Lease,
}

impl UsedTxn {
    /// A transaction on what is committed now.
    pub(crate) fn take(env: &Env<WithoutTls>, readers: &Arc<Readers>) -> Result<Self, heed::Error> {
        let (lease, ready) = Lease::with_ready(readers);
        let txn = ready.map_or_else(|| env.clone().static_read_txn(), Ok)?;
        Ok(Self { txn: Some(txn), has_failed: Cell::new(false), lease })
    }

    pub(crate) fn txn(&self) -> &Txn {
        self.txn.as_ref().expect("only taken when dropped")
    }

    /// The transaction will be ended and not given back: after an error LMDB may refuse to read more in it.
    pub(crate) fn fail(&self) {
        self.has_failed.set(true);
    }
}

impl Drop for UsedTxn {
    fn drop(&mut self) {
        if let Some(txn) = self.txn.take()
            && !self.has_failed.get()
        {
            self.lease.readers.give_back(txn);
        }
    }
}
