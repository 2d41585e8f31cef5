//! Reads a trie without changing it: single records and values.

use std::sync::Arc;

use alloy_primitives::{B256, Bytes};
use alloy_trie::TrieAccount;

use super::{Child, Nibbles, Node, NodeRead, TrieError};

/// Number of nibbles of a key: all keys are Keccak-256 hashes.
const KEY_NIBBLES: usize = 64;

/// Loads the record at `path`, which must exist.
pub(super) fn load<N: NodeRead>(
    nodes: &N,
    owner: Option<B256>,
    path: &Nibbles,
) -> Result<Arc<Node>, TrieError<N::Error>> {
    let path = *path;
    let node = nodes.node(owner, &path).map_err(TrieError::Read)?;
    let node = node.ok_or(TrieError::MissingNode { owner, path })?;
    if !fits(&path, &node) {
        return Err(TrieError::Damaged { what: "record is invalid at its path", owner, path });
    }
    Ok(node)
}

/// Returns whether a record that was read from a store can be at `path`: the keys of its leaves must have full
/// length, its child records must be above that depth, and only the root may be a leaf. Callers rely on this.
fn fits(path: &Nibbles, node: &Node) -> bool {
    match node {
        Node::Leaf(leaf) => path.is_empty() && leaf.suffix.len() == KEY_NIBBLES,
        Node::Branch(branch) => {
            let below = path.len() + branch.prefix.len() + 1;
            branch.mask.count_ones() as usize == branch.children.len()
                && branch.children.iter().all(|child| match child {
                    Child::Leaf(leaf) => below + leaf.suffix.len() == KEY_NIBBLES,
                    Child::Node(_) => below < KEY_NIBBLES,
                })
        }
    }
}

/// Returns the value of `key` in a non-empty trie. Passes each record on the path to `visit`, with its own path.
pub(super) fn value<N: NodeRead>(
    nodes: &N,
    owner: Option<B256>,
    key: &Nibbles,
    mut visit: impl FnMut(&Nibbles, &Node),
) -> Result<Option<Bytes>, TrieError<N::Error>> {
    let mut path = Nibbles::new();
    loop {
        let node = load(nodes, owner, &path)?;
        visit(&path, &node);
        let (at, leaf) = match &*node {
            Node::Leaf(leaf) => (path, leaf),
            Node::Branch(branch) => {
                path = path.join(&branch.prefix);
                if !key.starts_with(&path) {
                    return Ok(None);
                }
                let nibble = key.get_unchecked(path.len());
                path.push(nibble);
                match branch.child(nibble) {
                    None => return Ok(None),
                    Some(Child::Node(_)) => continue,
                    Some(Child::Leaf(leaf)) => (path, leaf),
                }
            }
        };
        return Ok((at.join(&leaf.suffix) == *key).then(|| leaf.value.clone()));
    }
}

/// Decodes the account in a leaf of the account trie.
pub(super) fn decode_account<E>(key: &Nibbles, value: &[u8]) -> Result<TrieAccount, TrieError<E>> {
    alloy_rlp::decode_exact(value).map_err(|_| TrieError::Damaged {
        what: "account cannot be decoded",
        owner: None,
        path: *key,
    })
}
