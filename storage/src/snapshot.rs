//! A snapshot of an environment.

use std::path::Path;
use std::sync::Arc;

use heed::{Env, RoTxn, WithoutTls};

use crate::error::{DecodeError, ReadError};
use crate::kind::Kind;
use crate::reader_table::MAX_READERS;
use crate::readers::{Readers, UsedTxn};
use crate::table::Table;

/// A snapshot of an environment. It may be sent to another thread, but not shared between threads.
pub(crate) struct ReadTxn {
    used: UsedTxn,
    path: Arc<Path>,
    kind: Kind,
}

impl std::fmt::Debug for ReadTxn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadTxn").field("path", &self.path).field("id", &self.id()).finish()
    }
}

impl ReadTxn {
    /// Begins a read transaction on the last commit.
    pub(crate) fn begin(
        env: &Env<WithoutTls>,
        path: Arc<Path>,
        kind: Kind,
        readers: &Arc<Readers>,
    ) -> Result<Self, ReadError> {
        match UsedTxn::take(env, readers) {
            Ok(used) => Ok(Self { used, path, kind }),
            Err(error) => Err(ReadError::from_heed(&path, &kind, MAX_READERS, error)),
        }
    }

    pub(crate) fn txn(&self) -> &RoTxn<'static, WithoutTls> {
        self.used.txn()
    }

    /// Returns the id of the transaction whose state is read.
    pub(crate) fn id(&self) -> u64 {
        self.txn().id() as u64
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn error(&self, error: heed::Error) -> ReadError {
        self.used.fail();
        ReadError::from_heed(&self.path, &self.kind, MAX_READERS, error)
    }

    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, ReadError> {
        table.get(self.txn(), key).map_err(|error| self.error(error))
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
