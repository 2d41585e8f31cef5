//! Replaces the journal with a shorter file.
//!
//! A process may run out of file descriptors, so the next file is opened in advance and stays open. If it was
//! removed, it is created again. If that fails, or the disk is full, the old file stays complete and the attempt is
//! repeated later. The next file is written under another name and then renamed, so a crash leaves either the old
//! or the new file.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use storage::folder_of;

/// Delay after the first failed attempt, and the maximum delay. Each failure doubles the delay.
const MIN_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(60);

/// Why the journal was not replaced.
#[derive(Debug)]
pub(super) enum Failure {
    /// The old file is complete and in use, and the attempt can be repeated.
    Postponed(io::Error),
    /// The new file is in place, but a power failure may bring the old one back.
    NotSynced(io::Error),
}

/// The replacement; see the module documentation.
#[derive(Debug)]
pub(super) struct Replacement {
    /// The journal.
    path: PathBuf,
    /// The path of the next file.
    next_path: PathBuf,
    /// The next file, empty and open; `None` if it could not be opened, or after a failed attempt.
    next: Option<File>,
    /// The journal's folder, which is synced after a rename.
    folder: File,
    /// The time of the next attempt, after a failure.
    not_before: Option<Instant>,
    /// The delay if the next attempt fails.
    wait: Duration,
}

impl Replacement {
    /// Creates the replacement for a journal at `path`.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let next_path = path.with_extension("new");
        Ok(Self {
            path: path.to_owned(),
            next: Some(File::create(&next_path)?),
            next_path,
            folder: File::open(folder_of(path))?,
            not_before: None,
            wait: MIN_RETRY,
        })
    }

    /// Returns whether an attempt is allowed at this time.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|time| now >= time)
    }

    /// Opens the next file if that failed before, or if the file was removed.
    pub(super) fn prepare(&mut self) -> Result<(), Failure> {
        if self.next.as_ref().is_some_and(|file| is_file_at(file, &self.next_path)) {
            return Ok(());
        }
        // The old descriptor is closed first: it may be the only one available.
        self.next = None;
        self.next = Some(File::create(&self.next_path).map_err(Failure::Postponed)?);
        Ok(())
    }

    /// Writes the next file, and renames it to the journal's path.
    pub(super) fn replace(&mut self, bytes: &[u8]) -> Result<File, Failure> {
        self.prepare()?;
        let mut file = self.next.take().expect("it was just prepared");
        let written = file
            .write_all(bytes)
            .and_then(|()| file.sync_data())
            .and_then(|()| fs::rename(&self.next_path, &self.path));
        if let Err(error) = written {
            // The written bytes may be the reason why the disk is full.
            let _ = fs::remove_file(&self.next_path);
            return Err(Failure::Postponed(error));
        }
        // From here on, the journal's name refers to the new file.
        self.sync_name().map_err(Failure::NotSynced)?;
        (self.not_before, self.wait) = (None, MIN_RETRY);
        Ok(file)
    }

    /// Syncs the folder, and with it the journal's name.
    pub(super) fn sync_name(&self) -> io::Result<()> {
        self.folder.sync_all()
    }

    /// Records a failure. Returns the delay until the next attempt.
    pub(super) fn postpone(&mut self, now: Instant) -> Duration {
        let wait = self.wait;
        self.not_before = Some(now + wait);
        self.wait = (wait * 2).min(MAX_RETRY);
        wait
    }

    /// Opens the next file. The caller has closed the descriptor of the old one.
    pub(super) fn reserve(&mut self) {
        // If no descriptor is available, the next attempt opens the file.
        let _ = self.prepare();
    }

    /// Closes the descriptor of the next file, so that another part of the process can take it.
    #[cfg(test)]
    pub(super) fn release_descriptor(&mut self) {
        self.next = None;
    }
}

/// Returns whether a path still refers to an open file. Needs no descriptor.
fn is_file_at(file: &File, path: &Path) -> bool {
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => id(open) == id(named),
        _ => false,
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if self.next.take().is_some() {
            // The file is empty, and the next start would overwrite it.
            let _ = fs::remove_file(&self.next_path);
        }
    }
}
