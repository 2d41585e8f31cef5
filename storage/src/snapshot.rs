//! Read transactions, counted.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use heed::{Env, RoTxn, WithoutTls};

use crate::env::{Kind, READERS_MAX, Table};
use crate::error::{DecodeError, ReadError};

/// Read transactions open now, oldest first.
#[derive(Default)]
pub(crate) struct Readers(Mutex<OpenReaders>);

#[derive(Default)]
struct OpenReaders {
    next: u64,
    open: BTreeMap<u64, Instant>,
}

impl Readers {
    /// How many are open, and for how long the oldest has been.
    pub(crate) fn count_and_oldest(&self) -> (u32, Option<Duration>) {
        let readers = self.lock();
        let oldest = readers.open.first_key_value().map(|(_, since)| since.elapsed());
        (readers.open.len() as u32, oldest)
    }

    fn lock(&self) -> MutexGuard<'_, OpenReaders> {
        // Each critical section is one map operation, so a panic elsewhere leaves no harm behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one read transaction for as long as it lives.
struct Lease {
    readers: Arc<Readers>,
    number: u64,
}

impl Lease {
    fn new(readers: &Arc<Readers>) -> Self {
        let mut open = readers.lock();
        let number = open.next;
        open.next += 1;
        open.open.insert(number, Instant::now());
        drop(open);
        Self { readers: Arc::clone(readers), number }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.readers.lock().open.remove(&self.number);
    }
}

/// A snapshot of an environment. May be sent to another thread; not shared between threads.
pub(crate) struct ReadTxn {
    // Dropped before the lease, so that a slot is never in use uncounted.
    txn: RoTxn<'static, WithoutTls>,
    path: Arc<Path>,
    kind: Kind,
    _lease: Lease,
}

impl std::fmt::Debug for ReadTxn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadTxn").field("path", &self.path).field("id", &self.txn.id()).finish()
    }
}

impl ReadTxn {
    /// A read transaction on what is committed now.
    pub(crate) fn begin(
        env: Env<WithoutTls>,
        path: Arc<Path>,
        kind: Kind,
        readers: &Arc<Readers>,
    ) -> Result<Self, ReadError> {
        let lease = Lease::new(readers);
        match env.static_read_txn() {
            Ok(txn) => Ok(Self { txn, path, kind, _lease: lease }),
            Err(error) => Err(ReadError::from_heed(&path, &kind, READERS_MAX, error)),
        }
    }

    pub(crate) fn txn(&self) -> &RoTxn<'static, WithoutTls> {
        &self.txn
    }

    /// Number of the transaction whose result is read.
    pub(crate) fn id(&self) -> u64 {
        self.txn.id() as u64
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn error(&self, error: heed::Error) -> ReadError {
        ReadError::from_heed(&self.path, &self.kind, READERS_MAX, error)
    }

    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, ReadError> {
        table.get(&self.txn, key).map_err(|error| self.error(error))
    }

    pub(crate) fn corrupt(
        &self,
        table: &'static str,
        key: &[u8],
        source: DecodeError,
    ) -> ReadError {
        ReadError::corrupt(&self.path, &self.kind, table, key, source)
    }
}
