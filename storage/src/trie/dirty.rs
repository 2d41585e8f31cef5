//! The touched part of one trie, while changes are applied to it.
//!
//! Touched branches live in an arena that all tries of a block share, so that they can be hashed
//! together level by level. Records are loaded as they are met; which were taken in is remembered,
//! because those that are not written again have to be removed.

use std::sync::Arc;

use alloy_primitives::map::{HashMap, HashSet};
use alloy_primitives::{B256, Bytes};
use alloy_trie::nodes::RlpNode;

use super::node::child_index;
use super::{Branch, Child, EMPTY_ROOT_HASH, Leaf, Nibbles, Node, NodeRead, TrieError};

/// Nibbles of a key: all keys are Keccak-256 hashes.
const KEY_NIBBLES: usize = 64;

/// One change of a trie: the whole key, and the new value or `None` for a removal.
pub(super) type Change = (Nibbles, Option<Bytes>);

/// A subtrie while changes are applied; `None` when it is empty.
pub(super) type Slot = Option<Work>;

/// What hangs at a place of a trie.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// An untouched record, by its reference.
    Clean(RlpNode),
    /// A leaf; without a reference when it is new, changed or moved.
    Leaf { suffix: Nibbles, value: Bytes, reference: Option<RlpNode> },
    /// A touched branch, by its index in the arena.
    Dirty(usize),
}

/// A touched branch.
#[derive(Clone, Debug)]
pub(super) struct DirtyBranch {
    pub(super) prefix: Nibbles,
    pub(super) mask: u16,
    pub(super) children: Vec<Work>,
    /// Of the branch node alone; empty until hashed.
    pub(super) branch_reference: RlpNode,
    /// Of the extension before it, or of the branch without one; empty until hashed.
    pub(super) reference: RlpNode,
}

impl DirtyBranch {
    fn new(prefix: Nibbles) -> Self {
        Self {
            prefix,
            mask: 0,
            children: Vec::new(),
            branch_reference: RlpNode::default(),
            reference: RlpNode::default(),
        }
    }

    fn take(&mut self, nibble: u8) -> Slot {
        let index = child_index(self.mask, nibble)?;
        self.mask &= !(1 << nibble);
        Some(self.children.remove(index))
    }

    fn put(&mut self, nibble: u8, child: Slot) {
        let Some(child) = child else { return };
        let below = self.mask & ((1u16 << nibble) - 1);
        self.mask |= 1 << nibble;
        self.children.insert(below.count_ones() as usize, child);
    }
}

impl From<&Branch> for DirtyBranch {
    fn from(branch: &Branch) -> Self {
        let children = branch.children.iter().map(|child| match child {
            Child::Node(reference) => Work::Clean(reference.clone()),
            Child::Leaf(leaf) => Work::from(leaf),
        });
        let children = children.collect();
        Self { mask: branch.mask, children, ..Self::new(branch.prefix) }
    }
}

impl From<&Leaf> for Work {
    fn from(leaf: &Leaf) -> Self {
        Self::Leaf {
            suffix: leaf.suffix,
            value: leaf.value.clone(),
            reference: Some(leaf.reference.clone()),
        }
    }
}

/// Touched branches of all tries of a block.
pub(super) type Arena = Vec<DirtyBranch>;

/// One trie under change.
#[derive(Debug)]
pub(super) struct DirtyTrie<'a, N> {
    nodes: &'a N,
    owner: Option<B256>,
    /// Records read, so that none is read twice.
    loaded: HashMap<Nibbles, Arc<Node>>,
    /// Places whose records were taken in.
    pub(super) taken: HashSet<Nibbles>,
}

impl<'a, N: NodeRead> DirtyTrie<'a, N> {
    pub(super) fn new(nodes: &'a N, owner: Option<B256>) -> Self {
        Self { nodes, owner, loaded: HashMap::default(), taken: HashSet::default() }
    }

    /// The trie with this root hash.
    pub(super) fn root(root: B256) -> Slot {
        (root != EMPTY_ROOT_HASH).then(|| Work::Clean(RlpNode::word_rlp(&root)))
    }

    pub(super) fn load(&mut self, path: &Nibbles) -> Result<Arc<Node>, TrieError<N::Error>> {
        if let Some(node) = self.loaded.get(path) {
            return Ok(Arc::clone(node));
        }
        let (owner, path) = (self.owner, *path);
        let node = self.nodes.node(owner, &path).map_err(TrieError::Read)?;
        let node = node.ok_or(TrieError::MissingNode { owner, path })?;
        if !fits(&path, &node) {
            return Err(self.damaged("record does not fit its place", path));
        }
        self.loaded.insert(path, Arc::clone(&node));
        Ok(node)
    }

