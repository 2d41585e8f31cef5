//! The `index` environment: data that can be computed from the `chain` environment, and is stored
//! because computing it for each query would take too long.
//!
//! A flush writes many blocks in one transaction. The number of the last flushed block is part of
//! that transaction, so after a crash the later blocks are replayed from the chain. If this
//! environment is lost, it can be rebuilt. The table layout is private to this module.

mod accounts;
mod entries;
mod flush;
mod keys;
#[cfg(test)]
mod oracle_tests;
mod postings;
mod reader;
mod runs;
#[cfg(test)]
mod tests;
mod trie_records;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alloy_primitives::B256;

use crate::StateChanges;
use crate::checked::CheckedTable;
use crate::env::{EnvStats, Environment, Opened, TableSize};
use crate::error::{OpenError, ReadError, WriteError};
use crate::kind::Kind;
use crate::table::Table;

use postings::POSTING_KEY_BYTES;
use runs::Runs;

pub use postings::PostingKey;
pub use reader::IndexReader;
#[cfg(any(test, fuzzing))]
pub use runs::fuzzing;

/// Format number of the `index` environment.
pub const INDEX_FORMAT: u32 = 6;
/// Default map size in bytes. It costs address space only.
pub const INDEX_MAP_BYTES_DEFAULT: u64 = 1 << 40;
/// Key in `meta`: number of the last block flushed (u64 big-endian), then its hash.
const FLUSHED_KEY: &[u8] = b"flushed";

const KIND: Kind = Kind {
    name: "index",
    map_setting: "storage.index-map-bytes",
    format: INDEX_FORMAT,
    migrates: None,
    checked_from: 6,
    remedy: REMEDY,
    damage_remedy: REMEDY,
    block_remedy: REMEDY,
    meta_id: 32,
    has_blocks: false,
};
/// Remedy for an index that cannot be used.
const REMEDY: &str = "`evmd reindex` builds it again from the chain";

/// The numbers of the tables in checksums.
mod id {
    pub(super) const CODE: u8 = 33;
    pub(super) const ACCOUNT_HISTORY: u8 = 34;
    pub(super) const STORAGE_HISTORY: u8 = 35;
    pub(super) const BLOCK_NUMBERS: u8 = 36;
    pub(super) const TRANSACTIONS: u8 = 37;
    pub(super) const POSTINGS: u8 = 38;
}

/// Options for opening the `index` environment.
#[derive(Clone, Copy, Debug)]
pub struct IndexOptions {
    /// Maximum size of the file in bytes. Costs address space only.
    pub map_bytes: u64,
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self { map_bytes: INDEX_MAP_BYTES_DEFAULT }
    }
}

/// One block to be flushed.
#[derive(Clone, Copy, Debug)]
pub struct FlushBlock<'a> {
    /// Block number.
    pub number: u64,
    /// Block hash.
    pub hash: B256,
    /// Hashes of its transactions, in order.
    pub tx_hashes: &'a [B256],
    /// Its posting keys, ascending and distinct ([`PostingKey::of_block`]).
    pub posting_keys: &'a [PostingKey],
    /// Its state changes.
    pub changes: &'a StateChanges,
}

/// Tables of the `index` environment.
#[derive(Clone, Copy, Debug)]
struct Tables {
    meta: CheckedTable,
    accounts: Table,
    storage: Table,
    code: CheckedTable,
    account_history: Runs,
    storage_history: Runs,
    account_trie: Table,
    storage_trie: Table,
    block_numbers: CheckedTable,
    transactions: Runs,
    postings: Runs,
}

const NAMES: [&str; 10] = [
    "accounts",
    "storage",
    "code",
    "account_history",
    "storage_history",
    "account_trie",
    "storage_trie",
    "block_numbers",
    "transactions",
    "postings",
];

/// The `index` environment. Clones share it.
#[derive(Clone, Debug)]
pub struct IndexDb {
    env: Environment,
    tables: Tables,
    /// Number of renewals when this value was created, and the current number.
    renewal: u64,
    renewals: Arc<AtomicU64>,
}

