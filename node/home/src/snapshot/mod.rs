//! Creates snapshots, which are copies of a chain, while a node runs, and creates home folders from them.
//!
//! A snapshot is a folder with the two compacted environments and the genesis file. It contains neither
//! settings nor keys. It is complete or absent: it is written under another name in the same folder and then
//! renamed. [`kept`] manages the snapshots that a node makes at intervals.

pub mod kept;

use crate::{
    CHAIN_FOLDER, GENESIS_FILE, GenesisFile, Home, HomeError, INDEX_FOLDER,
    authority::require_new_term, check_for_restore, check_index, doctor,
    environments::ENVIRONMENT_FILES, open_chain, open_environments, stored_genesis,
};
use chain::Genesis;
use config::Config;
use platform::whole_file;
use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};
use storage::{
    HomeLock, LOCK_FILE, OPEN_FOLDER_MODE, OpenError, disk_available_bytes, folder_of, make_folder,
    sync_folder,
};

/// The folders of the environments, in the order in which they are copied: the index first, so that it does not
/// contain a block that the copied chain lacks. A restore copies the chain last, because a folder without it is
/// not a home.
const FOLDERS: [&str; 2] = [INDEX_FOLDER, CHAIN_FOLDER];
/// Files of an environment: the data, and the reader table, which LMDB uses while the environment is open.
const DATA_FILE: &str = "data.mdb";
const READERS_FILE: &str = "lock.mdb";
/// The name of a data file until its copy is complete.
const TEMPORARY_FILE: &str = "data.mdb.new";

/// End of the name of a snapshot that is not complete.
const UNFINISHED: &str = ".evmd-unfinished";
/// Bytes of the disk that a snapshot leaves free: a running node needs them until an operator can act.
const RESERVED_BYTES: u64 = 1 << 30;

/// How much of a new snapshot is checked before it becomes visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// Whether it can be opened, and its index belongs to its chain.
    Opened,
    /// Everything that `evmd doctor --verify` checks.
    Verified,
}

/// Copies the chain of a home folder into the new folder `to`. Returns the number of the newest block in the
/// copy.
///
/// # Errors
/// If `to` exists, if another process is writing it, if the disk is too small, if reading or writing fails, and if a
/// check of the copy fails.
pub fn create(home: &Path, to: &Path, checked: Checked) -> Result<u64, HomeError> {
    if to.exists() {
        return Err(HomeError::Taken(to.to_owned()));
    }
    let (chain, index) = Home::attach(home)?;
    check_space(folder_of(to), chain.stats().used_bytes + index.stats().used_bytes)?;
    // From here on, the metrics of a running node show this reader, even while the snapshot waits for its lock or
    // its disk.
    let reader = index.reader()?;
    let unfinished = unfinished(to);
    let io = at(&unfinished);
    let lock = HomeLock::acquire(&unfinished).map_err(|error| match error {
        OpenError::HomeLocked { pid, .. } => HomeError::BeingMade { path: to.to_owned(), pid },
        other => other.into(),
    })?;
    let made = (|| -> Result<u64, HomeError> {
        // The process that held the lock before may have completed the snapshot since the first check.
        if to.exists() {
            return Err(HomeError::Taken(to.to_owned()));
        }
        remove_leftovers(&unfinished).map_err(&io)?;
        index.copy(unfinished.join(FOLDERS[0]))?;
        drop(reader);
        chain.copy(unfinished.join(FOLDERS[1]))?;
        let genesis = stored_genesis(&chain)?.ok_or_else(|| HomeError::Empty(home.to_owned()))?;
        whole_file::write(&unfinished.join(GENESIS_FILE), &genesis).map_err(&io)?;
        let number = head(&unfinished, &Config::load(home)?).map_err(|error| match error {
            HomeError::OtherIndex { .. } if check_index(&chain, &index).is_ok() => {
                HomeError::RolledBack(home.to_owned())
            }
            other => other,
        })?;
        mark(&unfinished, &Config::load(home)?)?;
        if checked == Checked::Verified
            && let Some(check) = first_fault(&unfinished)
        {
            let path = unfinished.clone();
            return Err(HomeError::DamagedCopy { path, check: check.name, detail: check.detail });
        }
        remove_readers(&unfinished)?;
        fs::rename(&unfinished, to).map_err(at(to))?;
        // The lock file is removed only now: the renamed folder is complete, and the temporary name is free again.
        fs::remove_file(to.join(LOCK_FILE)).map_err(at(to))?;
        sync_folder(to).and_then(|()| sync_folder(folder_of(to))).map_err(at(to))?;
        Ok(number)
    })();
    if made.is_err() {
        // A running node may need the space. If the removal fails too, the first error is more useful.
        let _ = fs::remove_dir_all(&unfinished);
    }
    drop(lock);
    made
}

