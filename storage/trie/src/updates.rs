//! The changes that a block makes to trie records.

use std::sync::Arc;

use alloy_primitives::B256;
use alloy_primitives::map::{B256Map, HashMap};

use super::{Nibbles, Node};

/// Records by path; `None` for a removed record.
pub(crate) type NodeChanges = HashMap<Nibbles, Option<Arc<Node>>>;

/// The changes that a block makes to one storage trie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StorageUpdates {
    /// Whether all earlier records of this trie are removed.
    pub(crate) wiped: bool,
    /// Records that are written or removed; after a wipe only those that are written.
    pub(crate) nodes: NodeChanges,
}

/// Records of the account trie and of storage tries that differ from the parent state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrieUpdates {
    pub(crate) accounts: NodeChanges,
    pub(crate) storages: B256Map<StorageUpdates>,
}

impl TrieUpdates {
    /// Returns the record in these updates: `None` if they do not change it (it is read from the parent state),
    /// `Some(None)` if they remove it, `Some(Some(_))` if they write it.
    pub fn get(&self, owner: Option<B256>, path: &Nibbles) -> Option<Option<&Arc<Node>>> {
        let Some(owner) = owner else {
            return self.accounts.get(path).map(Option::as_ref);
        };
        let storage = self.storages.get(&owner)?;
        match storage.nodes.get(path) {
            Some(node) => Some(node.as_ref()),
            None => storage.wiped.then_some(None),
        }
    }

    /// Returns whether all earlier records of this storage trie are removed.
    pub fn is_wiped(&self, owner: B256) -> bool {
        self.storages.get(&owner).is_some_and(|storage| storage.wiped)
    }

    /// Returns the number of records that are written or removed, not including wipes.
    pub fn len(&self) -> usize {
        let storages = self.storages.values().map(|storage| storage.nodes.len());
        self.accounts.len() + storages.sum::<usize>()
    }

    /// Iterates over the records that are written or removed, in any order: owner of the storage trie, path, and
    /// the record or `None` if it is removed. Wipes are not included, see [`Self::is_wiped`].
    pub fn iter(&self) -> impl Iterator<Item = (Option<B256>, &Nibbles, Option<&Arc<Node>>)> {
        let accounts = self.accounts.iter().map(|(path, node)| (None, path, node.as_ref()));
        let storages = self.storages.iter().flat_map(|(owner, storage)| {
            storage.nodes.iter().map(|(path, node)| (Some(*owner), path, node.as_ref()))
        });
        accounts.chain(storages)
    }

    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty() && self.storages.is_empty()
    }

    /// Merges the updates of the next block into these.
    pub fn extend(&mut self, later: &Self) {
        self.accounts.extend(later.accounts.iter().map(|(path, node)| (*path, node.clone())));
        for (owner, storage) in &later.storages {
            let earlier = self.storages.entry(*owner).or_default();
            if storage.wiped {
                earlier.wiped = true;
                earlier.nodes.clear();
            }
            earlier.nodes.extend(storage.nodes.iter().map(|(path, node)| (*path, node.clone())));
        }
    }
}
