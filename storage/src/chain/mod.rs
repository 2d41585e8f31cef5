//! The `chain` environment: all blocks, in an append-only form. It is the source of truth.
//!
//! Most tables are keyed by block number (u64 big-endian). All rows of a call are written in one transaction,
//! which is synced before the call returns. A block is stored completely or not at all, and block numbers are
//! consecutive. Every row has checksums (`checked`), except the kind and format in `meta`. Data derived from the
//! `index` environment must never be written here.

mod certificates;
mod governance;
mod meta;
mod migrate;
mod reader;

use std::borrow::Borrow;
use std::ops::{Bound, RangeInclusive};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alloy_primitives::{Address, B256, Bytes};
use heed::RwTxn;

use crate::StateChanges;
use crate::checked::{CheckedTable, RowFormat};
use crate::codec;
use crate::env::{EnvStats, Environment, Opened, TableSize};
use crate::error::{OpenError, ReadError, WriteError};
use crate::flags::BlockFlags;
use crate::kind::Kind;
use crate::receipt::StoredReceipt;
use crate::table::{KeyRange, Table};

pub use governance::{GovernanceItems, GovernanceKey, GovernanceRow};
pub use migrate::MigrationProgress;
pub use reader::ChainReader;

/// Format number of the `chain` environment.
pub const CHAIN_FORMAT: u32 = 4;
/// Format number of `chain` environments that are migrated in place.
const MIGRATED_FORMAT: u32 = 3;
/// Default map size in bytes. It costs address space only.
pub const CHAIN_MAP_BYTES_DEFAULT: u64 = 1 << 40;
const KIND: Kind = Kind {
    name: "chain",
    map_setting: "storage.chain-map-bytes",
    format: CHAIN_FORMAT,
    migrates: Some(MIGRATED_FORMAT),
    checked_from: 4,
    remedy: "export the blocks with the program that wrote them and import them into a new home",
    damage_remedy: "restore a snapshot into a new home folder, or import the blocks into one (`evmd snapshot \
                    restore`, `evmd import`)",
    block_remedy: "restore a snapshot, or remove the damaged blocks with `evmd rollback` and import them \
                   again",
    meta_id: 12,
    has_blocks: true,
};

/// A complete block with all derived data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRecord {
    /// Block number.
    pub number: u64,
    /// Keccak-256 of the header.
    pub hash: B256,
    /// Which properties of the block were set by development methods.
    pub flags: BlockFlags,
    /// RLP of the header.
    pub header: Bytes,
    /// RLP of the block's list items after the header (transactions, ommers and, since Shanghai,
    /// withdrawals) without the outer list header.
    pub body: Bytes,
    /// Sender of each transaction.
    pub senders: Vec<Address>,
    /// Receipt of each transaction.
    pub receipts: Vec<StoredReceipt>,
    /// The state changes of the block.
    pub changes: Arc<StateChanges>,
    /// Row of the fee history, which is opaque here.
    pub fees: Bytes,
    /// Row of the native module state, which is opaque here and may be empty.
    pub module: Bytes,
    /// Governance items that the block changed, each at most once.
    pub governance: Vec<GovernanceRow>,
    /// The block's own certificate, if it has one. It is opaque here.
    pub certificate: Option<Bytes>,
}

/// Options for opening the `chain` environment.
#[derive(Clone, Copy, Debug)]
pub struct ChainOptions {
    /// Maximum size of the file in bytes. Costs address space only.
    pub map_bytes: u64,
}

impl Default for ChainOptions {
    fn default() -> Self {
        Self { map_bytes: CHAIN_MAP_BYTES_DEFAULT }
    }
}

/// Tables of the `chain` environment.
#[derive(Clone, Copy, Debug)]
struct Tables {
    meta: CheckedTable,
    headers: CheckedTable,
    bodies: CheckedTable,
    senders: CheckedTable,
    receipts: CheckedTable,
    changes: CheckedTable,
    fees: CheckedTable,
    module: CheckedTable,
    governance: CheckedTable,
    certificates: CheckedTable,
}

