//! Makes the tries in memory available to functions that read nodes.

use std::sync::Arc;

use alloy_primitives::{B256, Bytes};

use super::arena::Slot;
use super::record::{put_branch_record, put_root_leaf_record};
use super::{LiveTrie, RecordRead};
use crate::{Nibbles, Node, NodeRead, TrieError, decode_node, encode_path_key};

/// Nodes of the newest state of a [`LiveTrie`], whether they are in memory or not.
#[derive(Debug)]
pub struct LiveNodes<'a, S> {
    live: &'a LiveTrie,
    source: &'a S,
}

impl LiveTrie {
    /// Returns the nodes of the newest state. Nodes that are not in memory are read from `source`.
    pub const fn nodes<'a, S: RecordRead>(&'a self, source: &'a S) -> LiveNodes<'a, S> {
        LiveNodes { live: self, source }
    }
}

impl<S: RecordRead> NodeRead for LiveNodes<'_, S> {
    type Error = TrieError<S::Error>;

    fn node(&self, owner: Option<B256>, path: &Nibbles) -> Result<Option<Arc<Node>>, Self::Error> {
        let damaged = |what| TrieError::Damaged { what, owner, path: *path };
        let stored;
        let mut encoded = Vec::new();
        let record: &[u8] = match self.slot_at(owner, path) {
            Slot::Empty => return Ok(None),
            Slot::Cold => {
                let mut key = owner.map_or_else(Vec::new, |owner| owner.to_vec());
                encode_path_key(&mut key, path);
                stored = self.source.record(owner.is_some(), &key).map_err(TrieError::Read)?;
                let Some(stored) = stored else { return Ok(None) };
                stored
            }
            Slot::Leaf(leaf) => {
                let arena = &self.live.arena;
                put_root_leaf_record(&mut encoded, arena.key(leaf), arena.value(leaf));
                &encoded
            }
            Slot::Branch(index) => {
                let arena = &self.live.arena;
                let branch = arena.branch(index);
                let base = path.len() + arena.prefix_len(branch);
                put_branch_record(&mut encoded, arena, branch, base);
                &encoded
            }
        };
        let node = decode_node(&Bytes::copy_from_slice(record));
        node.map(|node| Some(Arc::new(node))).map_err(|error| damaged(error.what))
    }
}

impl<S> LiveNodes<'_, S> {
    /// Returns the slot at the path of a record.
    fn slot_at(&self, owner: Option<B256>, path: &Nibbles) -> Slot {
        let mut slot = match owner {
            None => self.live.accounts.slot,
            Some(owner) => match self.live.storages.get(&owner) {
                Some(tree) => tree.slot,
                None => Slot::Cold,
            },
        };
        let arena = &self.live.arena;
        let mut depth = 0;
        while let Slot::Branch(index) = slot
            && depth < path.len()
        {
            // The caller has descended from the root, so the key matches the prefix.
            depth += arena.prefix_len(arena.branch(index));
            if depth >= path.len() {
                return Slot::Empty;
            }
            slot = arena.child(index, path.get_unchecked(depth));
            depth += 1;
        }
        slot
    }
}
