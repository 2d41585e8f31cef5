//! Writes files that are complete or absent, also after a power failure: a file is written under another name in the
//! same folder, synced, and renamed. Pipes and devices are written directly.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use storage::{folder_of, sync_folder};

/// End of the name of a file that is being written.
pub const UNFINISHED: &str = ".new";
/// Permissions of a new file that holds no secret, before the process's mask is applied.
const OPEN_MODE: u32 = 0o666;
/// Maximum number of symbolic links that are followed, as on Linux.
const MAX_LINKS: u32 = 40;

/// Returns whether anything exists at `path`, including a symbolic link without a target, and a file that the process
/// may not examine. Such a file must not be mistaken for one that was never created.
pub fn is_present(path: &Path) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    !matches!(fs::symlink_metadata(path), Err(error) if [NotFound, NotADirectory].contains(&error.kind()))
}

/// Replaces `path` by a file with `bytes`. An interruption never leaves a part of the new file at `path`: the old file
/// stays, if there was one. Symbolic links are followed.
///
/// # Errors
/// From the file system. A failure leaves no unfinished file.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = NewFile::create(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// Does the same as [`write`], with permissions. A symbolic link is replaced, because its target may belong to another
/// user.
pub fn write_with_mode(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = NewFile::replacing(path.to_owned(), mode)?;
    file.write_all(bytes)?;
    file.finish()
}

/// Locks the folder of `path` for a read, change and write of a file. Other processes that use this function wait. The
/// lock ends when the result is dropped.
///
/// # Errors
/// From the file system.
pub fn lock_for_change(path: &Path) -> io::Result<File> {
    let folder = File::open(folder_of(&follow_links(path)?))?;
    folder.lock()?;
    Ok(folder)
}

/// A file that is being written under a temporary name. [`Self::finish`] renames it.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    /// `None` for a pipe or a device.
    names: Option<Names>,
}

/// The names of a file that is being written; the first is removed when this is dropped.
#[derive(Debug)]
struct Names {
    unfinished: PathBuf,
    target: PathBuf,
}

impl NewFile {
    /// Creates a file that will replace `path`, with the permissions of the old one.
    ///
    /// # Errors
    /// From the file system.
    pub fn create(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(old) if old.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(old) if !old.is_file() => {
                Ok(Self { file: OpenOptions::new().write(true).open(path)?, names: None })
            }
            Ok(old) => {
                let new = Self::replacing(follow_links(path)?, OPEN_MODE)?;
                new.file.set_permissions(old.permissions())?;
                Ok(new)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Self::replacing(follow_links(path)?, OPEN_MODE)
            }
            Err(error) => Err(error),
        }
    }

    fn replacing(target: PathBuf, mode: u32) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        // Another thread or process may be replacing the same file.
        let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Relaxed));
        name.push(format!(".{process}-{number}{UNFINISHED}"));
        let unfinished = folder_of(&target).join(name);
        // An earlier process with this id may have been killed and left a file with this name.
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(mode).open(&unfinished)?;
        Ok(Self { file, names: Some(Names { unfinished, target }) })
    }

    /// Syncs the file and renames it. A pipe or device needs neither.
    ///
    /// # Errors
    /// From the file system.
    pub fn finish(self) -> io::Result<()> {
        let Some(names) = &self.names else { return Ok(()) };
        self.file.sync_all()?;
        fs::rename(&names.unfinished, &names.target)?;
        sync_folder(folder_of(&names.target))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        // The file has been renamed, or an earlier error is more useful than one of the removal.
        let _ = fs::remove_file(&self.unfinished);
    }
}

/// Returns the path of the file after all symbolic links. The file need not exist.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = folder_of(&path).join(target),
            // InvalidInput: it is not a link.
            Err(error)
                if [io::ErrorKind::InvalidInput, io::ErrorKind::NotFound]
                    .contains(&error.kind()) =>
            {
                return Ok(path);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("more than {MAX_LINKS} symbolic links"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        os::unix::fs::{PermissionsExt, symlink},
        process::Command,
        thread,
    };

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| name(entry).into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn symbolic_links_are_kept_and_the_file_they_name_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        symlink("real", &link).unwrap();
        for bytes in [b"first".as_slice(), b"second"] {
            write(&link, bytes).unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert_eq!(fs::read(&real).unwrap(), bytes);
        }
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        write(&link, b"third").unwrap();
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
        write_with_mode(&link, b"secret", 0o600).unwrap();
        assert!(!fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"third");
        assert_eq!(names(folder.path()), ["link", "real"]);
        symlink("round", folder.path().join("round")).unwrap();
        assert!(write(&folder.path().join("round"), b"").is_err());
    }

    #[test]
    fn a_pipe_receives_what_a_file_would_hold() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        write(&pipe, b"all of it").unwrap();
        assert_eq!(reader.join().unwrap(), b"all of it");
        assert_eq!(names(folder.path()), ["pipe"]);
    }

    #[test]
    fn a_file_that_is_not_finished_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, b"old").unwrap();
        let mut file = NewFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["file"]);
        assert_eq!(write(folder.path(), b"").unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn writers_at_once_leave_one_complete_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        thread::scope(|scope| {
            for byte in b'a'..=b'd' {
                let path = &path;
                scope.spawn(move || (0..20).for_each(|_| write(path, &[byte; 9_000]).unwrap()));
            }
        });
        let bytes = fs::read(&path).unwrap();
        assert!(bytes.len() == 9_000 && bytes.iter().all(|byte| *byte == bytes[0]));
        assert_eq!(names(folder.path()), ["file"]);
    }
}
