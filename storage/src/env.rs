//! LMDB environments: opening, tables, transactions and statistics.
//!
//! `unsafe` is needed because LMDB maps a file into memory, and Rust cannot check that no other process changes
//! that file. It is sound because:
//! - only one process at a time changes a folder (the home lock), and LMDB's lock file coordinates other
//!   processes that read it (a snapshot of a running node);
//! - within the process, `heed` refuses to open a folder twice;
//! - the map is read-only (never `WRITEMAP`), so no stray store can reach the file;
//! - transactions are not bound to threads (`MDB_NOTLS`), so a reader may be sent to another thread.
//!
//! This module must never use `NOSYNC` or `NOMETASYNC`, because a completed commit must be on disk, and must
//! never return a read transaction that is not counted.

#![allow(unsafe_code)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use heed::types::Bytes as RawBytes;
use heed::{CommitOrAbort, CompactionOption, Database, Env, EnvOpenOptions, RwTxn, WithoutTls};

use crate::checked::{CheckedTable, RowFormat};
use crate::data_file;
use crate::disk_space::{DATA_FILE, disk_available_bytes, has_disk_space, is_short_write};
use crate::error::{OpenError, ReadError, WriteError};
use crate::folders::{OPEN_FOLDER_MODE, make_folder, sync_folder};
use crate::kind::Kind;
use crate::reader_table::{MAX_READERS, ReaderTable};
use crate::readers::{Lease, Readers};
use crate::snapshot::ReadTxn;
use crate::table::Table;
use trie::primitive::DecodeError;

/// Maximum number of tables per environment. At most 12 are used (with `meta`); the rest is reserved for later formats.
const MAX_TABLES: u32 = 32;
/// Map sizes are rounded up to a multiple of this, the largest page size of supported systems.
const MAP_ROUNDING_BYTES: u64 = 64 * 1024;
/// Minimum map size in bytes. An empty environment with pages of 4 KiB fits into it.
pub const MIN_MAP_BYTES: u64 = 2 * MAP_ROUNDING_BYTES;
/// Name of the table, present in every environment, that describes the environment.
const META: &str = "meta";
/// Key in [`META`]: kind of environment, as text.
const KIND_KEY: &[u8] = b"env.kind";
/// Key in [`META`]: format number, u32 big-endian.
const FORMAT_KEY: &[u8] = b"env.format";
/// Key in [`META`]: a copy of the kind and the format, with a checksum. It prevents a damaged format number from
/// starting a migration.
const CHECK_KEY: &[u8] = b"env.check";

/// An environment that has been opened.
pub(crate) struct Opened<const N: usize> {
    pub(crate) env: Environment,
    pub(crate) meta: CheckedTable,
    pub(crate) tables: [Table; N],
    /// Whether the environment has the older format that `Kind::migrates` specifies.
    pub(crate) is_old: bool,
}

/// Statistics of one environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvStats {
    /// Map size in bytes, the maximum size of the file.
    pub map_bytes: u64,
    /// Bytes up to the last page in use (free pages below it are counted too).
    pub used_bytes: u64,
    /// Bytes available to users other than root on the file system of the environment; `None` if unknown.
    pub disk_available_bytes: Option<u64>,
    /// Number of the last committed transaction.
    pub last_txn_id: u64,
    /// Read transactions in use, in this process and in others.
    pub readers: u32,
    /// Maximum number of concurrent read transactions.
    pub readers_max: u32,
    /// Age of the oldest read transaction in use. The age of a transaction of another process is measured from the
    /// time when these statistics first included it.
    pub oldest_reader_age: Option<Duration>,
}

/// The size of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSize {
    /// Name of the table.
    pub name: &'static str,
    /// Number of rows.
    pub rows: u64,
    /// Total size of the table's pages in bytes, including unused space.
    pub bytes: u64,
}