/// Tables with one row per block, keyed by block number: name, and number in checksums.
const BLOCK_TABLES: [(&str, u8); 7] = [
    ("headers", 1),
    ("bodies", 2),
    ("senders", 3),
    ("receipts", 4),
    ("changes", 5),
    ("fees", 6),
    ("module", 7),
];
/// Tables whose rows begin with a version: name, number in checksums, newest version that this program knows.
/// Tables with version 0 stay empty. An environment that contains rows of a newer version is rejected, because
/// this program would ignore their content.
const VERSIONED_TABLES: [(&str, u8, u8); 4] = [
    ("governance", 8, governance::ROW_VERSION),
    ("certificates", 9, certificates::ROW_VERSION),
    ("evidence", 10, 0),
    ("calls", 11, 0),
];

const NAMES: [&str; 11] = [
    "headers",
    "bodies",
    "senders",
    "receipts",
    "changes",
    "fees",
    "module",
    "governance",
    "certificates",
    "evidence",
    "calls",
];

impl Tables {
    fn new(meta: CheckedTable, tables: [Table; 7], versioned: [Table; 2]) -> Self {
        let [governance, certificates] = [0, 1].map(|index| {
            let (name, id, _) = VERSIONED_TABLES[index];
            CheckedTable::new(versioned[index], name, id)
        });
        let mut tables = tables.into_iter().zip(BLOCK_TABLES);
        let [headers, bodies, senders, receipts, changes, fees, module] = [(); 7].map(|()| {
            let (table, (name, id)) = tables.next().expect("seven tables");
            CheckedTable::new(table, name, id)
        });
        Self {
            meta,
            headers,
            bodies,
            senders,
            receipts,
            changes,
            fees,
            module,
            governance,
            certificates,
        }
    }

    /// Returns the tables with one row per block, in the order of [`BLOCK_TABLES`].
    fn by_number(&self) -> [CheckedTable; 7] {
        [
            self.headers,
            self.bodies,
            self.senders,
            self.receipts,
            self.changes,
            self.fees,
            self.module,
        ]
    }
}

/// The `chain` environment. Clones share it.
#[derive(Clone, Debug)]
pub struct ChainDb {
    env: Environment,
    tables: Tables,
    /// Number of times that blocks have been removed; see [`Self::removals`].
    removals: Arc<AtomicU64>,
}

impl ChainDb {
    /// Opens or creates the environment in the folder `path`.
    ///
    /// # Errors
    /// If the folder cannot be used, contains other data, has another format, or is damaged.
    pub fn open(path: impl AsRef<Path>, options: ChainOptions) -> Result<Self, OpenError> {
        let (chain, _) = Self::open_any(path.as_ref(), options, false)?;
        Ok(chain)
    }

    /// Does the same as [`Self::open`], and migrates an environment of the previous format. No other process may
    /// write to it at the same time. If the process dies during the migration, this function continues the
    /// migration the next time.
    ///
    /// # Errors
    /// Those of [`Self::open`], and if a row cannot be read or written.
    pub fn open_or_migrate(
        path: impl AsRef<Path>,
        options: ChainOptions,
        progress: impl FnMut(MigrationProgress),
    ) -> Result<Self, OpenError> {
        let (chain, is_old) = Self::open_any(path.as_ref(), options, true)?;
        if is_old {
            migrate::migrate(&chain, progress)?;
        }
        Ok(chain)
    }

    /// Opens an environment. Returns whether it must still be migrated.
    fn open_any(
        path: &Path,
        options: ChainOptions,
        may_migrate: bool,
    ) -> Result<(Self, bool), OpenError> {
        let opened = Environment::open(path, KIND, options.map_bytes, NAMES, may_migrate)?;
        let Opened { env, meta, tables, is_old } = opened;
        let (tables, versioned) = tables.split_at(BLOCK_TABLES.len());
        check_versions(&env, versioned)?;
        let versioned = [versioned[0], versioned[1]];
        let tables = tables.try_into().expect("as many as have names");
        let tables = Tables::new(meta, tables, versioned);
        let chain = Self { env, tables, removals: Arc::default() };
        if !is_old {
            chain.check_meta_keys()?;
        }
        Ok((chain, is_old))
    }

