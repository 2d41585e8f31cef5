//! Reads and writes files with secrets. They are readable by their owner only, are replaced atomically, and are read
//! into memory that is zeroed.

use platform::whole_file::{self, UNFINISHED};
use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};
use zeroize::Zeroizing;

/// The mode of files: readable and writable by the owner only.
const FILE_MODE: u32 = 0o600;
/// The same mode for folders, which also need the permission to be entered.
const FOLDER_MODE: u32 = 0o700;

/// Replaces `path` by a file with `bytes`, which is written under another name in the same folder, synced and
/// renamed. An interruption leaves the previous file (if there was one) or the new one, but never a part of it.
///
/// # Errors
/// Those of the file system. In that case no other file is left in the folder.
pub fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    whole_file::write_with_mode(path, bytes, FILE_MODE)
}

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// Those of the file system, and `FileTooLarge` for a longer file.
pub fn read_secret(path: &Path, limit: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    let file = File::open(path)?;
    // The buffer is allocated once, because growing it would leave copies in memory.
    let metadata = file.metadata()?;
    let length = if metadata.is_file() { metadata.len().min(limit as u64) as usize } else { limit };
    let mut bytes = Zeroizing::new(Vec::with_capacity(length + 1));
    file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("above {limit} bytes")));
    }
    Ok(bytes)
}

/// Removes unfinished files of killed processes from a folder. The caller must be the only writer in the folder.
pub(super) fn remove_unfinished(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.as_os_str().as_encoded_bytes().ends_with(UNFINISHED.as_bytes()) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Creates a folder for secrets, and its missing parent folders.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    storage::make_folder(path, FOLDER_MODE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn written_file_replaces_the_old_one_and_is_readable_by_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, "old").unwrap();
        write_secret(&path, b"new").unwrap();
        assert_eq!(*read_secret(&path, 3).unwrap(), b"new");
        assert_eq!(read_secret(&path, 2).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, FILE_MODE);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn failed_write_leaves_only_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), "old").unwrap();
        assert!(write_secret(&path, b"new").is_err());
        assert_eq!(fs::read(path.join("inside")).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
