//! The lock of a home folder, which only one process can hold.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::OpenError;
use crate::folders::{OPEN_FOLDER_MODE, make_folder};

/// The file in the home folder that is locked.
pub const LOCK_FILE: &str = "LOCK";
/// Maximum number of repeated attempts to open the lock file after another process removed the folder.
const MAX_RETRIES: u32 = 3;
/// Maximum number of reads of a lock file without a process id. They take some milliseconds.
const MAX_PID_READS: u32 = 1_000;
/// Maximum number of bytes that are read from a lock file. A process id has at most ten digits.
const MAX_PID_BYTES: u64 = 16;

/// Locks a home folder for this process until this value is dropped. The system releases the lock when the
/// process ends, so a leftover lock file is harmless.
#[derive(Debug)]
pub struct HomeLock {
    file: File,
}

impl HomeLock {
    /// Locks the folder `home`, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`OpenError::HomeLocked`] with the owner's process id if another process (or another lock in this
    /// process) holds it; [`OpenError::OfOtherUser`] if root would write into the folder of another user;
    /// [`OpenError::Io`] if the file cannot be created.
    pub fn acquire(home: impl AsRef<Path>) -> Result<Self, OpenError> {
        let home = home.as_ref();
        refuse_root(home)?;
        let path = home.join(LOCK_FILE);
        let io = |source| OpenError::Io { path: path.clone(), source };
        let mut file = open(home, &path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let pid = read_pid(&mut file);
                return Err(OpenError::HomeLocked { path, pid });
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        // The previous holder may have removed or renamed the folder since the file was opened. In that case this
        // lock would not exclude other processes. The holder has ended, so its id is unknown.
        if !is_file_at(&file, &path).map_err(io)? {
            return Err(OpenError::HomeLocked { path, pid: None });
        }
        write_pid(&mut file).map_err(io)?;
        Ok(Self { file })
    }
}

/// Returns an error if root would write files into the folder of another user. A missing folder has no owner.
///
/// # Errors
/// [`OpenError::OfOtherUser`].
pub fn refuse_root(folder: &Path) -> Result<(), OpenError> {
    refuse_writer(folder, rustix::process::geteuid().is_root())
}

fn refuse_writer(folder: &Path, is_root: bool) -> Result<(), OpenError> {
    match std::fs::metadata(folder) {
        Ok(found) if is_root && found.uid() != 0 => {
            Err(OpenError::OfOtherUser { path: folder.to_owned(), owner: found.uid() })
        }
        // The caller creates a missing folder, and its next access to an unreadable one fails.
        _ => Ok(()),
    }
}

/// Opens the lock file, and creates it and the folder if they do not exist.
fn open(home: &Path, path: &Path) -> Result<File, OpenError> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    let mut attempts = 0;
    loop {
        make_folder(home, OPEN_FOLDER_MODE)
            .map_err(|source| OpenError::Io { path: home.to_owned(), source })?;
        match options.open(path) {
            Ok(file) => return Ok(file),
            // Another process has removed the empty folder in the meantime.
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound && attempts < MAX_RETRIES =>
            {
                attempts += 1;
            }
            Err(source) => return Err(OpenError::Io { path: path.to_owned(), source }),
        }
    }
}

/// Returns whether `path` still refers to the open file.
fn is_file_at(file: &File, path: &Path) -> Result<bool, std::io::Error> {
    let open = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(named) => Ok((open.dev(), open.ino()) == (named.dev(), named.ino())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

impl Drop for HomeLock {
    /// Unlocks the file explicitly, because closing it is not enough: a forked child process that has not called
    /// exec yet holds a copy of the descriptor, which would keep the lock.
    fn drop(&mut self) {
        // If this fails, the file is closed anyway.
        let _ = self.file.unlock();
    }
}

fn write_pid(file: &mut File) -> Result<(), std::io::Error> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// Returns the id of the process that holds the lock. The process writes its id right after it has locked the
/// file, so the file may be empty for a moment.
fn read_pid(file: &mut File) -> Option<u32> {
    for _ in 0..MAX_PID_READS {
        let mut text = String::new();
        file.rewind().ok()?;
        Read::by_ref(file).take(MAX_PID_BYTES).read_to_string(&mut text).ok()?;
        if let Ok(pid) = text.trim().parse() {
            return Some(pid);
        }
        std::thread::yield_now();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The temporary folder belongs to a user other than root, unless root runs the test.
    #[test]
    fn root_writes_nothing_into_the_folder_of_another_user() {
        const OTHER: u32 = 12_345;
        let home = tempfile::tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            refuse_writer(home.path(), true).unwrap();
            std::os::unix::fs::chown(home.path(), Some(OTHER), None).unwrap();
            let error = HomeLock::acquire(home.path()).unwrap_err();
            assert!(matches!(error, OpenError::OfOtherUser { owner: OTHER, .. }), "{error}");
            assert!(!home.path().join(LOCK_FILE).exists());
        }
        assert!(refuse_writer(home.path(), true).is_err());
        refuse_writer(home.path(), false).unwrap();
        refuse_writer(&home.path().join("missing"), true).unwrap();
    }

    #[test]
    fn duplicate_descriptor_does_not_keep_the_lock() {
        let home = tempfile::tempdir().unwrap();
        let lock = HomeLock::acquire(home.path()).unwrap();
        let copy = lock.file.try_clone().unwrap();
        assert!(matches!(HomeLock::acquire(home.path()), Err(OpenError::HomeLocked { .. })));
        drop(lock);
        HomeLock::acquire(home.path()).unwrap();
        drop(copy);
    }
}