    pub(super) fn damaged(&self, what: &'static str, path: Nibbles) -> TrieError<N::Error> {
        TrieError::Damaged { what, owner: self.owner, path }
    }

    /// The value under `key` before any change, in a trie that is not empty.
    pub(super) fn value(&mut self, key: &Nibbles) -> Result<Option<Bytes>, TrieError<N::Error>> {
        let mut path = Nibbles::new();
        loop {
            let node = self.load(&path)?;
            let (at, leaf) = match &*node {
                Node::Leaf(leaf) => (path, leaf),
                Node::Branch(branch) => {
                    let base = path.join(&branch.prefix);
                    if !key.starts_with(&base) || base.len() >= key.len() {
                        return Ok(None);
                    }
                    let nibble = key.get_unchecked(base.len());
                    path = base;
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

    /// Applies changes, ascending by key and all below `path`, to what hangs at `path`.
    pub(super) fn apply(
        &mut self,
        arena: &mut Arena,
        slot: Slot,
        path: Nibbles,
        changes: &[Change],
    ) -> Result<Slot, TrieError<N::Error>> {
        if changes.is_empty() {
            return Ok(slot);
        }
        match slot {
            None => Ok(build(arena, &path, &inserted(changes))),
            Some(Work::Leaf { suffix, value, reference }) => {
                Ok(apply_to_leaf(arena, &path, (suffix, value, reference), changes))
            }
            Some(Work::Clean(reference)) => {
                let node = self.load(&path)?;
                self.taken.insert(path);
                match &*node {
                    Node::Leaf(leaf) => self.apply(arena, Some(leaf.into()), path, changes),
                    Node::Branch(branch) => {
                        arena.push(branch.into());
                        let index = arena.len() - 1;
                        self.apply_to_branch(arena, index, Some(reference), path, changes)
                    }
                }
            }
            Some(Work::Dirty(index)) => self.apply_to_branch(arena, index, None, path, changes),
        }
    }

    /// Applies changes to a branch; `clean` is its reference when it is untouched so far.
    fn apply_to_branch(
        &mut self,
        arena: &mut Arena,
        index: usize,
        clean: Option<RlpNode>,
        path: Nibbles,
        changes: &[Change],
    ) -> Result<Slot, TrieError<N::Error>> {
        let base = path.join(&arena[index].prefix);
        let fork = changes
            .iter()
            .filter(|(_, value)| value.is_some())
            .map(|(key, _)| key.common_prefix_length(&base))
            .min()
            .filter(|&length| length < base.len());
        let Some(fork) = fork else {
            return self.apply_to_children(arena, index, clean, path, changes);
        };
        // An insertion leaves the prefix: a new branch at the fork takes the old one as a child.
        arena[index].prefix = base.slice(fork + 1..);
        let mut branch = DirtyBranch::new(base.slice(path.len()..fork));
        branch.put(base.get_unchecked(fork), Some(Work::Dirty(index)));
        arena.push(branch);
        self.apply_to_children(arena, arena.len() - 1, None, path, changes)
    }

    fn apply_to_children(
        &mut self,
        arena: &mut Arena,
        index: usize,
        clean: Option<RlpNode>,
        path: Nibbles,
        changes: &[Change],
    ) -> Result<Slot, TrieError<N::Error>> {
        let base = path.join(&arena[index].prefix);
        let mut changed = false;
        for group in changes.chunk_by(|(a, _), (b, _)| below(a, &base) == below(b, &base)) {
            // Only removals may lie beside the branch, and they remove nothing.
            let Some(nibble) = below(&group[0].0, &base) else { continue };
            let mut child_path = base;
            child_path.push(nibble);
            let before = arena[index].take(nibble);
            let was = Kind::of(&before);
            let after = self.apply(arena, before, child_path, group)?;
            changed |= was == Kind::Dirty || was != Kind::of(&after);
            arena[index].put(nibble, after);
        }
        if let (false, Some(reference)) = (changed, clean) {
            self.taken.remove(&path);
            return Ok(Some(Work::Clean(reference)));
        }
        match arena[index].mask.count_ones() {
            0 => Ok(None),
            1 => self.collapse(arena, index, path).map(Some),
            _ => Ok(Some(Work::Dirty(index))),
        }
    }

    /// A branch with one child left becomes that child, with a longer path.
    fn collapse(
        &mut self,
        arena: &mut Arena,
        index: usize,
        path: Nibbles,
    ) -> Result<Work, TrieError<N::Error>> {
        let branch = &mut arena[index];
        let nibble = branch.mask.trailing_zeros() as u8;
        let child = branch.take(nibble).expect("one child is left");
        let mut joined = branch.prefix;
        joined.push(nibble);
        match child {
            Work::Leaf { suffix, value, .. } => {
                Ok(Work::Leaf { suffix: joined.join(&suffix), value, reference: None })
            }
            Work::Dirty(child) => {
                arena[child].prefix = joined.join(&arena[child].prefix);
                Ok(Work::Dirty(child))
            }
            Work::Clean(_) => {
                let child_path = path.join(&joined);
                let node = self.load(&child_path)?;
                let Node::Branch(sibling) = &*node else {
                    return Err(self.damaged("leaf below the root", child_path));
                };
                self.taken.insert(child_path);
                let mut sibling = DirtyBranch::from(sibling);
                sibling.prefix = joined.join(&sibling.prefix);
                arena.push(sibling);
                Ok(Work::Dirty(arena.len() - 1))
            }
        }
    }
}

/// Whether a record read from a store can be at `path`: its leaves end where keys end, its branch
/// before that, and only the root is a leaf itself. What is built on a record relies on it.
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

/// What can be seen of a slot without looking inside; equal and not dirty means untouched.
#[derive(PartialEq, Eq)]
enum Kind {
    Empty,
    Clean,
    Leaf,
    Dirty,
}

impl Kind {
    fn of(slot: &Slot) -> Self {
        match slot {
            None => Self::Empty,
            Some(Work::Clean(_)) => Self::Clean,
            Some(Work::Leaf { reference: Some(_), .. }) => Self::Leaf,
            Some(Work::Leaf { reference: None, .. } | Work::Dirty(_)) => Self::Dirty,
        }
    }
}

/// The nibble of `key` at the branch with this base, or `None` when it lies beside.
fn below(key: &Nibbles, base: &Nibbles) -> Option<u8> {
    (key.starts_with(base) && key.len() > base.len()).then(|| key.get_unchecked(base.len()))
}

/// An entry to be built into a subtrie.
type Entry = (Nibbles, Bytes);

fn inserted(changes: &[Change]) -> Vec<Entry> {
    let entries = changes.iter().filter_map(|(key, value)| Some((*key, value.clone()?)));
    entries.collect()
}

fn apply_to_leaf(
    arena: &mut Arena,
    path: &Nibbles,
    (suffix, value, reference): (Nibbles, Bytes, Option<RlpNode>),
    changes: &[Change],
) -> Slot {
    let key = path.join(&suffix);
    let mut entries = inserted(changes);
    let found = changes.binary_search_by(|(changed, _)| changed.cmp(&key));
    let kept = match found {
        Ok(index) => changes[index].1.as_ref() == Some(&value),
        Err(_) => {
            let at = entries.partition_point(|(inserted, _)| *inserted < key);
            entries.insert(at, (key, value.clone()));
            true
        }
    };
    if kept && entries.len() == 1 {
        return Some(Work::Leaf { suffix, value, reference });
    }
    build(arena, path, &entries)
}

/// The subtrie at `path` of these entries, ascending by key.
fn build(arena: &mut Arena, path: &Nibbles, entries: &[Entry]) -> Slot {
    let (first, last) = (entries.first()?, entries.last()?);
    if entries.len() == 1 {
        let suffix = first.0.slice(path.len()..);
        return Some(Work::Leaf { suffix, value: first.1.clone(), reference: None });
    }
    let fork = first.0.common_prefix_length(&last.0);
    assert!(fork < first.0.len(), "keys of a trie are distinct");
    let base = first.0.slice(..fork);
    let mut branch = DirtyBranch::new(base.slice(path.len()..));
    for group in entries.chunk_by(|(a, _), (b, _)| a.get(fork) == b.get(fork)) {
        let nibble = group[0].0.get_unchecked(fork);
        let mut child_path = base;
        child_path.push(nibble);
        let child = build(arena, &child_path, group);
        branch.put(nibble, child);
    }
    arena.push(branch);
    Some(Work::Dirty(arena.len() - 1))
}