    /// Appends blocks in one transaction. When this function returns, they are on disk. The first block of the
    /// chain may have any number; each later block must have the next number.
    ///
    /// # Errors
    /// If a block is not the next one, or if the map or disk is full. In that case none of the blocks is stored.
    pub fn append<R: Borrow<BlockRecord>>(&self, blocks: &[R]) -> Result<(), WriteError> {
        if blocks.is_empty() {
            return Ok(());
        }
        let mut txn = self.env.write()?;
        let mut next = self.head_number(&txn)?.map(|head| head + 1);
        let mut scratch = Vec::new();
        for block in blocks {
            let block = block.borrow();
            let expected = next.unwrap_or(block.number);
            if block.number != expected {
                return Err(self.env.not_next(expected, block.number));
            }
            self.put_block(&mut txn, block, &mut scratch)
                .map_err(|error| self.env.write_error(error))?;
            next = Some(block.number + 1);
        }
        self.env.commit(txn)
    }

    fn put_block(
        &self,
        txn: &mut RwTxn<'_>,
        block: &BlockRecord,
        scratch: &mut Vec<u8>,
    ) -> Result<(), heed::Error> {
        let key = block.number.to_be_bytes();
        let tables = &self.tables;
        let mut put = |table: CheckedTable, payload: &[u8]| table.append(txn, &key, payload);
        scratch.clear();
        codec::encode_header(scratch, &block.hash, block.flags, &block.header);
        put(tables.headers, scratch)?;
        put(tables.bodies, &block.body)?;
        scratch.clear();
        codec::encode_senders(scratch, &block.senders);
        put(tables.senders, scratch)?;
        scratch.clear();
        codec::encode_receipts(scratch, &block.receipts);
        put(tables.receipts, scratch)?;
        scratch.clear();
        codec::encode_changes(scratch, &block.changes);
        put(tables.changes, scratch)?;
        put(tables.fees, &block.fees)?;
        put(tables.module, &block.module)?;
        if let Some(certificate) = &block.certificate {
            certificates::put(tables.certificates, txn, block.number, certificate, scratch)?;
        }
        governance::put(tables.governance, txn, block.number, &block.governance, scratch)
    }

    /// Removes every block above `number` (rollback). Returns the number of removed blocks.
    ///
    /// An index that has flushed a block above `number` no longer matches the chain and must be wiped and
    /// rebuilt.
    ///
    /// # Errors
    /// If the map or disk is full. In that case nothing is removed.
    pub fn truncate_after(&self, number: u64) -> Result<u64, WriteError> {
        self.truncate(number, None)
    }

    /// Does the same as [`Self::truncate_after`], and stores `value` under `key` as [`Self::put_meta`] does, in
    /// one transaction.
    ///
    /// # Errors
    /// Those of both methods. In that case nothing has changed.
    pub fn truncate_after_and_put_meta(
        &self,
        number: u64,
        key: &str,
        value: &[u8],
    ) -> Result<u64, WriteError> {
        self.truncate(number, Some((key, value)))
    }

    fn truncate(&self, number: u64, meta: Option<(&str, &[u8])>) -> Result<u64, WriteError> {
        let mut txn = self.env.write()?;
        let removed = match number.checked_add(1) {
            Some(first) => self.remove_from(&mut txn, first)?,
            None => 0,
        };
        if let Some((key, value)) = meta {
            self.write_meta(&mut txn, key, value)?;
        }
        // The count changes before the commit, so that a reader of the shorter chain also sees the new count.
        self.removals.fetch_add(1, Ordering::SeqCst);
        self.env.commit(txn)?;
        Ok(removed as u64)
    }

