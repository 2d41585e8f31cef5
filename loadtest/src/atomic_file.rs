//! Files that are there whole or not at all: written under another name beside their own, and renamed at
//! the end. What an interrupted run leaves is overwritten by the next.

use anyhow::{Context, bail};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

/// What the name of an unfinished file ends with.
const ENDING: &str = ".part";

/// A file being written.
#[derive(Debug)]
pub(crate) struct AtomicFile {
    pub(crate) file: File,
    path: PathBuf,
    temp_path: PathBuf,
}

impl AtomicFile {
    /// Begins a file that is not there yet.
    ///
    /// # Errors
    /// If something has that name, or nothing can be written beside it.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot make {}", path.display());
        if fs::symlink_metadata(path).is_ok() {
            bail!("{}: it is there already; remove it, or name another", cannot());
        }
        let mut temp_path = path.as_os_str().to_owned();
        temp_path.push(ENDING);
        let temp_path = PathBuf::from(temp_path);
        let open =
            File::options().read(true).write(true).create(true).truncate(true).open(&temp_path);
        let file = open.with_context(cannot)?;
        Ok(Self { file, path: path.to_owned(), temp_path })
    }

    /// Gives the file its name, and tells its bytes.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub(crate) fn finish(self) -> anyhow::Result<u64> {
        let cannot = || format!("cannot make {}", self.path.display());
        let bytes = self.file.metadata().with_context(cannot)?.len();
        fs::rename(&self.temp_path, &self.path).with_context(cannot)?;
        Ok(bytes)
    }
}

impl Drop for AtomicFile {
    /// Leaves nothing of a file that was not finished; a finished one has its own name.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.temp_path);
    }
}
