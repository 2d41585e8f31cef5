//! The part of a trie that has been touched while changes are applied.
//!
//! Touched branches are in an arena that all tries of a block share, so that they can be hashed together, level
//! by level. Records are loaded when they are first touched. The set of loaded records is tracked, because
//! those that are not written again must be removed.

use alloy_primitives::map::HashSet;
use alloy_primitives::{B256, Bytes};
use alloy_trie::nodes::RlpNode;

use super::node::child_index;
use super::walk::load;
use super::{Branch, Child, EMPTY_ROOT_HASH, Leaf, Nibbles, Node, NodeRead, TrieError};

/// One change of a trie: the key, and the new value or `None` for a removal.
pub(super) type Change = (Nibbles, Option<Bytes>);

/// A subtrie while changes are applied; `None` if it is empty.
pub(super) type Slot = Option<Work>;

/// The node at a path of a trie.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// An untouched record, represented by its reference.
    Clean(RlpNode),
    /// A leaf. It has no reference if it is new, changed or moved.
    Leaf { suffix: Nibbles, value: Bytes, reference: Option<RlpNode> },
    /// A touched branch, represented by its index in the arena.
    Dirty(usize),
}

/// A touched branch.
#[derive(Clone, Debug)]
pub(super) struct DirtyBranch {
    pub(super) prefix: Nibbles,
    pub(super) mask: u16,
    pub(super) children: Vec<Work>,
    /// Reference to the record that the branch was read from; `None` once the branch has changed.
    clean: Option<RlpNode>,
    /// Reference of the branch node alone; empty until hashed.
    pub(super) branch_reference: RlpNode,
    /// Reference of the extension before it, or of the branch if there is none; empty until hashed.
    pub(super) reference: RlpNode,
}

impl DirtyBranch {
    fn new(prefix: Nibbles) -> Self {
        Self {
            prefix,
            mask: 0,
            children: Vec::new(),
            clean: None,
            branch_reference: RlpNode::default(),
            reference: RlpNode::default(),
        }
    }

    /// Takes a child out temporarily. [`Self::put`] must follow.
    fn take(&mut self, nibble: u8) -> Slot {
        let index = child_index(self.mask, nibble)?;
        Some(std::mem::replace(&mut self.children[index], Work::Clean(RlpNode::default())))
    }

    /// Sets or removes a child.
    fn put(&mut self, nibble: u8, child: Slot) {
        match (child_index(self.mask, nibble), child) {
            (Some(index), Some(child)) => self.children[index] = child,
            (Some(index), None) => {
                self.mask &= !(1 << nibble);
                self.children.remove(index);
            }
            (None, Some(child)) => {
                let below = self.mask & ((1u16 << nibble) - 1);
                self.mask |= 1 << nibble;
                self.children.insert(below.count_ones() as usize, child);
            }
            (None, None) => {}
        }
    }

    /// Creates a branch from its record; `clean` is the reference to that record.
    fn read(branch: &Branch, clean: RlpNode) -> Self {
        let children = branch.children.iter().map(|child| match child {
            Child::Node(reference) => Work::Clean(reference.clone()),
            Child::Leaf(leaf) => Work::from(leaf),
        });
        let children = children.collect();
        Self { mask: branch.mask, children, clean: Some(clean), ..Self::new(branch.prefix) }
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

/// A trie to which changes are applied.
#[derive(Debug)]
pub(super) struct DirtyTrie<'a, N> {
    nodes: &'a N,
    owner: Option<B256>,
    /// Paths of loaded records that have changed or may still change.
    pub(super) loaded: HashSet<Nibbles>,
}

impl<'a, N: NodeRead> DirtyTrie<'a, N> {
    pub(super) fn new(nodes: &'a N, owner: Option<B256>) -> Self {
        Self { nodes, owner, loaded: HashSet::default() }
    }

    /// Returns the trie with this root hash.
    pub(super) fn root(root: B256) -> Slot {
        (root != EMPTY_ROOT_HASH).then(|| Work::Clean(RlpNode::word_rlp(&root)))
    }

