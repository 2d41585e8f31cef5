//! Checks the owners and modes of the files in the home folder.

use home::{PRODUCER_KEY_FILE, VALIDATOR_KEY_FILE, doctor::Failure};
use rustix::process::geteuid;
use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Number of levels below the home folder that are examined: those of the node's own files.
const MAX_DEPTH: usize = 3;
/// Maximum number of files and folders that are examined. A home has about twenty, and two for each key.
const MAX_FILES: usize = 10_000;
/// Permission bits of users other than the owner.
const OTHERS: u32 = 0o077;
/// Permission bits that the owner needs on every file.
const OWNER_READS_AND_WRITES: u32 = 0o600;
/// A folder, owned by root, that ext4 creates at the root of each file system. The home folder may be such a root.
const LOST_AND_FOUND: &str = "lost+found";
/// Prefix of the names of keyring folders.
const KEYRING: &str = "keyring-";

/// Checks that all files belong to this user, which is not the case after the node has been started as root, and that
/// other users have no access to keys.
pub(super) fn check(home: &Path) -> Result<String, Failure> {
    let files = files(home).map_err(|error| {
        Failure::new(format!("cannot read the home folder: {error}"), "correct its permissions")
    })?;
    let user = geteuid().as_raw();
    for (path, metadata) in &files {
        check_file(home, path, metadata, user)?;
    }
    Ok(format!("{} files and folders belong to user {user}, and keys only to it", files.len()))
}

/// Returns the owner of the home folder, or `user` if the folder cannot be read.
fn owner(home: &Path, user: u32) -> u32 {
    home.metadata().map_or(user, |folder| folder.uid())
}

fn check_file(home: &Path, path: &Path, metadata: &Metadata, user: u32) -> Result<(), Failure> {
    let shown = path.display();
    let is_link = metadata.is_symlink();
    // On Linux, every link has mode 0777. A link whose target does not exist grants no access.
    let mode = match is_link {
        true => fs::metadata(path).map_or(0, |target| target.mode()),
        false => metadata.mode(),
    } & 0o777;
    if metadata.uid() != user {
        return Err(Failure::new(
            format!("{shown} belongs to user {}, not to user {user}", metadata.uid()),
            format!(
                "`chown -R {} {}`, or run this command as the user of the node",
                owner(home, user),
                home.display()
            ),
        ));
    }
    if !is_link && mode & OWNER_READS_AND_WRITES != OWNER_READS_AND_WRITES {
        return Err(Failure::new(
            format!("{shown} has mode {mode:03o}: its owner cannot read and write it"),
            format!("`chmod u+rw {shown}`"),
        ));
    }
    let below = path.strip_prefix(home).unwrap_or(path);
    let is_key = below.to_string_lossy().starts_with(KEYRING)
        || [PRODUCER_KEY_FILE, VALIDATOR_KEY_FILE].iter().any(|key| below == Path::new(key));
    if is_key && mode & OTHERS != 0 {
        return Err(Failure::new(
            format!("{shown} has mode {mode:03o}: other users have access to keys"),
            format!("`chmod go= {shown}`"),
        ));
    }
    Ok(())
}

/// Lists the files and folders in a home folder down to [`MAX_DEPTH`], without following symbolic links.
fn files(home: &Path) -> io::Result<Vec<(PathBuf, Metadata)>> {
    let mut found = vec![(home.to_owned(), fs::metadata(home)?)];
    let mut folders = vec![home.to_owned()];
    for _ in 0..MAX_DEPTH {
        for folder in std::mem::take(&mut folders) {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                if entry.file_name() == LOST_AND_FOUND {
                    continue;
                }
                let metadata = entry.metadata()?;
                if metadata.is_dir() {
                    folders.push(entry.path());
                }
                if found.len() < MAX_FILES {
                    found.push((entry.path(), metadata));
                }
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn keys_readable_by_others_and_read_only_files_fail_the_check() {
        let home = tempfile::tempdir().unwrap();
        let keyring = home.path().join("keyring-file");
        fs::create_dir(&keyring).unwrap();
        set_mode(&keyring, 0o700);
        let (key, config) = (keyring.join("a.info"), home.path().join("config.toml"));
        fs::write(&key, "").unwrap();
        fs::write(&config, "").unwrap();
        set_mode(&config, 0o644);
        for (mode, is_accepted) in [(0o600, true), (0o700, true), (0o640, false), (0o604, false)] {
            set_mode(&key, mode);
            assert_eq!(check(home.path()).is_ok(), is_accepted, "{mode:o}");
        }
        set_mode(&key, 0o600);
        // The mode of a linked key is that of the file that the link names.
        let file = tempfile::NamedTempFile::new().unwrap();
        std::os::unix::fs::symlink(file.path(), keyring.join("b.info")).unwrap();
        for (mode, is_accepted) in [(0o600, true), (0o640, false), (0o600, true)] {
            set_mode(file.path(), mode);
            assert_eq!(check(home.path()).is_ok(), is_accepted, "{mode:o}");
        }
        drop(file);
        check(home.path()).unwrap();
        set_mode(&config, 0o444);
        let error = format!("{:?}", check(home.path()).unwrap_err());
        assert!(error.contains("config.toml has mode 444"), "{error}");
    }

    #[test]
    fn files_of_another_user_fail_the_check() {
        let home = tempfile::tempdir().unwrap();
        let metadata = fs::metadata(home.path()).unwrap();
        let (owner, other) = (metadata.uid(), metadata.uid() + 1);
        check_file(home.path(), home.path(), &metadata, owner).unwrap();
        check_file(home.path(), home.path(), &metadata, other).unwrap_err();
    }
}
