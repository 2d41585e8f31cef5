//! Entries of a trie in key order.

use alloy_primitives::{B256, Bytes};

use super::node::child_nibbles;
use super::walk::load;
use super::{Child, EMPTY_ROOT_HASH, Nibbles, Node, NodeRead, TrieError};

/// A node to visit. The node with the lowest keys is on top of the stack.
enum Visit {
    Record(Nibbles),
    Leaf(Nibbles, Bytes),
}

/// Returns, in ascending order, the first `max` entries whose keys are at least `start`, from the trie with this
/// root: the storage trie of `owner`, or the account trie. Reads only the records on the paths to these entries.
///
/// # Errors
/// If a record is missing, cannot be read or is damaged.
pub fn leaves_from<N: NodeRead>(
    nodes: &N,
    owner: Option<B256>,
    root: B256,
    start: B256,
    max: usize,
) -> Result<Vec<(B256, Bytes)>, TrieError<N::Error>> {
    let start = Nibbles::unpack(start);
    // Returns whether all keys below the path are lower than `start`.
    let is_before = |path: &Nibbles| *path < start.slice(..path.len());
    let mut found = Vec::new();
    let mut visits = Vec::new();
    if root != EMPTY_ROOT_HASH {
        visits.push(Visit::Record(Nibbles::new()));
    }
    while found.len() < max
        && let Some(visit) = visits.pop()
    {
        let path = match visit {
            Visit::Leaf(key, value) => {
                if key >= start {
                    found.push((B256::from_slice(&key.pack()), value));
                }
                continue;
            }
            Visit::Record(path) => path,
        };
        match &*load(nodes, owner, &path)? {
            Node::Leaf(leaf) => visits.push(Visit::Leaf(leaf.suffix, leaf.value.clone())),
            Node::Branch(branch) => {
                let children: Vec<_> = child_nibbles(branch.mask).zip(&branch.children).collect();
                for (nibble, child) in children.into_iter().rev() {
                    let mut below = path.join(&branch.prefix);
                    below.push(nibble);
                    if is_before(&below) {
                        continue;
                    }
                    visits.push(match child {
                        Child::Node(_) => Visit::Record(below),
                        Child::Leaf(leaf) => {
                            Visit::Leaf(below.join(&leaf.suffix), leaf.value.clone())
                        }
                    });
                }
            }
        }
    }
    Ok(found)
}
