//! Creates folders that survive a power failure. Syncing a file does not make its name durable; syncing the
//! folder does.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Mode of a folder without secrets, before the umask of the process is applied.
pub const OPEN_FOLDER_MODE: u32 = 0o777;

/// Creates a folder and its missing parents with this mode, and syncs the name of each. An existing folder keeps
/// its mode, but its name is synced as well, because the process that created it may have been killed before that.
///
/// # Errors
/// Those of the file system, and if the path exists but is not a folder.
pub fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    let created = DirBuilder::new().mode(mode).create(path);
    let created = match (created, path.parent()) {
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
            make_folder(parent, mode)?;
            DirBuilder::new().mode(mode).create(path)
        }
        (created, _) => created,
    };
    match created {
        Ok(()) => sync_name(path),
        Err(_) if path.is_dir() => match sync_name(path) {
            // The parent folder may belong to another user.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        },
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(not_a_folder(path)),
        Err(error) => Err(error),
    }
}

/// Returns an error that says what the path is, because the system only reports that it exists.
fn not_a_folder(path: &Path) -> io::Error {
    let text = if path.exists() {
        "it is a file, and a folder is needed"
    } else {
        "it is a link whose target does not exist"
    };
    io::Error::new(io::ErrorKind::AlreadyExists, text)
}

/// Syncs the names in a folder.
///
/// # Errors
/// Those of the file system.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Returns the parent folder of a path, without resolving links; `.` if the path has none.
pub fn folder_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or_else(|| Path::new("."))
}

/// Syncs the name of a folder. The path may be a link or end in `..`.
fn sync_name(folder: &Path) -> io::Result<()> {
    sync_folder(folder_of(&folder.canonicalize()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn creates_all_folders_with_the_mode_and_keeps_existing_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/c");
        make_folder(&path, 0o700).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&folder.path().join("a")), 0o700);
        make_folder(&path, 0o711).unwrap();
        assert_eq!(mode(&path), 0o700);
        make_folder(&folder.path().join("a/.."), 0o700).unwrap();
    }

    #[test]
    fn path_that_is_not_a_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = make_folder(&file, 0o700).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(error.to_string().contains("it is a file"), "{error}");
        assert!(make_folder(&file.join("inside"), 0o700).is_err());
        std::os::unix::fs::symlink(folder.path().join("nothing"), folder.path().join("link"))
            .unwrap();
        let error = make_folder(&folder.path().join("link"), 0o700).unwrap_err();
        assert!(error.to_string().contains("it is a link"), "{error}");
    }

    #[test]
    fn path_without_a_parent_is_in_the_current_folder() {
        assert_eq!(folder_of(Path::new("home")), Path::new("."));
        assert_eq!(folder_of(Path::new("a/home")), Path::new("a"));
        assert_eq!(folder_of(Path::new("/")), Path::new("."));
    }
}