/// An open LMDB environment. Clones share it.
#[derive(Clone)]
pub(crate) struct Environment {
    env: Env<WithoutTls>,
    path: Arc<Path>,
    kind: Kind,
    map_bytes: u64,
    /// All tables with their names.
    tables: Arc<[(&'static str, Table)]>,
    // Dropped after `env`: see `ReaderTable`.
    readers: Arc<Readers>,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("path", &self.path).field("kind", &self.kind).finish()
    }
}

/// Why the tables cannot be opened.
enum Refusal {
    Lmdb(heed::Error),
    Open(OpenError),
}

impl From<heed::Error> for Refusal {
    fn from(error: heed::Error) -> Self {
        Self::Lmdb(error)
    }
}

impl Environment {
    /// Opens or creates the environment in the folder `path`, with its `meta` table and one table
    /// for each name, and checks its kind and format. An environment that can be migrated is opened
    /// only if `may_migrate` is set; the caller must then migrate it first.
    pub(crate) fn open<const N: usize>(
        path: &Path,
        kind: Kind,
        map_bytes: u64,
        names: [&'static str; N],
        may_migrate: bool,
    ) -> Result<Opened<N>, OpenError> {
        let io = |source| OpenError::Io { path: path.to_owned(), source };
        make_folder(path, OPEN_FOLDER_MODE).map_err(|source| match source.kind() {
            // The path is not a folder: it is a file, or a symbolic link without target.
            std::io::ErrorKind::AlreadyExists => {
                OpenError::foreign(path, &kind, "it is not a folder")
            }
            _ => io(source),
        })?;
        let map_bytes = map_bytes.next_multiple_of(MAP_ROUNDING_BYTES);
        let open_error = |error| OpenError::from_heed(path, map_bytes, &kind, error);
        data_file::check(path, &kind)?;
        let map_size = usize::try_from(map_bytes)
            .map_err(|_| io(std::io::Error::other("map size above the address space")))?;
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(map_size).max_readers(MAX_READERS).max_dbs(MAX_TABLES);
        // SAFETY: the file is changed through LMDB only (see the top of this file); no flag
        // disables syncing, locking or the read-only map.
        let env = unsafe { options.open(path) }.map_err(open_error)?;
        let opened = open_tables(&env, path, kind, names, may_migrate);
        let (meta, tables, is_old) = opened.map_err(|why| match why {
            Refusal::Lmdb(error) => open_error(error),
            Refusal::Open(error) => error,
        })?;
        // LMDB syncs the contents of a new file but not its name. The name is synced at every
        // opening, because the process that created the file may have been killed before this
        // point.
        sync_folder(path).map_err(io)?;
        // LMDB maps at least the used part of the file.
        let map_bytes = map_bytes.max(env.info().map_size as u64);
        let readers = Arc::new(Readers::new(ReaderTable::open(path).map_err(io)?));
        let listed = [(META, meta)].into_iter().chain(names.into_iter().zip(tables)).collect();
        let env = Self { env, path: path.into(), kind, map_bytes, tables: listed, readers };
        let meta = CheckedTable::new(meta, META, kind.meta_id);
        Ok(Opened { env, meta, tables, is_old })
    }

    /// Writes the format number of a migrated environment.
    pub(crate) fn put_format(
        &self,
        meta: CheckedTable,
        txn: &mut RwTxn<'_>,
    ) -> Result<(), heed::Error> {
        let (format, check) = format_rows(&self.kind)?;
        meta.table.put(txn, FORMAT_KEY, &format)?;
        meta.table.put(txn, CHECK_KEY, &check)
    }

    pub(crate) fn corrupt(&self, table: &'static str, key: &[u8], why: DecodeError) -> ReadError {
        ReadError::corrupt(&self.path, &self.kind, table, key, why)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Begins a read transaction on the last commit.
    pub(crate) fn read(&self) -> Result<ReadTxn, ReadError> {
        ReadTxn::begin(&self.env, Arc::clone(&self.path), self.kind, &self.readers)
    }

    /// Begins a write transaction, after waiting until no other is open. Readers of killed processes are removed
    /// first, because they would prevent pages from being reused.
    pub(crate) fn write(&self) -> Result<RwTxn<'_>, WriteError> {
        self.readers.end_outdated();
        let begun = self.env.clear_stale_readers().and_then(|_| self.env.write_txn());
        begun.map_err(|error| self.write_error(error))
    }

    /// Commits the transaction. All data is on disk when this function returns.
    pub(crate) fn commit(&self, txn: RwTxn<'_>) -> Result<(), WriteError> {
        txn.commit().map_err(|error| self.write_error(error))?;
        self.readers.renew(&self.env);
        Ok(())
    }

    /// Keeps read transactions ready from now on, so that readers can begin while the disk does not respond to
    /// writes. Call this only in a process that commits regularly: otherwise these transactions would prevent pages
    /// from being reused.
    pub(crate) fn keep_readers_ready(&self) {
        self.readers.keep_ready(&self.env);
    }

    /// Copies the last commit into a new environment in the folder `to`, without free pages, and
    /// syncs it. Writers of any process can continue, but pages that they free are not reused until
    /// the copy ends.
    pub(crate) fn copy(&self, to: &Path) -> Result<(), WriteError> {
        let io = |error: std::io::Error| self.copy_error(to, error.into());
        make_folder(to, OPEN_FOLDER_MODE).map_err(io)?;
        let file = to.join(DATA_FILE);
        let _lease = Lease::new(&self.readers);
        let copied = self.env.copy_to_path(&file, CompactionOption::Enabled);
        let synced = copied.and_then(|file| Ok(file.sync_all()?));
        synced.map_err(|error| self.copy_error(to, error))?;
        sync_folder(to).map_err(io)
    }

    fn copy_error(&self, to: &Path, error: heed::Error) -> WriteError {
        WriteError::from_heed(to, self.map_bytes, &self.kind, error)
    }

    pub(crate) fn stats(&self) -> EnvStats {
        let info = self.env.info();
        let page_bytes = u64::from(self.env.unnamed_database_stat().page_size);
        let (readers, oldest_reader_age) = self.readers.count_and_oldest();
        EnvStats {
            map_bytes: self.map_bytes,
            used_bytes: (info.last_page_number as u64 + 1) * page_bytes,
            disk_available_bytes: disk_available_bytes(&self.path),
            last_txn_id: info.last_txn_id as u64,
            readers,
            readers_max: MAX_READERS,
            oldest_reader_age,
        }
    }

    /// Returns the sizes of all tables in the last commit.
    pub(crate) fn table_sizes(&self) -> Result<Vec<TableSize>, ReadError> {
        let read = self.read()?;
        let sizes = self.tables.iter().map(|&(name, table)| {
            let stat = table.stat(read.txn()).map_err(|error| read.error(error))?;
            let pages = stat.branch_pages + stat.leaf_pages + stat.overflow_pages;
            let bytes = pages as u64 * u64::from(stat.page_size);
            Ok(TableSize { name, rows: stat.entries as u64, bytes })
        });
        sizes.collect()
    }

    pub(crate) fn write_error(&self, error: heed::Error) -> WriteError {
        // LMDB reports a short write on a full disk as EIO, so the free space is checked.
        if is_short_write(&error) && !has_disk_space(&self.path) {
            return WriteError::DiskFull { path: self.path.to_path_buf() };
        }
        WriteError::from_heed(&self.path, self.map_bytes, &self.kind, error)
    }

    pub(crate) fn not_next(&self, expected: u64, found: u64) -> WriteError {
        WriteError::NotNext { path: self.path.to_path_buf(), expected, found }
    }
}

/// Opens the tables in one transaction, so that an environment is created completely or not at all.
fn open_tables<const N: usize>(
    env: &Env<WithoutTls>,
    path: &Path,
    kind: Kind,
    names: [&'static str; N],
    may_migrate: bool,
) -> Result<(Table, [Table; N], bool), Refusal> {
    let txn = env.write_txn()?;
    let opened = env.create_databases_and_commit(txn, |opener, txn| {
        // The stored number of entries is not used, because it may be damaged, and an environment
        // that is mistaken for a new one would be marked with this format.
        let main = opener.open_database::<RawBytes, RawBytes>(txn, None)?;
        let is_new = main.map_or(Ok(true), |main| main.first(txn).map(|first| first.is_none()))?;
        let meta = opener.create_database::<RawBytes, RawBytes>(txn, Some(META))?;
        if is_new {
            let (format, check) = format_rows(&kind)?;
            meta.put(txn, KIND_KEY, kind.name.as_bytes())?;
            meta.put(txn, FORMAT_KEY, &format)?;
            meta.put(txn, CHECK_KEY, &check)?;
        }
        let found =
            [meta.get(txn, KIND_KEY)?, meta.get(txn, FORMAT_KEY)?, meta.get(txn, CHECK_KEY)?];
        let is_old = check_format(path, kind, found, may_migrate).map_err(Refusal::Open)?;
        let mut tables = Vec::with_capacity(N);
        for name in names {
            tables.push(opener.create_database::<RawBytes, RawBytes>(txn, Some(name))?);
        }
        let tables: [Database<'_, RawBytes, RawBytes>; N] =
            tables.try_into().expect("one table was opened per name");
        Ok::<_, Refusal>(CommitOrAbort::<_, ()>::Commit((meta, tables, is_old.then_some(()))))
    })?;
    let (meta, tables, is_old) = opened.commit().expect("the closure never aborts");
    Ok((meta, tables, is_old.is_some()))
}

/// Returns the values of [`FORMAT_KEY`] and [`CHECK_KEY`].
fn format_rows(kind: &Kind) -> Result<([u8; 4], Vec<u8>), heed::Error> {
    let check = RowFormat::new(kind.meta_id).encode(CHECK_KEY, &check_text(kind))?;
    Ok((kind.format.to_be_bytes(), check))
}

/// Returns the value of [`CHECK_KEY`].
fn check_text(kind: &Kind) -> Vec<u8> {
    [kind.name.as_bytes(), &kind.format.to_be_bytes()].concat()
}

/// Checks kind and format: the values under [`KIND_KEY`], [`FORMAT_KEY`] and [`CHECK_KEY`]. Returns
/// whether the environment has the older format and must be migrated.
fn check_format(
    path: &Path,
    kind: Kind,
    [found_kind, found, check]: [Option<&[u8]>; 3],
    may_migrate: bool,
) -> Result<bool, OpenError> {
    let (path, expected, remedy) = (path.to_owned(), kind.format, kind.damage_remedy);
    let foreign = |found: String| {
        Err(OpenError::Foreign { path: path.clone(), expected: kind.name, found, remedy })
    };
    let Some(found_kind) = found_kind else {
        return foreign("an LMDB file of another program".to_owned());
    };
    if found_kind != kind.name.as_bytes() {
        return foreign(format!("`{}`", String::from_utf8_lossy(found_kind)));
    }
    let found = found.and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    let Some(found) = found else { return foreign("no format number".to_owned()) };
    if found == expected {
        let rows = RowFormat::new(kind.meta_id);
        let check = check.and_then(|row| rows.payload(CHECK_KEY, row).ok());
        if check == Some(check_text(&kind).as_slice()) {
            return Ok(false);
        }
        let what = "the format number and its copy differ";
        return Err(OpenError::Damaged { path, what, remedy });
    }
    if found < kind.checked_from && check.is_some() {
        let what = "the format number is below that of the tables";
        return Err(OpenError::Damaged { path, what, remedy });
    }
    if Some(found) != kind.migrates {
        return Err(OpenError::Format { path, found, expected, remedy: kind.remedy });
    }
    if may_migrate { Ok(true) } else { Err(OpenError::NotMigrated { path, found, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{ChainDb, ChainOptions};
    use crate::index::{IndexDb, IndexOptions};
    use heed::EnvFlags;

    const MAP_BYTES: u64 = 1 << 20;

    /// Creates an environment as another version of this program would create it.
    fn create_with_format(folder: &Path, name: &'static str, format: u32) {
        let kind = Kind { name, format, ..Kind::OF_TESTS };
        let Opened { env, meta, .. } =
            Environment::open(folder, kind, MAP_BYTES, ["future"], false).unwrap();
        let mut txn = env.write().unwrap();
        meta.table.delete(&mut txn, CHECK_KEY).unwrap();
        env.commit(txn).unwrap();
    }

    #[test]
    fn no_flag_disables_the_sync_of_a_commit() {
        let folder = tempfile::tempdir().unwrap();
        let opened =
            Environment::open(folder.path(), Kind::OF_TESTS, MAP_BYTES, ["rows"], false).unwrap();
        let flags = opened.env.env.flags().unwrap().unwrap();
        let unsafe_flags = EnvFlags::NO_SYNC
            | EnvFlags::NO_META_SYNC
            | EnvFlags::WRITE_MAP
            | EnvFlags::MAP_ASYNC
            | EnvFlags::NO_LOCK;
        assert_eq!(flags & unsafe_flags, EnvFlags::empty(), "see the top of this file");
    }

    #[test]
    fn unknown_format_is_refused_with_both_numbers_and_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        create_with_format(folder.path(), "chain", 999);
        let chain = || ChainDb::open(folder.path(), ChainOptions { map_bytes: MAP_BYTES });
        let error = chain().unwrap_err();
        assert!(
            matches!(error, OpenError::Format { found: 999, expected: crate::CHAIN_FORMAT, .. }),
            "{error}"
        );
        assert!(error.to_string().contains("storage format 999"), "{error}");
        assert!(error.to_string().contains("export the blocks"), "{error}");
        // A rejection does not change the file.
        assert!(matches!(chain().unwrap_err(), OpenError::Format { found: 999, .. }));

        let folder = tempfile::tempdir().unwrap();
        create_with_format(folder.path(), "index", 0);
        let error = IndexDb::open(folder.path(), IndexOptions { map_bytes: MAP_BYTES });
        let error = error.unwrap_err();
        assert!(
            matches!(error, OpenError::Format { found: 0, expected: crate::INDEX_FORMAT, .. }),
            "{error}"
        );
        assert!(error.to_string().contains("evmd reindex"), "{error}");
    }

    /// Opens an LMDB file as another program would. Returns the number of its tables.
    fn open_foreign(folder: &Path) -> usize {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES as usize).max_dbs(1);
        // SAFETY: only this test uses the folder, and has it open once.
        let env = unsafe { options.open(folder) }.unwrap();
        let txn = env.write_txn().unwrap();
        env.create_databases_and_commit(txn, |opener, txn| {
            let table = opener.create_database::<RawBytes, RawBytes>(txn, Some("theirs"))?;
            table.put(txn, b"key", b"value")?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(()))
        })
        .unwrap();
        env.unnamed_database_stat().entries
    }

    #[test]
    fn map_larger_than_the_address_space_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let map_bytes = 1 << 60;
        let chain = ChainDb::open(folder.path(), ChainOptions { map_bytes });
        let error = chain.unwrap_err();
        assert!(matches!(error, OpenError::AddressSpace { .. }), "{error}");
        assert!(error.to_string().contains("storage.chain-map-bytes"), "{error}");
        ChainDb::open(folder.path(), ChainOptions { map_bytes: MAP_BYTES }).unwrap();
    }

    #[test]
    fn file_of_another_program_is_refused_and_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(open_foreign(folder.path()), 1);
        let chain = ChainDb::open(folder.path(), ChainOptions { map_bytes: MAP_BYTES });
        let error = chain.unwrap_err();
        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
        assert_eq!(open_foreign(folder.path()), 1);
    }
}