    /// Applies changes to the node at `path`. The keys must be ascending and below `path`.
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
                let work = self.load_into(arena, &path, reference)?;
                self.apply(arena, Some(work), path, changes)
            }
            Some(Work::Dirty(index)) => self.apply_to_branch(arena, index, path, changes),
        }
    }

    /// Loads the records on the paths to `keys`, which must be ascending and below `path`, so that later changes
    /// to these keys load at most the siblings of removed nodes. Passes existing keys and values to `found`.
    pub(super) fn touch(
        &mut self,
        arena: &mut Arena,
        slot: Slot,
        path: Nibbles,
        keys: &[Nibbles],
        found: &mut impl FnMut(&Nibbles, &Bytes),
    ) -> Result<Slot, TrieError<N::Error>> {
        let index = match slot {
            Some(Work::Clean(reference)) => {
                let work = self.load_into(arena, &path, reference)?;
                return self.touch(arena, Some(work), path, keys, found);
            }
            Some(Work::Leaf { suffix, value, reference }) => {
                let key = path.join(&suffix);
                if keys.binary_search(&key).is_ok() {
                    found(&key, &value);
                }
                return Ok(Some(Work::Leaf { suffix, value, reference }));
            }
            Some(Work::Dirty(index)) => index,
            None => return Ok(None),
        };
        let base = path.join(&arena[index].prefix);
        for group in keys.chunk_by(|a, b| below(a, &base) == below(b, &base)) {
            let Some(nibble) = below(&group[0], &base) else { continue };
            let mut child_path = base;
            child_path.push(nibble);
            let child = arena[index].take(nibble);
            let child = self.touch(arena, child, child_path, group, found)?;
            arena[index].put(nibble, child);
        }
        Ok(Some(Work::Dirty(index)))
    }

    /// Loads the record at `path` into the arena.
    fn load_into(
        &mut self,
        arena: &mut Arena,
        path: &Nibbles,
        reference: RlpNode,
    ) -> Result<Work, TrieError<N::Error>> {
        let node = load(self.nodes, self.owner, path)?;
        self.loaded.insert(*path);
        Ok(match &*node {
            Node::Leaf(leaf) => leaf.into(),
            Node::Branch(branch) => {
                arena.push(DirtyBranch::read(branch, reference));
                Work::Dirty(arena.len() - 1)
            }
        })
    }

    fn apply_to_branch(
        &mut self,
        arena: &mut Arena,
        index: usize,
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
            return self.apply_to_children(arena, index, path, changes);
        };
        // The key diverges within the prefix: a new branch at this position has the old one as a child.
        arena[index].prefix = base.slice(fork + 1..);
        arena[index].clean = None;
        let mut branch = DirtyBranch::new(base.slice(path.len()..fork));
        branch.put(base.get_unchecked(fork), Some(Work::Dirty(index)));
        arena.push(branch);
        self.apply_to_children(arena, arena.len() - 1, path, changes)
    }

    fn apply_to_children(
        &mut self,
        arena: &mut Arena,
        index: usize,
        path: Nibbles,
        changes: &[Change],
    ) -> Result<Slot, TrieError<N::Error>> {
        let base = path.join(&arena[index].prefix);
        let mut changed = false;
        for group in changes.chunk_by(|(a, _), (b, _)| below(a, &base) == below(b, &base)) {
            // Only removals may have keys outside the branch, and they have no effect.
            let Some(nibble) = below(&group[0].0, &base) else { continue };
            let mut child_path = base;
            child_path.push(nibble);
            let before = arena[index].take(nibble);
            let was = Kind::of(arena, &before);
            let after = self.apply(arena, before, child_path, group)?;
            changed |= was != Kind::of(arena, &after);
            arena[index].put(nibble, after);
        }
        if changed {
            arena[index].clean = None;
        } else if let Some(reference) = arena[index].clean.take() {
            self.loaded.remove(&path);
            return Ok(Some(Work::Clean(reference)));
        }
        match arena[index].mask.count_ones() {
            0 => Ok(None),
            1 => self.collapse(arena, index, path).map(Some),
            _ => Ok(Some(Work::Dirty(index))),
        }
    }

    /// Replaces a branch that has one remaining child with that child, whose prefix or suffix grows.
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
        let child = match child {
            Work::Clean(reference) => self.load_into(arena, &path.join(&joined), reference)?,
            child => child,
        };
        match child {
            Work::Leaf { suffix, value, .. } => {
                Ok(Work::Leaf { suffix: joined.join(&suffix), value, reference: None })
            }
            Work::Dirty(child) => {
                arena[child].prefix = joined.join(&arena[child].prefix);
                arena[child].clean = None;
                Ok(Work::Dirty(child))
            }
            Work::Clean(_) => unreachable!("a loaded record is not clean"),
        }
    }
}

/// The kind of a slot, without its content. Nothing below a clean branch has changed yet, so any change to one of
/// its slots also changes the kind of that slot.
#[derive(PartialEq, Eq)]
enum Kind {
    Empty,
    Clean,
    Leaf,
    Dirty,
}

impl Kind {
    fn of(arena: &Arena, slot: &Slot) -> Self {
        match slot {
            None => Self::Empty,
            Some(Work::Clean(_)) => Self::Clean,
            Some(Work::Dirty(index)) if arena[*index].clean.is_some() => Self::Clean,
            Some(Work::Leaf { reference: Some(_), .. }) => Self::Leaf,
            Some(Work::Leaf { reference: None, .. } | Work::Dirty(_)) => Self::Dirty,
        }
    }
}

/// Returns the nibble of `key` that follows `base` (the path of a branch), or `None` if the key is not below it.
fn below(key: &Nibbles, base: &Nibbles) -> Option<u8> {
    (key.starts_with(base) && key.len() > base.len()).then(|| key.get_unchecked(base.len()))
}

/// An entry of a new subtrie.
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

/// Builds the subtrie at `path` from these entries, which must be in ascending order of keys.
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
