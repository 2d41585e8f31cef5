//! The lock on a home folder: one process at a time.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use crate::error::OpenError;
use crate::folders::{OPEN_FOLDER_MODE, make_folder};

/// File that is locked, inside the home folder.
const LOCK_FILE: &str = "LOCK";
/// Longest text read from a lock file: a pid has at most ten digits.
const PID_BYTES_MAX: u64 = 16;

/// Holds a home folder for this process until dropped; the system lets go of it however the
/// process ends, so a lock file left behind is harmless.
#[derive(Debug)]
pub struct HomeLock {
    file: File,
}

impl HomeLock {
    /// Locks the folder `home`, making it if there is none.
    ///
    /// # Errors
    /// [`OpenError::HomeLocked`] with the other's pid when another process (or another lock in
    /// this one) holds it; [`OpenError::Io`] when the file cannot be made.
    pub fn acquire(home: impl AsRef<Path>) -> Result<Self, OpenError> {
        let home = home.as_ref();
        make_folder(home, OPEN_FOLDER_MODE)
            .map_err(|source| OpenError::Io { path: home.to_owned(), source })?;
        let path = home.join(LOCK_FILE);
        let io = |source| OpenError::Io { path: path.clone(), source };
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let pid = read_pid(&mut file);
                return Err(OpenError::HomeLocked { path, pid });
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        write_pid(&mut file).map_err(io)?;
        Ok(Self { file })
    }
}

impl Drop for HomeLock {
    /// Unlocks the file, and does not only close it: a child process that was forked and has not called
    /// exec yet holds a copy of the descriptor, and the lock would last as long as that copy.
    fn drop(&mut self) {
        // If it fails, closing the file is all that can be done.
        let _ = self.file.unlock();
    }
}

fn write_pid(file: &mut File) -> Result<(), std::io::Error> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(PID_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_the_lock() {
        let home = tempfile::tempdir().unwrap();
        let lock = HomeLock::acquire(home.path()).unwrap();
        let copy = lock.file.try_clone().unwrap();
        assert!(matches!(HomeLock::acquire(home.path()), Err(OpenError::HomeLocked { .. })));
        drop(lock);
        HomeLock::acquire(home.path()).unwrap();
        drop(copy);
    }
}
