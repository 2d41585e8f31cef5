//! Keeps a journal under another name if it cannot be used, or can be used only in part.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

/// Maximum number of files that are kept.
const MAX_KEPT: u32 = 1000;

/// Adds a hard link to a file, or copies the file if that fails. Returns the new path.
///
/// The file keeps its name until the new journal replaces it, so that a crash in between loses nothing.
pub(super) fn keep(path: &Path) -> io::Result<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let name = path.file_name().unwrap_or_default();
    for n in 1..=MAX_KEPT {
        let mut kept = name.to_owned();
        kept.push(format!(".kept-{n}"));
        let kept = folder.join(kept);
        match fs::hard_link(path, &kept).or_else(|error| match error.kind() {
            ErrorKind::AlreadyExists => Err(error),
            _ => copy(path, &kept),
        }) {
            Ok(()) => return Ok(kept),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!(
        "there are {MAX_KEPT} kept copies of the journal (mempool.journal.kept-*); remove them"
    )))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(to)?;
    let copied = io::copy(&mut File::open(from)?, &mut file).and_then(|_| file.sync_all());
    copied.inspect_err(|_| drop(fs::remove_file(to)))
}
