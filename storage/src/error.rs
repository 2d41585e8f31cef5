//! Errors of environments. They contain what an operator needs to resolve them.

use std::io;
use std::path::{Path, PathBuf};

use heed::MdbError;

use crate::kind::Kind;
pub use trie::primitive::DecodeError;

/// Why an environment or a home folder could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A folder or file could not be created or read.
    #[error("cannot open {}: {source}", path.display())]
    Io {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another process, or another [`HomeLock`](crate::HomeLock) of this process, has locked the home folder.
    #[error(
        "{} is in use by process {}; stop it, or choose another home folder",
        path.display(),
        pid.map_or_else(|| "of unknown pid".to_owned(), |pid| pid.to_string())
    )]
    HomeLocked {
        /// The lock file.
        path: PathBuf,
        /// Process id in the lock file, if it could be read.
        pid: Option<u32>,
    },
    /// This process runs as root, and the folder belongs to another user, who could not use files owned by root.
    #[error(
        "{} belongs to user {owner}, who could not use the files that root would write there; run the command as this \
         user, such as with `sudo -u '#{owner}'`",
        path.display()
    )]
    OfOtherUser {
        /// The home folder.
        path: PathBuf,
        /// The id of its owner.
        owner: u32,
    },
    /// The environment is already open in this process.
    #[error("{} is already open in this process", path.display())]
    AlreadyOpen {
        /// Folder of the environment.
        path: PathBuf,
    },
    /// The environment was written by a program with another storage format.
    #[error(
        "{} has storage format {found}, but this program reads and writes format {expected}; {remedy}",
        path.display()
    )]
    Format {
        /// Folder of the environment.
        path: PathBuf,
        /// Format number in the file.
        found: u32,
        /// Format number of this program.
        expected: u32,
        /// Remedy.
        remedy: &'static str,
    },
    /// The environment was written by a program with an older storage format. It is migrated when the home
    /// folder is opened for writing.
    #[error(
        "{} has storage format {found}; run `evmd start` once, which migrates it to format {expected} \
         in place",
        path.display()
    )]
    NotMigrated {
        /// Folder of the environment.
        path: PathBuf,
        /// Format number in the file.
        found: u32,
        /// Format number of this program.
        expected: u32,
    },
    /// The environment contains rows of a newer version than this program supports.
    #[error(
        "{}: table `{table}` has rows of version {found}, which a newer version of this program has \
         written; use that version",
        path.display()
    )]
    NewerRows {
        /// Folder of the environment.
        path: PathBuf,
        /// Table name.
        table: &'static str,
        /// Version of a row.
        found: u8,
    },
    /// The data file ends before its last page in use.
    #[error(
        "{} is truncated: it has {found} bytes, but must have at least {expected}; {remedy}",
        path.display()
    )]
    Truncated {
        /// The data file.
        path: PathBuf,
        /// Minimum size in bytes: the end of the last page in use, or of the two meta pages.
        expected: u64,
        /// Size of the file in bytes.
        found: u64,
        /// Remedy.
        remedy: &'static str,
    },
    /// LMDB's meta pages or the format number of the environment are damaged.
    #[error("{} is damaged: {what}; {remedy}", path.display())]
    Damaged {
        /// Folder or data file of the environment.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
        /// Remedy.
        remedy: &'static str,
    },
    /// A row could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A migration could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The file belongs to another program or another kind of environment.
    #[error("{} does not hold a `{expected}` environment: {found}; {remedy}", path.display())]
    Foreign {
        /// Folder of the environment.
        path: PathBuf,
        /// Expected kind of environment.
        expected: &'static str,
        /// Actual contents.
        found: String,
        /// Remedy.
        remedy: &'static str,
    },
    /// The system refuses to map that much address space.
    #[error(
        "cannot map {map_bytes} bytes for {}: lower `{setting}`, or raise the limit on the \
         address space of the process",
        path.display()
    )]
    AddressSpace {
        /// Folder of the environment.
        path: PathBuf,
        /// Requested map size.
        map_bytes: u64,
        /// Setting that lowers it.
        setting: &'static str,
    },
    /// There is no disk space for the first pages.
    #[error("no disk space left for {}", path.display())]
    DiskFull {
        /// Folder of the environment.
        path: PathBuf,
    },
    /// A process in another process id namespace has the environment open with the process id of this process.
    /// LMDB distinguishes readers by process id.
    #[error(transparent)]
    SameProcessId(SameProcessId),
    /// Any other error of LMDB.
    #[error("cannot open {}: {source}; if the file is damaged, {remedy}", path.display())]
    Lmdb {
        /// Folder of the environment.
        path: PathBuf,
        /// Error of LMDB.
        source: heed::Error,
        /// Remedy.
        remedy: &'static str,
    },
}

