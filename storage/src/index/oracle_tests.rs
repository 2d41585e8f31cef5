//! Compares the incremental trie with a trie built from scratch, for random histories.
//!
//! Nodes of unflushed blocks come from the updates of those blocks, and older nodes from the `index` environment, so
//! every record passes through the codec.

use std::sync::Arc;

use alloy_primitives::{B256, keccak256};
use proptest::prelude::*;

use super::{FlushBlock, IndexDb, IndexOptions, IndexReader};
use crate::StateChanges;
use crate::error::ReadError;
use crate::history::{Model, apply, changes_of, step};
use trie::{
    EMPTY_ROOT_HASH, LiveTrie, MIN_TRIE_CACHE_BYTES, Nibbles, Node, NodeRead, TrieUpdates,
    state_root_from_scratch, update_state_root,
};

/// Large enough for all histories of these tests.
const MAP_BYTES: u64 = 64 << 20;

fn scratch_root(model: &Model) -> B256 {
    state_root_from_scratch(model.iter().map(|(address, (account, slots))| {
        (*address, *account, slots.iter().map(|(&slot, &value)| (slot, value)))
    }))
}

/// Unflushed blocks on top of the index.
struct Layers<'a> {
    index: &'a IndexReader,
    above: &'a [TrieUpdates],
}

impl NodeRead for Layers<'_> {
    type Error = ReadError;

    fn node(&self, owner: Option<B256>, path: &Nibbles) -> Result<Option<Arc<Node>>, ReadError> {
        for updates in self.above.iter().rev() {
            if let Some(node) = updates.get(owner, path) {
                return Ok(node.cloned());
            }
        }
        self.index.node(owner, path)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn incremental_root_is_the_root_from_scratch(
        blocks in prop::collection::vec(prop::collection::vec(step(), 0..12), 1..40),
        flush_every in 1..16usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let index =
            IndexDb::open(folder.path(), IndexOptions { map_bytes: MAP_BYTES }).unwrap();
        let mut live = LiveTrie::new(EMPTY_ROOT_HASH, MIN_TRIE_CACHE_BYTES);
        let mut model = Model::new();
        let mut root = EMPTY_ROOT_HASH;
        let mut pending: Vec<StateChanges> = Vec::new();
        let mut above: Vec<TrieUpdates> = Vec::new();
        for (number, steps) in blocks.iter().enumerate() {
            let changes = changes_of(steps);
            apply(&mut model, &changes);
            let reader = index.reader().unwrap();
            let layers = Layers { index: &reader, above: &above };
            let (next, updates) = update_state_root(&layers, &changes, root).unwrap();
            prop_assert_eq!(next, scratch_root(&model));
            prop_assert_eq!(live.update(&reader, &changes).unwrap(), next);
            root = next;
            pending.push(changes);
            above.push(updates);
            if above.len() == flush_every {
                let first = number + 1 - above.len();
                let batch: Vec<FlushBlock<'_>> = pending.iter().enumerate()
                    .map(|(at, changes)| FlushBlock {
                        number: (first + at) as u64,
                        hash: keccak256((first + at).to_string()),
                        tx_hashes: &[],
                        posting_keys: &[],
                        changes,
                    })
                    .collect();
                index.flush(&batch).unwrap();
                index.write_trie(&live.checkpoint(number as u64)).unwrap();
                live.written(number as u64);
                pending.clear();
                above.clear();
            }
        }
    }
}