    /// Removes the rows of all blocks from `first` on. Returns the number of removed blocks.
    fn remove_from(&self, txn: &mut RwTxn<'_>, first: u64) -> Result<usize, WriteError> {
        let key = first.to_be_bytes();
        let range: KeyRange<'_> = (Bound::Included(&key), Bound::Unbounded);
        let mut removed = 0;
        for table in self.tables.by_number() {
            removed = table
                .table
                .delete_range(txn, &range)
                .map_err(|error| self.env.write_error(error))?;
        }
        self.tables
            .certificates
            .table
            .delete_range(txn, &range)
            .map_err(|error| self.env.write_error(error))?;
        governance::truncate_after(self.tables.governance, txn, first - 1)
            .map_err(|error| self.env.write_error(error))?;
        Ok(removed)
    }

    /// Returns the number of times that this process has removed blocks. While it stays the same, every block that
    /// was stored is still stored.
    pub fn removals(&self) -> u64 {
        self.removals.load(Ordering::SeqCst)
    }

    /// Returns a snapshot of the last commit.
    ///
    /// # Errors
    /// If all reader slots are in use.
    pub fn reader(&self) -> Result<ChainReader, ReadError> {
        Ok(ChainReader::new(self.env.read()?, self.tables))
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

    fn head_number(&self, txn: &RwTxn<'_>) -> Result<Option<u64>, WriteError> {
        Ok(self.numbers(txn)?.map(|numbers| *numbers.end()))
    }

    fn numbers(&self, txn: &RwTxn<'_>) -> Result<Option<RangeInclusive<u64>>, WriteError> {
        let ends = reader::ends(&self.tables, txn).map_err(|error| self.env.write_error(error))?;
        ends.map_err(|(table, key, why)| self.env.corrupt(table, &key, why).into())
    }
}

/// Rejects an environment with rows of a newer version. Only the last row of each table is checked here; readers
/// check the version of every row that they read.
fn check_versions(env: &Environment, tables: &[Table]) -> Result<(), OpenError> {
    let txn = env.read()?;
    for (table, (name, id, newest)) in tables.iter().zip(VERSIONED_TABLES) {
        let last = table.last(txn.txn()).map_err(|error| txn.error(error))?;
        let Some((key, row)) = last else { continue };
        let payload = RowFormat::new(id).payload(key, row);
        let payload = payload.map_err(|why| txn.corrupt(name, key, why))?;
        let found = payload.first().copied().unwrap_or_default();
        if newest == 0 || found > newest {
            return Err(OpenError::NewerRows { path: env.path().to_owned(), table: name, found });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::DecodeError;

    fn open(folder: &tempfile::TempDir) -> Result<ChainDb, OpenError> {
        ChainDb::open(folder.path(), ChainOptions { map_bytes: 1 << 20 })
    }

    /// Returns the errors of reads of block 7, each with the name of its table.
    fn errors(chain: &ChainDb) -> Vec<(&'static str, ReadError)> {
        let reader = chain.reader().unwrap();
        vec![
            ("headers", reader.head().unwrap_err()),
            ("headers", reader.header(7).unwrap_err()),
            ("headers", reader.hash(7).unwrap_err()),
            ("bodies", reader.body(7).unwrap_err()),
            ("bodies", reader.body_part(7, |_| Some(0..1)).unwrap_err()),
            ("senders", reader.senders(7).unwrap_err()),
            ("senders", reader.sender(7, 0).unwrap_err()),
            ("receipts", reader.receipts(7).unwrap_err()),
            ("changes", reader.changes(7).unwrap_err()),
            ("fees", reader.fees(7).unwrap_err()),
            ("fees", reader.fees_range(0..=9).unwrap().next().unwrap().unwrap_err()),
            ("fees", reader.each_fee_row(7..=7, |_, _| Ok::<_, ReadError>(())).unwrap_err()),
            ("module", reader.module(7).unwrap_err()),
        ]
    }

    fn assert_names_row_and_remedy(errors: Vec<(&'static str, ReadError)>) {
        for (expected, error) in errors {
            assert!(
                matches!(&error, ReadError::Corrupt { table, block: Some(7), environment: "chain", .. }
                    if *table == expected),
                "{expected}: {error}"
            );
            let text = error.to_string();
            for part in [expected, "block 7", "evmd rollback", "snapshot"] {
                assert!(text.contains(part), "{text}");
            }
        }
    }

    #[test]
    fn a_damaged_row_is_an_error_that_names_environment_table_block_and_remedy() {
        // Rows without checksums, of another block, or of another table are rejected.
        let unchecked = |_: CheckedTable| vec![0x7f];
        let misplaced = |table: CheckedTable| {
            let payload = [0; 40];
            table.rows.encode(&8u64.to_be_bytes(), &payload).unwrap()
        };
        let of_another_table =
            |_: CheckedTable| RowFormat::new(200).encode(&7u64.to_be_bytes(), &[0; 40]).unwrap();
        let damages: [&dyn Fn(CheckedTable) -> Vec<u8>; 3] =
            [&unchecked, &misplaced, &of_another_table];
        for damage in damages {
            let folder = tempfile::tempdir().unwrap();
            let chain = open(&folder).unwrap();
            let mut txn = chain.env.write().unwrap();
            for table in chain.tables.by_number() {
                table.table.put(&mut txn, &7u64.to_be_bytes(), &damage(table)).unwrap();
            }
            chain.env.commit(txn).unwrap();
            assert_names_row_and_remedy(errors(&chain));
        }
    }

    /// `evmd rollback` keeps the first block, and does not change rows without a block.
    #[test]
    fn rollback_is_a_remedy_only_for_blocks_above_block_0() {
        let folder = tempfile::tempdir().unwrap();
        let chain = open(&folder).unwrap();
        let why = DecodeError { what: "checksum does not match", at: 0 };
        let text = |key: &[u8]| chain.env.corrupt("headers", key, why).to_string();
        assert!(text(&1u64.to_be_bytes()).contains("evmd rollback"));
        for key in [&0u64.to_be_bytes()[..], b"user.genesis"] {
            assert!(!text(key).contains("rollback") && text(key).contains("evmd snapshot restore"));
        }
    }

    #[test]
    fn a_row_that_is_missing_between_the_first_block_and_the_head_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let chain = open(&folder).unwrap();
        let mut txn = chain.env.write().unwrap();
        for number in [6u64, 8] {
            chain.tables.headers.put(&mut txn, &number.to_be_bytes(), &[0; 40]).unwrap();
            chain.tables.bodies.put(&mut txn, &number.to_be_bytes(), &[0; 40]).unwrap();
        }
        chain.env.commit(txn).unwrap();
        let reader = chain.reader().unwrap();
        let errors = vec![
            ("headers", reader.header(7).unwrap_err()),
            ("bodies", reader.body(7).unwrap_err()),
            ("bodies", reader.body_bytes(7).unwrap_err()),
            ("senders", reader.tx_count(7).unwrap_err()),
            ("fees", reader.fees_range(7..=7).unwrap().next().unwrap().unwrap_err()),
        ];
        assert_names_row_and_remedy(errors);
        for outside in [5, 9] {
            assert!(reader.header(outside).unwrap().is_none());
            assert!(reader.body(outside).unwrap().is_none());
        }
    }

    #[test]
    fn rows_of_a_newer_version_are_refused() {
        for (name, id, _) in VERSIONED_TABLES {
            let folder = tempfile::tempdir().unwrap();
            let opened = Environment::open(folder.path(), KIND, 1 << 20, [name], false).unwrap();
            let mut txn = opened.env.write().unwrap();
            let row = RowFormat::new(id).encode(b"key", &[3, 1, 2]).unwrap();
            opened.tables[0].put(&mut txn, b"key", &row).unwrap();
            opened.env.commit(txn).unwrap();
            drop(opened);
            let error = open(&folder).unwrap_err();
            assert!(
                matches!(error, OpenError::NewerRows { table, found: 3, .. } if table == name),
                "{error}"
            );
        }
    }
}
