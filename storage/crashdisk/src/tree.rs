//! Files and folders by path, on a disk or in the model.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    io::Result,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Files and folders below a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The bytes of a file, or `None` for a folder, by path relative to the folder that was read.
    pub entries: BTreeMap<PathBuf, Option<Vec<u8>>>,
}

impl Tree {
    /// Reads the files and folders below a folder.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut tree = Self::default();
        walk(folder, &mut |path, _, bytes| {
            let below = path.strip_prefix(folder).unwrap_or(path);
            tree.entries.insert(below.to_owned(), bytes);
        })?;
        Ok(tree)
    }

    /// Writes the files and folders below a folder.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        // A folder sorts before its contents.
        for (path, bytes) in &self.entries {
            match bytes {
                Some(bytes) => fs::write(folder.join(path), bytes)?,
                None => fs::create_dir_all(folder.join(path))?,
            }
        }
        Ok(())
    }

    /// Removes the entries with these names, in any folder.
    pub fn without(mut self, names: &[&str]) -> Self {
        let is_removed =
            |path: &Path| names.iter().any(|name| path.file_name() == Some(OsStr::new(name)));
        self.entries.retain(|path, _| !is_removed(path));
        self
    }

    /// Describes the paths that only one of the two trees contains, and the files whose contents differ.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, entry) in &self.entries {
            let path = name.display();
            match (entry, other.entries.get(name)) {
                (_, None) => found.push(format!("{path} is missing")),
                (Some(ours), Some(Some(theirs))) if ours != theirs => {
                    let at = ours.iter().zip(theirs).position(|(a, b)| a != b);
                    let at = at.unwrap_or_else(|| ours.len().min(theirs.len()));
                    let (ours, theirs) = (ours.len(), theirs.len());
                    found.push(format!("{path} differs at byte {at} ({ours} and {theirs} bytes)"));
                }
                (ours, Some(theirs)) if ours.is_some() != theirs.is_some() => {
                    found.push(format!("{path} is a file in one and a folder in the other"));
                }
                _ => {}
            }
        }
        let more = other.entries.keys().filter(|path| !self.entries.contains_key(*path));
        found.extend(more.map(|path| format!("{} should not be there", path.display())));
        found
    }
}

/// Visits the files and folders below a folder, passing their inode and contents. A folder is visited before
/// its contents.
pub(crate) fn walk(
    folder: &Path,
    visit: &mut impl FnMut(&Path, u64, Option<Vec<u8>>),
) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let about = fs::symlink_metadata(&path)?;
        if about.is_dir() {
            visit(&path, about.ino(), None);
            walk(&path, visit)?;
        } else if about.is_file() {
            visit(&path, about.ino(), Some(fs::read(&path)?));
        }
    }
    Ok(())
}
