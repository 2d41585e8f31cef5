//! Withdraws checkpoints that will not be written, because their blocks were undone.
//!
//! The index still has the records of the previous checkpoint. Every record of a withdrawn checkpoint may
//! therefore differ from the record in the index, and belongs to the next checkpoint again: it is written if
//! its node still exists, and removed otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use alloy_primitives::B256;

use super::arena::Slot;
use super::checkpoint::Records;
use super::path::{KEY_NIBBLES, Path};
use super::{LiveTrie, Tree};

/// A checkpoint that may not be in the index yet.
#[derive(Debug)]
pub(super) struct HandedOver {
    /// The block whose state the checkpoint describes.
    pub(super) block: u64,
    /// The number of the checkpoint.
    pub(super) epoch: u32,
    pub(super) wiped: Vec<B256>,
    pub(super) accounts: Arc<Records>,
    pub(super) storages: Arc<Records>,
    /// Set when the checkpoint is withdrawn.
    pub(super) withdrawn: Arc<AtomicBool>,
}

impl LiveTrie {
    /// Withdraws the checkpoints of the blocks above `block`, none of which may be in the index. Their records
    /// count as changed again.
    pub fn withdraw_above(&mut self, block: u64) {
        let kept = self.handed_over.partition_point(|checkpoint| checkpoint.block <= block);
        for checkpoint in self.handed_over.split_off(kept) {
            self.withdraw(&checkpoint);
        }
    }

    fn withdraw(&mut self, checkpoint: &HandedOver) {
        checkpoint.withdrawn.store(true, Ordering::Release);
        for owner in &checkpoint.wiped {
            let empty = Tree { slot: Slot::Empty, used: self.now, epoch: self.epoch, wiped: true };
            let tree = self.storages.entry(*owner).or_insert(empty);
            (tree.epoch, tree.wiped) = (self.epoch, true);
        }
        for (key, _) in checkpoint.accounts.rows().iter() {
            self.change_again(None, &path_of(key));
        }
        for (key, _) in checkpoint.storages.rows().iter() {
            let (owner, path) = key.split_at(size_of::<B256>());
            self.change_again(Some(B256::from_slice(owner)), &path_of(path));
        }
    }

    /// Marks the record at `path` as changed.
    fn change_again(&mut self, owner: Option<B256>, path: &Path) {
        let epoch = self.epoch;
        let tree = match owner {
            None => Some(&mut self.accounts),
            Some(owner) => self.storages.get_mut(&owner),
        };
        let Some(tree) = tree else {
            // The storage trie is empty, and has not been loaded since.
            self.removed.push((owner, *path));
            return;
        };
        tree.epoch = epoch;
        let mut slot = tree.slot;
        let (mut depth, mut above) = (0, Vec::new());
        let found = loop {
            let Slot::Branch(index) = slot else { break None };
            if depth == path.len() {
                break Some(index);
            }
            let prefix = *self.arena.prefix(self.arena.branch(index));
            let base = depth + prefix.len();
            let is_below = base < path.len()
                && (0..prefix.len()).all(|at| prefix.nibble(at) == path.nibble(depth + at));
            if !is_below {
                break None;
            }
            let nibble = path.nibble(base);
            above.push((index, nibble));
            slot = self.arena.child(index, nibble);
            depth = base + 1;
        };
        match found {
            Some(found) => {
                for (index, nibble) in above {
                    self.arena.branch_mut(index).dirty |= 1 << nibble;
                    self.mark(index);
                }
                self.mark(found);
            }
            // A checkpoint always writes or removes the root record of a changed trie.
            None if path.len() > 0 => self.removed.push((owner, *path)),
            None => {}
        }
    }

    /// Marks a branch as changed since the last checkpoint.
    fn mark(&mut self, index: u32) {
        let branch = self.arena.branch_mut(index);
        self.dirty += usize::from(branch.epoch != self.epoch);
        branch.epoch = self.epoch;
    }
}

/// Returns the path in the key of a record; see [`Path::put_record_key`].
fn path_of(key: &[u8]) -> Path {
    let (length, packed) = key.split_last().expect("a record's key ends with its length");
    debug_assert!(usize::from(*length) <= KEY_NIBBLES, "a path has at most 64 nibbles");
    Path::unpack(packed, usize::from(*length))
}
