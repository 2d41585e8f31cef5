//! Checks every record of a state trie against the state root.

use alloy_primitives::B256;
use alloy_trie::nodes::RlpNode;

use super::node::{child_nibbles, encode_extension, encode_leaf, reference_of};
use super::walk::{decode_account, load};
use super::{Branch, Child, EMPTY_ROOT_HASH, Leaf, Nibbles, Node, NodeRead, TrieError};

/// Numbers of records and leaves that [`verify_state_trie`] has verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifiedTrie {
    /// Records of all tries.
    pub records: u64,
    /// Leaves of the account trie.
    pub accounts: u64,
    /// Leaves of storage tries.
    pub slots: u64,
}

/// A record to visit.
struct Visit {
    owner: Option<B256>,
    path: Nibbles,
    expected: Expected,
}

/// The reference to a record.
enum Expected {
    /// A state root, or the storage root of an account.
    Root(B256),
    /// The reference in the parent record.
    Reference(RlpNode),
}

/// Reads the whole state trie with this root, including storage tries, and recomputes the hash of every record.
///
/// # Errors
/// The first record that is missing, that cannot be read, or whose hash differs from the reference in its parent
/// record or from the root.
pub fn verify_state_trie<N: NodeRead>(
    nodes: &N,
    state_root: B256,
) -> Result<VerifiedTrie, TrieError<N::Error>> {
    let mut verified = VerifiedTrie::default();
    let mut visits = Vec::new();
    push_root(&mut visits, None, state_root);
    while let Some(visit) = visits.pop() {
        let Visit { owner, path, .. } = visit;
        let damaged = |what| TrieError::Damaged { what, owner, path };
        let node = load(nodes, owner, &path)?;
        verified.records += 1;
        let is_expected = match &visit.expected {
            Expected::Root(root) => node.root_hash() == *root,
            Expected::Reference(reference) => {
                matches!(&*node, Node::Branch(branch) if reference_to(branch) == *reference)
            }
        };
        if !is_expected {
            return Err(damaged("the hash of the record differs from the reference to it"));
        }
        let mut leaf_at = |leaf: &Leaf, at: Nibbles| {
            if !has_correct_reference(leaf) {
                return Err(damaged("the hash of the leaf differs from the hash it states"));
            }
            if owner.is_some() {
                verified.slots += 1;
                return Ok(None);
            }
            verified.accounts += 1;
            let key = at.join(&leaf.suffix);
            let account = decode_account(&key, &leaf.value)?;
            Ok(Some((B256::from_slice(&key.pack()), account.storage_root)))
        };
        let mut storages = Vec::new();
        match &*node {
            Node::Leaf(leaf) => storages.extend(leaf_at(leaf, path)?),
            Node::Branch(branch) => {
                for (nibble, child) in child_nibbles(branch.mask).zip(&branch.children) {
                    let mut below = path.join(&branch.prefix);
                    below.push(nibble);
                    match child {
                        Child::Leaf(leaf) => storages.extend(leaf_at(leaf, below)?),
                        Child::Node(reference) => {
                            let expected = Expected::Reference(reference.clone());
                            visits.push(Visit { owner, path: below, expected });
                        }
                    }
                }
            }
        }
        for (owner, root) in storages {
            push_root(&mut visits, Some(owner), root);
        }
    }
    Ok(verified)
}

/// Adds the root record of a trie; an empty trie has none.
fn push_root(visits: &mut Vec<Visit>, owner: Option<B256>, root: B256) {
    if root != EMPTY_ROOT_HASH {
        visits.push(Visit { owner, path: Nibbles::new(), expected: Expected::Root(root) });
    }
}

/// Returns the reference that a parent record contains for this branch, including its extension.
fn reference_to(branch: &Branch) -> RlpNode {
    let mut rlp = Vec::new();
    branch.encode_rlp(&mut rlp);
    let reference = reference_of(&rlp);
    if branch.prefix.is_empty() {
        return reference;
    }
    rlp.clear();
    encode_extension(&mut rlp, &branch.prefix, &reference);
    reference_of(&rlp)
}

fn has_correct_reference(leaf: &Leaf) -> bool {
    let mut rlp = Vec::new();
    encode_leaf(&mut rlp, &leaf.suffix, &leaf.value);
    reference_of(&rlp) == leaf.reference
}
