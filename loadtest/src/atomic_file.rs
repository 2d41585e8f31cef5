//! Files that appear complete or not at all: they are written under a temporary name and renamed at
//! the end. If a run is interrupted, the next run overwrites its temporary file.

use anyhow::{Context, bail};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

/// Suffix that is appended to the name of an unfinished file.
const TEMP_SUFFIX: &str = ".part";

/// A file being written.
#[derive(Debug)]
pub(crate) struct AtomicFile {
    pub(crate) file: File,
    path: PathBuf,
    temp_path: PathBuf,
}

impl AtomicFile {
    /// Creates a file whose final path must not exist.
    ///
    /// # Errors
    /// If the path exists, or the temporary file cannot be created.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let failure = || format!("cannot make {}", path.display());
        if fs::symlink_metadata(path).is_ok() {
            bail!("{}: the file exists; remove it or choose another name", failure());
        }
        let mut temp_path = path.as_os_str().to_owned();
        temp_path.push(TEMP_SUFFIX);
        let temp_path = PathBuf::from(temp_path);
        let open =
            File::options().read(true).write(true).create(true).truncate(true).open(&temp_path);
        let file = open.with_context(failure)?;
        Ok(Self { file, path: path.to_owned(), temp_path })
    }

    /// Renames the file to its final path and returns its size in bytes.
    ///
    /// # Errors
    /// If the size cannot be read, or renaming fails.
    pub(crate) fn finish(self) -> anyhow::Result<u64> {
        let failure = || format!("cannot make {}", self.path.display());
        let bytes = self.file.metadata().with_context(failure)?.len();
        fs::rename(&self.temp_path, &self.path).with_context(failure)?;
        Ok(bytes)
    }
}

impl Drop for AtomicFile {
    /// Removes an unfinished file. After `finish`, the temporary name no longer exists.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.temp_path);
    }
}
