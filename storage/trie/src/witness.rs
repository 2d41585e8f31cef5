//! The nodes of a state trie that a client needs to execute a block without the state, and to compute
//! the state root after it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};

use super::node::{encode_extension, reference_of};
use super::proof::account_proof;
use super::state::update_state_root;
use super::{Branch, Child, Nibbles, Node, NodeRead, TrieError, TrieUpdates};
use crate::StateChanges;

/// Collects the nodes of the trie with one root. The witness contains each node once.
#[derive(Debug)]
pub struct Witness<'a, N> {
    nodes: &'a N,
    root: B256,
    found: BTreeSet<Bytes>,
    bytes: usize,
}

impl<'a, N: NodeRead> Witness<'a, N> {
    /// Creates an empty witness.
    pub const fn new(nodes: &'a N, root: B256) -> Self {
        Self { nodes, root, found: BTreeSet::new(), bytes: 0 }
    }

    /// Adds the nodes that prove an account and the given slots, or prove that they do not exist.
    ///
    /// # Errors
    /// If nodes cannot be read or are damaged.
    pub fn prove(&mut self, address: Address, slots: &[U256]) -> Result<(), TrieError<N::Error>> {
        let proof = account_proof(self.nodes, self.root, address, slots)?;
        let storage = proof.storage.into_iter().flat_map(|proof| proof.nodes);
        for node in proof.nodes.into_iter().chain(storage) {
            self.add(node);
        }
        Ok(())
    }

    /// Adds the other nodes that are needed to compute the state root after `changes`, and returns that root. If
    /// a branch loses all but one child, the remaining child is needed, because the branch is merged into it.
    ///
    /// # Errors
    /// Those of [`update_state_root`].
    pub fn update(&mut self, changes: &StateChanges) -> Result<B256, TrieError<N::Error>> {
        let recorder = Recorder { nodes: self.nodes, loaded: RefCell::default() };
        let (root, updates) = update_state_root(&recorder, changes, self.root)?;
        for ((owner, path), node) in recorder.loaded.into_inner() {
            match &*node {
                Node::Leaf(leaf) => self.add_encoded(true, |out| leaf.encode_rlp(out)),
                Node::Branch(branch) => self.add_branch(owner, &path, branch, &updates),
            }
        }
        Ok(root)
    }

    /// Returns the size of all nodes in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the RLP of the nodes.
    pub fn into_nodes(self) -> Vec<Bytes> {
        self.found.into_iter().collect()
    }

    fn add_branch(
        &mut self,
        owner: Option<B256>,
        path: &Nibbles,
        branch: &Branch,
        updates: &TrieUpdates,
    ) {
        let mut rlp = Vec::new();
        branch.encode_rlp(&mut rlp);
        if !branch.prefix.is_empty() {
            let reference = reference_of(&rlp);
            self.add_encoded(path.is_empty(), |out| {
                encode_extension(out, &branch.prefix, &reference);
            });
        }
        let is_root = path.is_empty() && branch.prefix.is_empty();
        self.add_encoded(is_root, |out| out.extend_from_slice(&rlp));
        let stays = match updates.get(owner, path) {
            None => true,
            Some(Some(node)) => matches!(&**node, Node::Branch(new) if new.prefix == branch.prefix),
            Some(None) => false,
        };
        if stays {
            return;
        }
        // One of its leaves may have been merged. Leaves are part of the record, so no access to them is recorded.
        for child in &branch.children {
            if let Child::Leaf(leaf) = child {
                self.add_encoded(false, |out| leaf.encode_rlp(out));
            }
        }
    }

    /// Adds a node unless it is embedded in its parent. A root has no parent.
    fn add_encoded(&mut self, is_root: bool, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut rlp = Vec::new();
        encode(&mut rlp);
        if is_root || rlp.len() >= 32 {
            self.add(rlp.into());
        }
    }

    fn add(&mut self, node: Bytes) {
        let bytes = node.len();
        if self.found.insert(node) {
            self.bytes += bytes;
        }
    }
}

/// Owner of a trie, and path in that trie.
type RecordPosition = (Option<B256>, Nibbles);

/// Collects the records that are read.
struct Recorder<'a, N> {
    nodes: &'a N,
    loaded: RefCell<BTreeMap<RecordPosition, Arc<Node>>>,
}

impl<N: NodeRead> NodeRead for Recorder<'_, N> {
    type Error = N::Error;

    fn node(&self, owner: Option<B256>, path: &Nibbles) -> Result<Option<Arc<Node>>, N::Error> {
        let node = self.nodes.node(owner, path)?;
        if let Some(node) = &node {
            self.loaded.borrow_mut().insert((owner, *path), Arc::clone(node));
        }
        Ok(node)
    }
}
