//! Tells a full disk from a failing one.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use crate::error::is_disk_full;

/// LMDB's data file in the folder of an environment.
pub(crate) const DATA_FILE: &str = "data.mdb";
/// File that shows whether there is room left.
const PROBE_FILE: &str = "room.probe";
/// Room asked for by the probe: as much as a small commit writes.
const PROBE_BYTES: usize = 1 << 20;
/// Input/output error, on every system LMDB runs on.
const EIO: i32 = 5;

/// Whether LMDB reports a write that took fewer bytes than given.
pub(crate) fn is_short_write(error: &heed::Error) -> bool {
    matches!(error, heed::Error::Io(error) if error.raw_os_error() == Some(EIO))
}

/// Whether a file like the environment's could grow: tried with a hole of its size and some bytes
/// behind, so that disk, quota and the file size limit of the process all have their say.
pub(crate) fn has_disk_space(folder: &Path) -> bool {
    let probe = folder.join(PROBE_FILE);
    let try_to_grow = || {
        let size = fs::metadata(folder.join(DATA_FILE))?.len();
        let mut file = fs::File::create(&probe)?;
        file.seek(SeekFrom::Start(size))?;
        file.write_all(&vec![0; PROBE_BYTES])
    };
    let has_disk_space = !try_to_grow().is_err_and(|error| is_disk_full(&error));
    // A probe left behind is overwritten by the next, and nothing reads it.
    let _ = fs::remove_file(&probe);
    has_disk_space
}
