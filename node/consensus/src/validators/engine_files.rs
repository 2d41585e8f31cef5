//! The rules for the engine's files: how many blocks they keep, when the engine must not start with them, and how they
//! are removed.

use super::engine::{KEPT_VIEWS, MAX_UNACKNOWLEDGED};
use commonware_utils::NZU64;
use std::{fs, io, num::NonZeroU64, path::Path};

/// Extension of a folder of files that are being removed.
const REMOVED: &str = "removed";

/// The copies of final blocks that the engine keeps for other validators. The index of these copies is in memory and is
/// read at each start.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptBlocks {
    /// Minimum number of newest blocks that are kept.
    pub(super) count: u64,
    /// Number of blocks in one file. Files are removed as a whole.
    pub(super) per_file: NonZeroU64,
}

impl KeptBlocks {
    /// The number for validators: 4.5 hours of blocks at four blocks per second.
    pub(super) const DEFAULT: Self = Self { count: 65_536, per_file: NZU64!(1024) };

    /// Returns the oldest block that is kept, if older ones are removed after block `number`.
    pub(super) fn oldest_after(&self, number: u64) -> Option<u64> {
        let oldest = number.checked_sub(self.count)?;
        number.is_multiple_of(self.per_file.get()).then_some(oldest)
    }

    /// Whether the other validators may have removed a block that a node with the newest block `head` needs, if
    /// `newest` is the newest block of the chain.
    pub(super) fn may_lack_blocks(&self, head: u64, newest: u64) -> bool {
        newest.saturating_sub(head) > self.count
    }
}

/// Maximum number of blocks that an engine with files requests again although the node has them. An engine that runs
/// without interruption needs at most [`MAX_UNACKNOWLEDGED`] of them. An engine that was killed soon after it started
/// at a certified block needs the blocks after that block.
const MAX_REPEATED: u64 = KEPT_VIEWS.get() + MAX_UNACKNOWLEDGED.get() as u64;

/// Checks that an engine with files can continue on a node with the newest block `head`. `processed` is the newest
/// block that the engine has delivered and that is durable; `None` if there is none.
pub(super) fn check_progress(processed: Option<u64>, head: u64) -> Result<(), StartError> {
    let can_continue = match processed {
        // The engine does not deliver a block at or below `processed` again. It needs all later blocks from its files
        // or from the other validators, which may no longer have old ones.
        Some(processed) => processed <= head && head - processed <= MAX_REPEATED,
        // A larger `head` means that the engine was killed after it stored its first block and before it stored its
        // progress. It would request all blocks from block 1 on.
        None => head <= MAX_UNACKNOWLEDGED.get() as u64,
    };
    let processed = processed.unwrap_or_default();
    if can_continue { Ok(()) } else { Err(StartError::OtherBlocks { processed, head }) }
}

/// Checks that an engine without files can start at the genesis on a node without certificates, with the newest block
/// `head`.
pub(super) fn check_uncertified(head: u64) -> Result<(), StartError> {
    // The first blocks may have become final without certificates of their own.
    match head > MAX_UNACKNOWLEDGED.get() as u64 {
        true => Err(StartError::NoCertificate { head }),
        false => Ok(()),
    }
}

/// Removes the engine's files. They are renamed first, because partly removed files would prevent every later start.
pub(super) fn remove(files: &Path) -> io::Result<()> {
    finish_removal(files)?;
    fs::rename(files, files.with_extension(REMOVED))?;
    finish_removal(files)
}

/// Completes a removal that was interrupted, if there is one.
pub(super) fn finish_removal(files: &Path) -> io::Result<()> {
    match fs::remove_dir_all(files.with_extension(REMOVED)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Why the engine cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StartError {
    /// The engine's files do not match the node's blocks: the node's data were restored or rolled back, or the node has
    /// followed another node. Without these files, the engine starts at the newest block of the node that has a
    /// certificate of its own.
    #[error(
        "the consensus engine has processed block {processed}, and the newest block of this node is {head}"
    )]
    OtherBlocks {
        /// The newest block that the engine has delivered and that was durable.
        processed: u64,
        /// The newest block of the node.
        head: u64,
    },
    /// The engine's files are damaged, or the disk failed.
    #[error("{0}")]
    Unreadable(String),
    /// The blocks of the node were imported from a file, which has no certificates.
    #[error(
        "none of the {head} blocks of this node has a certificate: restore a snapshot of another node, or follow one \
         (`evmd start --no-produce --follow URL`) until it has sent a block"
    )]
    NoCertificate {
        /// The newest block of the node.
        head: u64,
    },
    /// The newest certificate of the node is not one of the validators. The data of the node were
    /// changed, or come from an untrusted source.
    #[error(
        "the newest certificate of this node is not signed by a quorum of the validators: \
         restore a snapshot of another node"
    )]
    InvalidCertificate,
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: KeptBlocks = KeptBlocks { count: 100, per_file: NZU64!(8) };

    #[test]
    fn engine_continues_if_its_newest_block_is_near_that_of_the_node() {
        let is_rejected = |processed, head| check_progress(processed, head).is_err();
        let first = MAX_UNACKNOWLEDGED.get() as u64;
        assert_eq!([0, first, first + 1].map(|head| is_rejected(None, head)), [false, false, true]);
        for (processed, head, rejected) in [
            (0, 0, false),
            (7, 7, false),
            (8, 7, true),
            (7, 7 + MAX_REPEATED - 1, false),
            (7, 7 + MAX_REPEATED, false),
            (7, 7 + MAX_REPEATED + 1, true),
        ] {
            assert_eq!(is_rejected(Some(processed), head), rejected, "{processed} {head}");
        }
    }

    #[test]
    fn engine_starts_at_the_genesis_only_on_a_node_with_few_blocks() {
        let first = MAX_UNACKNOWLEDGED.get() as u64;
        let is_rejected = [0, first, first + 1].map(|head| check_uncertified(head).is_err());
        assert_eq!(is_rejected, [false, false, true]);
    }

    #[test]
    fn old_blocks_are_removed_by_whole_files() {
        let oldest = [0, 96, 99, 100, 101, 103, 104, 112].map(|number| KEPT.oldest_after(number));
        assert_eq!(oldest, [None, None, None, None, None, None, Some(4), Some(12)]);
    }

    #[test]
    fn blocks_may_be_missing_if_more_are_needed_than_the_others_keep() {
        let may_lack = [6, 7, 106, 107, 108].map(|newest| KEPT.may_lack_blocks(7, newest));
        assert_eq!(may_lack, [false, false, false, false, true]);
    }

    #[test]
    fn interrupted_removals_are_completed() {
        let folder = tempfile::tempdir().unwrap();
        let files = folder.path().join("engine");
        let removed = folder.path().join("engine.removed");
        let fill = |path: &Path| {
            fs::create_dir_all(path.join("blocks")).unwrap();
            fs::write(path.join("blocks/0"), "block").unwrap();
        };
        fill(&files);
        fill(&removed);
        remove(&files).unwrap();
        assert!(!files.exists() && !removed.exists());
        fill(&removed);
        finish_removal(&files).unwrap();
        assert!(!removed.exists());
        finish_removal(&files).unwrap();
    }
}
