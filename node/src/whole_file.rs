//! Writes files that are there whole or not at all, also after a power failure: beside their place,
//! synced, and renamed.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};
use storage::{folder_of, sync_folder};

/// End of the name of a file that is being written.
pub(crate) const UNFINISHED: &str = ".new";
/// Who may read and write a file where nothing is secret, less what the process's mask forbids.
const OPEN_MODE: u32 = 0o666;

/// Whether anything exists at `path`, including a symbolic link without a target and a file that must not be
/// examined. Such a file must not be mistaken for one that was never created.
pub(crate) fn is_present(path: &Path) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    !matches!(fs::symlink_metadata(path), Err(error) if [NotFound, NotADirectory].contains(&error.kind()))
}

/// Replaces `path` by a file with `bytes`. An interruption leaves the old file, or none; never half of
/// the new one.
///
/// # Errors
/// From the file system. Nothing is left beside the file when it fails.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with_mode(path, bytes, OPEN_MODE)
}

/// As [`write`], for those that `mode` says.
pub(crate) fn write_with_mode(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = folder_of(path);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut beside = name.to_owned();
    beside.push(format!(".{}{UNFINISHED}", std::process::id()));
    let beside = folder.join(beside);
    let written = write_new(&beside, bytes, mode).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // The first error is the one to tell.
        drop(fs::remove_file(&beside));
        return written;
    }
    sync_folder(folder)
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    // A file left by a killed process with our number is in the way, and of no use.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
