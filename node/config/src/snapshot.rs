//! Settings of the snapshots that the node makes itself.

use super::bounds;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Default of `keep`: a second snapshot exists while an operator examines or copies the newest.
const KEEP: u32 = 2;
/// Default of `folder`.
const FOLDER: &str = "snapshots";

/// `[snapshot]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Snapshot {
    /// Number of blocks from one snapshot to the next. If it is 0, the node makes none.
    pub every_blocks: u64,
    /// Number of snapshots that are kept.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub keep: u32,
    /// The folder of the snapshots. If the path is not absolute, it begins at the home folder.
    pub folder: String,
}

impl Snapshot {
    /// Returns the folder of the snapshots of a home folder.
    pub fn folder_in(&self, home: &Path) -> PathBuf {
        home.join(&self.folder)
    }
}

impl Default for Snapshot {
    fn default() -> Self {
        Self { every_blocks: 0, keep: KEEP, folder: FOLDER.to_owned() }
    }
}
