//! Files with secrets. They are readable by their owner only, are replaced atomically, and are read into memory
//! that is zeroed.

use platform::whole_file::{self, UNFINISHED};
use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};
use zeroize::Zeroizing;

/// Readable and writable by the owner only.
const FILE_MODE: u32 = 0o600;
/// The same for folders.
const FOLDER_MODE: u32 = 0o700;

/// Replaces `path` by a file with `bytes`, which is written under another name in the same folder, synced and
/// renamed. An interruption leaves the previous file, or none, but never a part of the new one.
///
/// # Errors
/// Those of the file system. In that case no other file is left in the folder.
pub fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    whole_file::write_with_mode(path, bytes, FILE_MODE)
}

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// Those of the file system, and `FileTooLarge` for a longer file.
pub fn read_secret(path: &Path, most: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    let file = File::open(path)?;
    // The buffer is allocated once, because growing it would leave copies in memory.
    let about = file.metadata()?;
    let length = if about.is_file() { about.len().min(most as u64) as usize } else { most };
    let mut bytes = Zeroizing::new(Vec::with_capacity(length + 1));
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("above {most} bytes")));
    }
    Ok(bytes)
}

/// Removes the files that killed writers have left in a folder. The caller must be its only writer.
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
    fn replaces_whole_files_readable_by_their_owner() {
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
    fn a_failure_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), "old").unwrap();
        assert!(write_secret(&path, b"new").is_err());
        assert_eq!(fs::read(path.join("inside")).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