/// Why a read failed. A missing entry is not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// All reader slots are in use.
    #[error("all {limit} readers of {} are in use", path.display())]
    ReadersFull {
        /// Folder of the environment.
        path: PathBuf,
        /// Number of reader slots.
        limit: u32,
    },
    /// A stored row is missing, does not match its checksum or does not decode: the file is damaged.
    #[error(
        "the {environment} environment {} is damaged: table `{table}`, {}: {source}; {remedy}",
        path.display(),
        block.map_or_else(|| format!("key {key}"), |block| format!("block {block}"))
    )]
    Corrupt {
        /// Name of the environment.
        environment: &'static str,
        /// Folder of the environment.
        path: PathBuf,
        /// Table name.
        table: &'static str,
        /// Key in hexadecimal.
        key: String,
        /// The block of the row, if the table has one row per block.
        block: Option<u64>,
        /// Remedy.
        remedy: &'static str,
        /// Why the row is invalid.
        source: DecodeError,
    },
    /// The code of an account is missing.
    #[error("{}: no code with hash {code_hash}; {remedy}", path.display())]
    MissingCode {
        /// Folder of the environment.
        path: PathBuf,
        /// Keccak-256 of the code.
        code_hash: alloy_primitives::B256,
        /// Remedy.
        remedy: &'static str,
    },
    /// The index was emptied, because the chain returns to a block that is older than the index.
    #[error("the node has returned to an earlier block or is doing so; repeat the request")]
    Renewed,
    /// The block was removed from the chain after the reader's view had been published.
    #[error(
        "block {number} ({hash}) was removed from the chain while the request ran; repeat the request"
    )]
    Undone {
        /// Number of the block.
        number: u64,
        /// Hash of the block.
        hash: alloy_primitives::B256,
    },
    /// A process in another process id namespace has the environment open with the process id of this process.
    /// LMDB distinguishes readers by process id.
    #[error(transparent)]
    SameProcessId(SameProcessId),
    /// Any other error of LMDB.
    #[error("cannot read {}: {source}; if the file is damaged, {remedy}", path.display())]
    Lmdb {
        /// Folder of the environment.
        path: PathBuf,
        /// Error of LMDB.
        source: heed::Error,
        /// Remedy.
        remedy: &'static str,
    },
}

/// Why a write failed. The transaction that failed had no effect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The block of an append, flush or checkpoint is not a valid next block.
    #[error("block {found} cannot be written to {}: block {expected} is next", path.display())]
    NotNext {
        /// Folder of the environment.
        path: PathBuf,
        /// Expected block number.
        expected: u64,
        /// Given block number.
        found: u64,
    },
    /// The memory map is full.
    #[error(
        "{} has reached its map size of {map_bytes} bytes; raise `{setting}` and start again",
        path.display()
    )]
    MapFull {
        /// Folder of the environment.
        path: PathBuf,
        /// Current map size, in bytes.
        map_bytes: u64,
        /// Setting that raises it.
        setting: &'static str,
    },
    /// The disk is full, or the quota or the file size limit of the process is reached.
    #[error("no disk space left for {}: free some and start again", path.display())]
    DiskFull {
        /// Folder of the environment.
        path: PathBuf,
    },
    /// A read on which the write depends failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A process in another process id namespace has the environment open with the process id of this process.
    /// LMDB distinguishes readers by process id.
    #[error(transparent)]
    SameProcessId(SameProcessId),
    /// Any other error of LMDB.
    #[error("cannot write {}: {source}; if the file is damaged, {remedy}", path.display())]
    Lmdb {
        /// Folder of the environment.
        path: PathBuf,
        /// Error of LMDB.
        source: heed::Error,
        /// Remedy.
        remedy: &'static str,
    },
}

/// A process in another process id namespace has this environment open with the process id of this process.
#[derive(Debug, thiserror::Error)]
#[error(
    "another process with process id {pid} has an LMDB environment of this home open, which is possible only in another \
     container (process id namespace): run the command in the container of the node (such as `docker exec`), or in one \
     that shares its process ids (`--pid container:NAME`), or stop the node"
)]
pub struct SameProcessId {
    /// The process id that both processes have.
    pub pid: u32,
}

