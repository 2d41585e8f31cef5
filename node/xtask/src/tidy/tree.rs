//! The files of a checkout.

use anyhow::Context;
use std::{collections::BTreeMap, fs, path::Path};

/// Names of the folders that are not read.
const SKIPPED_FOLDERS: [&str; 2] = [".git", "target"];
/// Endings of the files whose contents are read. Of other files, only the path is stored.
const TEXT_ENDINGS: [&str; 4] = [".rs", ".md", ".toml", ".proto"];

/// Contents of files by path, relative to the root and separated by `/`. Contents that are not read are empty.
#[derive(Debug, Default)]
pub(super) struct Tree(BTreeMap<String, String>);

impl Tree {
    /// Reads a checkout.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut tree = Self::default();
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> anyhow::Result<()> {
        let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                if !SKIPPED_FOLDERS.contains(&name.as_str()) {
                    self.read_folder(&entry.path(), &format!("{path}/"))?;
                }
                continue;
            }
            let is_text = TEXT_ENDINGS.iter().any(|ending| name.ends_with(ending));
            let text = if is_text {
                fs::read_to_string(entry.path()).with_context(|| path.clone())?
            } else {
                String::new()
            };
            self.0.insert(path, text);
        }
        Ok(())
    }

    pub(super) fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Whether a file or a folder has this path.
    pub(super) fn contains(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.0.contains_key(path) || {
            let folder = format!("{path}/");
            self.0.range(folder.clone()..).next().is_some_and(|(next, _)| next.starts_with(&folder))
        }
    }

    /// Paths and contents of the files whose path ends with `ending`.
    pub(super) fn with_ending(&self, ending: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(move |(path, _)| path.ends_with(ending))
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }
}

#[cfg(test)]
impl Tree {
    pub(super) fn of(files: Vec<(String, String)>) -> Self {
        Self(files.into_iter().collect())
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Tree {
    fn from(files: [(&str, &str); N]) -> Self {
        Self(files.map(|(path, text)| (path.to_owned(), text.to_owned())).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkout_is_read_without_its_build_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (path, text) in [("a/b.rs", "x"), ("a/c.bin", "\0"), ("target/d.rs", "y")] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let tree = Tree::read(root).unwrap();
        let files: Vec<_> = tree.files().collect();
        assert_eq!(files, [("a/b.rs", "x"), ("a/c.bin", "")]);
        assert!(tree.contains("a") && tree.contains("a/") && tree.contains("a/b.rs"));
        assert!(!tree.contains("a/b") && !tree.contains("b"));
    }
}
