//! Opens the environments of a home folder, migrates the chain, and discards an index that is too old.

use super::{CHAIN_FOLDER, HomeError, INDEX_FOLDER};
use config::Config;
use platform::sigbus;
use std::{
    path::Path,
    time::{Duration, Instant},
};
use storage::{
    CHAIN_FORMAT, ChainDb, ChainOptions, IndexDb, IndexOptions, OpenError, folder_of, sync_folder,
};

/// Interval between two progress messages of a migration or replay. Commands that log only warnings show them
/// too: otherwise nothing would explain why a start takes minutes.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Opens the chain environment of a home.
///
/// # Errors
/// [`OpenError`].
pub fn open_chain(path: &Path, config: &Config) -> Result<ChainDb, OpenError> {
    sigbus::report(path);
    let options = ChainOptions { map_bytes: config.storage.chain_map_bytes };
    ChainDb::open(path.join(CHAIN_FOLDER), options)
}

/// Opens the chain environment of a folder whose lock is held, and migrates it if it has the previous format.
pub(super) fn open_or_migrate_chain(path: &Path, config: &Config) -> Result<ChainDb, OpenError> {
    sigbus::report(path);
    let options = ChainOptions { map_bytes: config.storage.chain_map_bytes };
    let mut progress = ProgressLog::new("migrating the chain to a new storage format");
    let mut migrated = None;
    let chain = ChainDb::open_or_migrate(path.join(CHAIN_FOLDER), options, |at| {
        progress.at(at.next, at.last);
        migrated = Some(at.last);
    })?;
    if let Some(head) = migrated {
        tracing::warn!(head, format = CHAIN_FORMAT, "migrated the chain to a new storage format");
    }
    Ok(chain)
}

/// Opens both environments of a folder whose lock is held. An index of an older format is deleted; it is rebuilt
/// when the home is opened.
pub(super) fn open_for_writing(
    path: &Path,
    config: &Config,
) -> Result<(ChainDb, IndexDb), HomeError> {
    let chain = open_or_migrate_chain(path, config)?;
    match open_index(path, config) {
        Err(OpenError::Format { found, expected, .. }) if found < expected => {
            tracing::warn!(found, expected, "the index has an older format and is built again");
            remove_index(path)?;
            Ok((chain, open_index(path, config)?))
        }
        index => Ok((chain, index?)),
    }
}

/// Opens the index environment of a home.
///
/// # Errors
/// [`OpenError`].
pub fn open_index(path: &Path, config: &Config) -> Result<IndexDb, OpenError> {
    let options = IndexOptions { map_bytes: config.storage.index_map_bytes };
    IndexDb::open(path.join(INDEX_FOLDER), options)
}

/// Opens both environments of a folder that has them.
pub fn open_environments(path: &Path, config: &Config) -> Result<(ChainDb, IndexDb), OpenError> {
    Ok((open_chain(path, config)?, open_index(path, config)?))
}

/// Logs the progress of a pass over all blocks, once it has taken longer than [`PROGRESS_INTERVAL`].
#[derive(Debug)]
pub struct ProgressLog {
    what: &'static str,
    last: Instant,
}

impl ProgressLog {
    /// Starts a pass with this name in its messages.
    pub fn new(what: &'static str) -> Self {
        Self { what, last: Instant::now() }
    }

    /// Records that the pass has reached `block` of `head`.
    pub fn at(&mut self, block: u64, head: u64) {
        if self.last.elapsed() >= PROGRESS_INTERVAL {
            self.last = Instant::now();
            tracing::warn!(block, head, "{}", self.what);
        }
    }
}

/// Files of an environment.
pub(super) const ENVIRONMENT_FILES: [&str; 4] =
    ["data.mdb", "data.mdb.new", "lock.mdb", "room.probe"];

/// Removes the files of the index, or a file or link with its name. The folder itself is kept because it may be a link
/// to another disk or a mount point.
pub(super) fn remove_index(home: &Path) -> Result<(), HomeError> {
    let index = home.join(INDEX_FOLDER);
    if !index.is_dir() {
        return removed(std::fs::remove_file(&index), &index);
    }
    for file in ENVIRONMENT_FILES {
        let file = index.join(file);
        let is_folder = std::fs::symlink_metadata(&file).is_ok_and(|file| file.is_dir());
        let result =
            if is_folder { std::fs::remove_dir_all(&file) } else { std::fs::remove_file(&file) };
        removed(result, &file)?;
    }
    Ok(())
}

/// Syncs the folder after a removal, so that the file does not reappear after a power failure. A missing file
/// counts as removed.
pub(super) fn removed(result: std::io::Result<()>, path: &Path) -> Result<(), HomeError> {
    let result = match result {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(source),
        _ => sync_folder(folder_of(path)),
    };
    result.map_err(|source| HomeError::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Home;
    use chain::Genesis;
    use std::{fs, os::unix::fs::symlink};

    /// The index of a large chain may be on its own disk, and must stay there when it is rebuilt.
    #[test]
    fn an_index_on_another_disk_is_built_again_there() {
        let folder = tempfile::tempdir().unwrap();
        let [home, disk] = ["home", "disk"].map(|name| folder.path().join(name));
        drop(Home::init(&home, &Genesis::native_dev(1_700_000_000)).unwrap());
        fs::rename(home.join(INDEX_FOLDER), &disk).unwrap();
        symlink(&disk, home.join(INDEX_FOLDER)).unwrap();
        fs::create_dir(disk.join("lost+found")).unwrap();
        let before = fs::metadata(disk.join("data.mdb")).unwrap().modified().unwrap();
        drop(Home::reindex(&home).unwrap());
        assert!(fs::symlink_metadata(home.join(INDEX_FOLDER)).unwrap().is_symlink());
        assert_ne!(fs::metadata(disk.join("data.mdb")).unwrap().modified().unwrap(), before);
        assert!(disk.join("lost+found").is_dir());
    }

    #[test]
    fn remove_index_removes_files_links_and_folders() {
        let folder = tempfile::tempdir().unwrap();
        let index = folder.path().join(INDEX_FOLDER);
        remove_index(folder.path()).unwrap();
        fs::write(&index, "a file").unwrap();
        remove_index(folder.path()).unwrap();
        assert!(!index.exists());
        symlink("nowhere", &index).unwrap();
        remove_index(folder.path()).unwrap();
        assert!(fs::symlink_metadata(&index).is_err());
        fs::create_dir_all(index.join("data.mdb").join("inside")).unwrap();
        remove_index(folder.path()).unwrap();
        assert!(!index.join("data.mdb").exists());
    }
}
