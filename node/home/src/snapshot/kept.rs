//! Manages the snapshots that a node makes at intervals, in one folder. The name of each has the number and the first
//! four bytes of the hash of a block, such as `12000-1a2b3c4d`. Other files in the folder are left alone.

use super::UNFINISHED;
use crate::HomeError;
use alloy_primitives::{B256, hex};
use std::{
    fs,
    path::{Path, PathBuf},
};
use storage::HomeLock;

/// Bytes of the hash in a name, enough to distinguish two branches.
const HASH_BYTES: usize = 4;
/// End of the name of a snapshot whose removal has begun.
const REMOVED: &str = ".evmd-removed";

/// A complete snapshot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    /// The block in its name. The snapshot may contain a few later blocks.
    pub number: u64,
    /// Its folder.
    pub path: PathBuf,
}

/// Returns the name of the snapshot of a block.
pub fn name(number: u64, hash: B256) -> String {
    format!("{number}-{}", hex::encode(&hash[..HASH_BYTES]))
}

/// Returns the block in the name of a snapshot; `None` for other names.
fn number_in(name: &str) -> Option<u64> {
    let (number, hash) = name.split_once('-')?;
    let is_hash = hash.len() == 2 * HASH_BYTES && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    if is_hash && is_number { number.parse().ok() } else { None }
}

/// Returns the snapshots in a folder, the oldest first. There are none if the folder does not exist.
///
/// # Errors
/// If the folder cannot be read.
pub fn list(folder: &Path) -> Result<Vec<Kept>, HomeError> {
    let mut kept: Vec<Kept> = names(folder)?
        .into_iter()
        .filter_map(|name| Some(Kept { number: number_in(&name)?, path: folder.join(name) }))
        .collect();
    kept.sort();
    Ok(kept)
}

/// Removes the oldest snapshots until `keep` are left. Returns those that it removed.
///
/// # Errors
/// If the folder cannot be read, or a snapshot cannot be removed.
pub fn remove_oldest(folder: &Path, keep: usize) -> Result<Vec<Kept>, HomeError> {
    let mut kept = list(folder)?;
    kept.truncate(kept.len().saturating_sub(keep));
    for Kept { path, .. } in &kept {
        // A folder with the name of a snapshot must be complete, even if the removal is interrupted.
        let hidden = hidden(path);
        fs::rename(path, &hidden).map_err(super::at(path))?;
        fs::remove_dir_all(&hidden).map_err(super::at(&hidden))?;
    }
    Ok(kept)
}

/// Removes what interrupted snapshots and removals have left. A snapshot that another process is writing stays.
///
/// # Errors
/// If the folder cannot be read, or something cannot be removed.
pub fn remove_leftovers(folder: &Path) -> Result<(), HomeError> {
    for name in names(folder)? {
        let Some(bare) = name.strip_prefix('.') else { continue };
        let path = folder.join(&name);
        let of_snapshot = |end| bare.strip_suffix(end).and_then(number_in).is_some();
        let _lock = match of_snapshot(UNFINISHED) {
            true => match HomeLock::acquire(&path) {
                Ok(lock) => Some(lock),
                Err(_) => continue,
            },
            false if of_snapshot(REMOVED) => None,
            false => continue,
        };
        fs::remove_dir_all(&path).map_err(super::at(&path))?;
    }
    Ok(())
}

/// Returns the name of a snapshot while it is being removed.
fn hidden(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}{REMOVED}"))
}

fn names(folder: &Path) -> Result<Vec<String>, HomeError> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).map_err(super::at(folder))?;
    let name = |entry: std::io::Result<fs::DirEntry>| entry.map(|entry| entry.file_name());
    let names = entries.map(name).collect::<Result<Vec<_>, _>>().map_err(super::at(folder))?;
    Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::unfinished;

    fn present(folder: &Path) -> Vec<String> {
        let mut names = names(folder).unwrap();
        names.sort();
        names
    }

    #[test]
    fn names_are_a_number_and_a_hash() {
        let name = name(12_000, B256::repeat_byte(0x1a));
        assert_eq!(name, "12000-1a1a1a1a");
        assert_eq!(number_in(&name), Some(12_000));
        for other in
            ["12000", "-1a1a1a1a", "+5-1a1a1a1a", "12000-1a1a1a1", "12000-1a1a1a1g", "x-1a1a1a1a"]
        {
            assert_eq!(number_in(other), None, "{other}");
        }
    }

    #[test]
    fn removal_keeps_the_newest_snapshots_and_other_folders() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert!(list(&folder.join("missing")).unwrap().is_empty());
        for name in ["9-00000001", "10-00000001", "10-00000002", "100-00000001", "mine"] {
            fs::create_dir_all(folder.join(name).join("chain")).unwrap();
        }
        let numbers: Vec<_> = list(folder).unwrap().iter().map(|kept| kept.number).collect();
        assert_eq!(numbers, [9, 10, 10, 100]);
        assert!(remove_oldest(folder, 4).unwrap().is_empty());
        assert_eq!(remove_oldest(folder, 2).unwrap().len(), 2);
        assert_eq!(present(folder), ["10-00000002", "100-00000001", "mine"]);
        assert_eq!(remove_oldest(folder, 1).unwrap().len(), 1);
        assert_eq!(present(folder), ["100-00000001", "mine"]);
    }

    #[test]
    fn leftovers_are_removed_unless_they_are_being_written() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for name in ["7-00000001", "8-00000001", ".mine.evmd-unfinished", "..evmd-removed"] {
            fs::create_dir(folder.join(name)).unwrap();
        }
        fs::create_dir(unfinished(&folder.join("9-00000001"))).unwrap();
        fs::create_dir(hidden(&folder.join("6-00000001"))).unwrap();
        let written = unfinished(&folder.join("10-00000001"));
        let lock = HomeLock::acquire(&written).unwrap();
        remove_leftovers(folder).unwrap();
        let written = written.file_name().unwrap().to_str().unwrap();
        assert_eq!(
            present(folder),
            ["..evmd-removed", written, ".mine.evmd-unfinished", "7-00000001", "8-00000001"]
        );
        drop(lock);
        remove_leftovers(folder).unwrap();
        assert!(!folder.join(written).exists());
    }
}
