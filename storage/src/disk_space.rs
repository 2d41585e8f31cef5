//! Measures the free space of a disk, and distinguishes a full disk from a failing one.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use crate::error::is_disk_full;

/// LMDB's data file in the folder of an environment.
pub(crate) const DATA_FILE: &str = "data.mdb";
/// A file that is extended to check whether disk space is left.
const PROBE_FILE: &str = "room.probe";
/// Number of bytes by which the probe exceeds the data file: the size of a small commit.
const PROBE_BYTES: usize = 1 << 20;
/// Input/output error. The number is the same on every system that LMDB supports.
const EIO: i32 = 5;

/// Returns whether this is the error that LMDB returns after a short write.
pub(crate) fn is_short_write(error: &heed::Error) -> bool {
    matches!(error, heed::Error::Io(error) if error.raw_os_error() == Some(EIO))
}

/// Returns whether a file of the size of the data file could grow. The probe is a hole of that size followed by
/// zeros, so that disk, quota and the file size limit of the process are all checked.
pub(crate) fn has_disk_space(folder: &Path) -> bool {
    let probe = folder.join(PROBE_FILE);
    let try_to_grow = || {
        let size = fs::metadata(folder.join(DATA_FILE))?.len();
        let mut file = fs::File::create(&probe)?;
        file.seek(SeekFrom::Start(size))?;
        file.write_all(&vec![0; PROBE_BYTES])
    };
    let has_disk_space = !try_to_grow().is_err_and(|error| is_disk_full(&error));
    // A leftover probe is never read, and the next one overwrites it.
    let _ = fs::remove_file(&probe);
    has_disk_space
}

/// Returns the number of bytes available to users other than root on the file system of `folder`; `None` if unknown.
pub fn disk_available_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}
