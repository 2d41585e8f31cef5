//! What a block changed in the records of the trie.

use std::sync::Arc;

use alloy_primitives::B256;
use alloy_primitives::map::{B256Map, HashMap};

use super::{Nibbles, Node};

/// Records by path; `None` for one that is gone.
pub(crate) type NodeChanges = HashMap<Nibbles, Option<Arc<Node>>>;

/// What a block changed in one storage trie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StorageUpdates {
    /// No earlier record of this trie is left.
    pub(crate) wiped: bool,
    /// Records written or removed; after a wipe only those written.
    pub(crate) nodes: NodeChanges,
}

/// Records of the account trie and of storage tries that differ from the parent state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrieUpdates {
    pub(crate) accounts: NodeChanges,
    pub(crate) storages: B256Map<StorageUpdates>,
}

impl TrieUpdates {
    /// What these updates say about a record: `None` nothing (look in the parent state),
    /// `Some(None)` that it is gone, `Some(Some(_))` what it is now.
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

    /// Whether every earlier record of this storage trie is gone.
    pub fn is_wiped(&self, owner: B256) -> bool {
        self.storages.get(&owner).is_some_and(|storage| storage.wiped)
    }

    /// Records written or removed, wipes not counted.
    pub fn len(&self) -> usize {
        let storages = self.storages.values().map(|storage| storage.nodes.len());
        self.accounts.len() + storages.sum::<usize>()
    }

    /// Records written or removed, in no order: whose storage trie, where, and the record or
    /// `None` when it is gone. Wipes are told by [`Self::is_wiped`].
    pub fn iter(&self) -> impl Iterator<Item = (Option<B256>, &Nibbles, Option<&Arc<Node>>)> {
        let accounts = self.accounts.iter().map(|(path, node)| (None, path, node.as_ref()));
        let storages = self.storages.iter().flat_map(|(owner, storage)| {
            storage.nodes.iter().map(|(path, node)| (Some(*owner), path, node.as_ref()))
        });
        accounts.chain(storages)
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty() && self.storages.is_empty()
    }

    /// Puts the updates of the next block on top of these.
    pub fn extend(&mut self, later: &Self) {
        self.accounts.extend(later.accounts.iter().map(|(path, node)| (*path, node.clone())));
        for (owner, storage) in &later.storages {
            let mine = self.storages.entry(*owner).or_default();
            if storage.wiped {
                mine.wiped = true;
                mine.nodes.clear();
            }
            mine.nodes.extend(storage.nodes.iter().map(|(path, node)| (*path, node.clone())));
        }
    }
}