/// Removes the files of an interrupted attempt, except for the lock.
fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != LOCK_FILE {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Creates a home folder from a snapshot and opens it, which checks the data.
///
/// # Errors
/// If the home folder is in use, or has a chain, the genesis file of another chain, or a journal of an unknown
/// chain; if `from` is not a snapshot; and if reading or writing fails.
pub fn restore(from: &Path, home: &Path, checked: Checked) -> Result<Home, HomeError> {
    // The snapshot is checked before the lock creates the home folder.
    if !Home::exists(from) {
        return Err(HomeError::NoSnapshot(from.to_owned()));
    }
    let origin = from.join(GENESIS_FILE);
    let text = fs::read_to_string(&origin).map_err(at(&origin))?;
    let genesis = Genesis::from_json(&text)
        .map_err(|source| HomeError::Genesis { origin: origin.display().to_string(), source })?;
    // Prevents another process from creating a chain there.
    let lock = HomeLock::acquire(home)?;
    if Home::exists(home) {
        return Err(HomeError::Exists(home.to_owned()));
    }
    let file = check_for_restore(home, &genesis)?;
    let is_new = file == GenesisFile::Missing;
    // The lock is held while files are removed: otherwise they could belong to another process.
    let restored =
        copy_and_open(from, home, checked, is_new.then_some(&*text)).map_err(|source| {
            undo_restore(home, is_new);
            let (snapshot, home) = (from.to_owned(), home.to_owned());
            HomeError::NotRestored { snapshot, home, source: Box::new(source) }
        })?;
    // The returned home keeps the lock, so that no other process can open it in between.
    Ok(Home { _lock: Some(lock), ..restored })
}

/// Copies a snapshot, writes the genesis file if its text is given, and opens the copy, which migrates a snapshot of
/// the previous format.
fn copy_and_open(
    from: &Path,
    home: &Path,
    checked: Checked,
    genesis: Option<&str>,
) -> Result<Home, HomeError> {
    copy_environments(from, home)?;
    if let Some(text) = genesis {
        let file = home.join(GENESIS_FILE);
        whole_file::write(&file, text.as_bytes()).map_err(at(&file))?;
    }
    let restored = Home::open_locked(home)?;
    if checked == Checked::Opened {
        return Ok(restored);
    }
    // The checks open the environments themselves.
    drop(restored);
    if let Some(check) = first_fault(home) {
        return Err(HomeError::DamagedSnapshot { check: check.name, detail: check.detail });
    }
    Home::open_locked(home)
}

fn copy_environments(from: &Path, home: &Path) -> Result<(), HomeError> {
    for folder in FOLDERS {
        let (from, to) = (from.join(folder).join(DATA_FILE), home.join(folder));
        copy_file(&from, &to).map_err(at(&to))?;
    }
    Ok(())
}

/// Removes what was restored, so that another snapshot can be restored to the same folder.
fn undo_restore(home: &Path, with_genesis: bool) {
    // Errors are ignored, because that of the restore is reported. A mount point, a link or a non-empty folder stays.
    for folder in FOLDERS.map(|folder| home.join(folder)) {
        for file in ENVIRONMENT_FILES {
            let _ = fs::remove_file(folder.join(file));
        }
        let _ = fs::remove_dir(folder);
    }
    if with_genesis {
        let _ = fs::remove_file(home.join(GENESIS_FILE));
    }
}

/// Copies a data file into a folder under a temporary name, syncs it, and renames it.
fn copy_file(from: &Path, folder: &Path) -> io::Result<()> {
    make_folder(folder, OPEN_FOLDER_MODE)?;
    let temporary = folder.join(TEMPORARY_FILE);
    fs::copy(from, &temporary)?;
    File::open(&temporary)?.sync_all()?;
    fs::rename(&temporary, folder.join(DATA_FILE))?;
    sync_folder(folder)
}

/// Returns the newest block of a copy, after checking that its index belongs to its chain: the chain may have
/// been rolled back during the copy.
fn head(copy: &Path, config: &Config) -> Result<u64, HomeError> {
    let (chain, index) = open_environments(copy, config)?;
    check_index(&chain, &index)?;
    let head = chain.reader()?.head()?;
    head.map(|(number, _)| number).ok_or_else(|| HomeError::Empty(copy.to_owned()))
}

/// Records in a copy that the original home may sign later blocks: a producer that continues from the copy must begin a
/// new term.
fn mark(copy: &Path, config: &Config) -> Result<(), HomeError> {
    let chain = open_chain(copy, config)?;
    let is_signed = chain.reader()?.is_signed_from(0)?;
    require_new_term(&chain, is_signed)
}

/// Checks everything in a copy. Returns the first check that failed, if there is one.
fn first_fault(copy: &Path) -> Option<doctor::Check> {
    let report = doctor::check_data(copy, &Config::default(), true);
    report.checks.into_iter().find(|check| check.outcome == doctor::Outcome::Failed)
}

/// Removes the reader tables, which LMDB makes whenever an environment is opened.
fn remove_readers(copy: &Path) -> Result<(), HomeError> {
    for folder in FOLDERS {
        let readers = copy.join(folder).join(READERS_FILE);
        fs::remove_file(&readers).map_err(at(&readers))?;
        sync_folder(folder_of(&readers)).map_err(at(&readers))?;
    }
    Ok(())
}

/// Checks that the disk of a folder has space for a copy of `bytes`, and for what a running node writes meanwhile.
fn check_space(folder: &Path, bytes: u64) -> Result<(), HomeError> {
    let reserved = RESERVED_BYTES;
    match disk_available_bytes(folder) {
        Some(free) if free < bytes.saturating_add(reserved) => {
            Err(HomeError::NoSpace { path: folder.to_owned(), bytes, reserved, free })
        }
        _ => Ok(()),
    }
}

/// Returns the temporary name under which a snapshot is written.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(UNFINISHED);
    path.with_file_name(name)
}

fn at(path: &Path) -> impl Fn(io::Error) -> HomeError {
    let path = path.to_owned();
    move |source| HomeError::Io { path: path.clone(), source }
}