impl IndexDb {
    /// Opens or creates the environment in the folder `path`.
    ///
    /// # Errors
    /// If the folder cannot be used, contains other data, has another format, or is damaged.
    pub fn open(path: impl AsRef<Path>, options: IndexOptions) -> Result<Self, OpenError> {
        let opened = Environment::open(path.as_ref(), KIND, options.map_bytes, NAMES, false)?;
        let Opened { env, meta, tables, .. } = opened;
        let [
            accounts,
            storage,
            code,
            account_history,
            storage_history,
            account_trie,
            storage_trie,
            block_numbers,
            transactions,
            postings,
        ] = tables;
        let runs = |table, name, id, key_bytes, filtered| {
            let pages = CheckedTable::new(table, name, id);
            Runs { pages, key_bytes, filtered }
        };
        let tables = Tables {
            meta,
            accounts,
            storage,
            code: CheckedTable::new(code, "code", id::CODE),
            account_history: runs(
                account_history,
                "account_history",
                id::ACCOUNT_HISTORY,
                keys::ACCOUNT_AT_KEY_BYTES,
                false,
            ),
            storage_history: runs(
                storage_history,
                "storage_history",
                id::STORAGE_HISTORY,
                keys::SLOT_AT_KEY_BYTES,
                false,
            ),
            account_trie,
            storage_trie,
            block_numbers: CheckedTable::new(block_numbers, "block_numbers", id::BLOCK_NUMBERS),
            transactions: runs(
                transactions,
                "transactions",
                id::TRANSACTIONS,
                B256::len_bytes(),
                true,
            ),
            postings: runs(postings, "postings", id::POSTINGS, POSTING_KEY_BYTES, false),
        };
        Ok(Self { env, tables, renewal: 0, renewals: Arc::default() })
    }

    /// Writes blocks in one transaction. When this function returns, they are on disk. The first block of an empty
    /// index may have any number; later blocks must be consecutive.
    ///
    /// # Errors
    /// If blocks are not consecutive, or if the map or disk is full. In that case none of the blocks is stored,
    /// unless the error occurs in a merge of runs, which follows the commit.
    pub fn flush(&self, blocks: &[FlushBlock<'_>]) -> Result<(), WriteError> {
        flush::flush(&self.env, &self.tables, blocks)
    }

    /// Empties every table durably, before a rebuild.
    ///
    /// # Errors
    /// If the map or disk is full. In that case nothing is removed.
    pub fn wipe(&self) -> Result<(), WriteError> {
        let mut txn = self.env.write()?;
        let tables = &self.tables;
        let cleared = [
            tables.accounts,
            tables.storage,
            tables.code.table,
            tables.account_history.pages.table,
            tables.storage_history.pages.table,
            tables.account_trie,
            tables.storage_trie,
            tables.block_numbers.table,
            tables.transactions.pages.table,
            tables.postings.pages.table,
        ];
        for table in cleared {
            table.clear(&mut txn).map_err(|error| self.env.write_error(error))?;
        }
        for key in [FLUSHED_KEY, trie_records::TRIE_KEY] {
            tables.meta.table.delete(&mut txn, key).map_err(|error| self.env.write_error(error))?;
        }
        self.env.commit(txn)
    }

    /// Empties every table durably while readers may be in use. Later calls of [`Self::reader`] on this value or its
    /// clones fail; existing readers keep their snapshot. Readers of the returned value see later writes.
    ///
    /// # Errors
    /// If the map or disk is full. The index can then still be written, but not read through this value.
    pub fn renew(&self) -> Result<Self, WriteError> {
        // The count changes before the tables are empty, so that a reader of empty tables sees the new count.
        let renewal = self.renewals.fetch_add(1, Ordering::SeqCst) + 1;
        self.wipe()?;
        Ok(Self { renewal, ..self.clone() })
    }

    /// Returns a snapshot of the last commit.
    ///
    /// # Errors
    /// If all reader slots are in use, or if [`Self::renew`] has been called on this value or one of its clones.
    pub fn reader(&self) -> Result<IndexReader, ReadError> {
        let snapshot = self.env.read()?;
        if self.renewals.load(Ordering::SeqCst) != self.renewal {
            return Err(ReadError::Renewed);
        }
        Ok(IndexReader::new(snapshot, self.tables))
    }

    /// Copies the last commit into the folder `to`, compacted and synced. Writers can continue.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn copy(&self, to: impl AsRef<Path>) -> Result<(), WriteError> {
        self.env.copy(to.as_ref())
    }

    /// Keeps read transactions of the newest commit ready from now on, so that readers work while the disk does
    /// not respond to writes. Call this only in a process that commits regularly: otherwise these transactions
    /// would prevent pages from being reused. Adds about 50 microseconds to each commit.
    pub fn keep_readers_ready(&self) {
        self.env.keep_readers_ready();
    }

    /// Returns the sizes of all tables.
    ///
    /// # Errors
    /// If the environment cannot be read.
    pub fn table_sizes(&self) -> Result<Vec<TableSize>, ReadError> {
        self.env.table_sizes()
    }

    /// Returns the statistics of the environment.
    pub fn stats(&self) -> EnvStats {
        self.env.stats()
    }

    /// Returns the folder of the environment.
    pub fn path(&self) -> &Path {
        self.env.path()
    }
}