impl SameProcessId {
    /// LMDB locks one byte of its lock file per process id, and reports a locked byte as `EAGAIN`.
    fn from_heed(error: &heed::Error) -> Option<Self> {
        let is_locked =
            matches!(error, heed::Error::Io(io) if io.kind() == io::ErrorKind::WouldBlock);
        is_locked.then(|| Self { pid: std::process::id() })
    }
}

/// Returns whether the error means that a file could not grow.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

impl OpenError {
    /// Creates the error for a path that is not an environment, or for a file that is not an LMDB file.
    pub(crate) fn foreign(path: &Path, kind: &Kind, found: &str) -> Self {
        let (path, found) = (path.to_owned(), found.to_owned());
        Self::Foreign { path, expected: kind.name, found, remedy: kind.damage_remedy }
    }

    pub(crate) fn from_heed(path: &Path, map_bytes: u64, kind: &Kind, source: heed::Error) -> Self {
        if let Some(same) = SameProcessId::from_heed(&source) {
            return Self::SameProcessId(same);
        }
        let path = path.to_owned();
        let (setting, remedy) = (kind.map_setting, kind.damage_remedy);
        match source {
            heed::Error::Io(source) if source.kind() == io::ErrorKind::OutOfMemory => {
                Self::AddressSpace { path, map_bytes, setting }
            }
            heed::Error::Io(source) if is_disk_full(&source) => Self::DiskFull { path },
            heed::Error::EnvAlreadyOpened => Self::AlreadyOpen { path },
            heed::Error::Io(source) => Self::Io { path, source },
            source => Self::Lmdb { path, source, remedy },
        }
    }
}

impl ReadError {
    pub(crate) fn corrupt(
        path: &Path,
        kind: &Kind,
        table: &'static str,
        key: &[u8],
        source: DecodeError,
    ) -> Self {
        let block = key.try_into().ok().filter(|_| kind.has_blocks).map(u64::from_be_bytes);
        // Block 0 cannot be removed, and neither can rows without a block.
        let is_removable = block.is_some_and(|number| number > 0);
        let remedy = if is_removable { kind.block_remedy } else { kind.damage_remedy };
        let environment = kind.name;
        let (path, key) = (path.to_owned(), alloy_primitives::hex::encode(key));
        Self::Corrupt { environment, path, table, key, block, remedy, source }
    }

    /// Returns whether the error indicates damage, as opposed to a limit, a removed block or a wiped index.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::MissingCode { .. } | Self::Lmdb { .. })
    }

    pub(crate) fn from_heed(
        path: &Path,
        kind: &Kind,
        readers_max: u32,
        source: heed::Error,
    ) -> Self {
        if let Some(same) = SameProcessId::from_heed(&source) {
            return Self::SameProcessId(same);
        }
        let (path, remedy) = (path.to_owned(), kind.damage_remedy);
        match source {
            heed::Error::Mdb(MdbError::ReadersFull) => {
                Self::ReadersFull { path, limit: readers_max }
            }
            source => Self::Lmdb { path, source, remedy },
        }
    }
}

impl WriteError {
    pub(crate) fn from_heed(path: &Path, map_bytes: u64, kind: &Kind, source: heed::Error) -> Self {
        if let Some(same) = SameProcessId::from_heed(&source) {
            return Self::SameProcessId(same);
        }
        let path = path.to_owned();
        let (setting, remedy) = (kind.map_setting, kind.damage_remedy);
        match source {
            heed::Error::Io(source) if is_disk_full(&source) => Self::DiskFull { path },
            heed::Error::Mdb(MdbError::MapFull) => Self::MapFull { path, map_bytes, setting },
            source => Self::Lmdb { path, source, remedy },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_of_a_process_with_the_same_id_is_reported_with_that_id() {
        let would_block = || heed::Error::Io(io::ErrorKind::WouldBlock.into());
        let (path, kind) = (Path::new("chain"), &Kind::OF_TESTS);
        let pid = format!("process id {}", std::process::id());
        for text in [
            OpenError::from_heed(path, 1, kind, would_block()).to_string(),
            ReadError::from_heed(path, kind, 1, would_block()).to_string(),
            WriteError::from_heed(path, 1, kind, would_block()).to_string(),
        ] {
            assert!(text.contains(&pid) && text.contains("container"), "{text}");
        }
    }
}
