//! Hashes touched branches level by level, deepest first, with one batch per level for all tries of
//! a block.

use alloy_primitives::{B256, Bytes};
use alloy_trie::nodes::RlpNode;

use super::dirty::{Arena, DirtyBranch, Slot, Work};
use super::node::{child_nibbles, encode_branch, encode_extension, encode_leaf, root_hash_of};
use super::{Branch, Child, EMPTY_ROOT_HASH, Leaf, Nibbles, Node};

/// Number of levels of branches and extensions: paths have 0 to 64 nibbles.
const LEVELS: usize = 65;

/// The RLP of nodes whose references are to be computed.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Batch {
    fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        encode(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Returns the references in the order of insertion, and empties the batch.
    fn take_references(&mut self) -> Vec<RlpNode> {
        let mut start = 0;
        let mut messages = Vec::with_capacity(self.ends.len());
        for &end in &self.ends {
            messages.push(&self.bytes[start..end]);
            start = end;
        }
        let long: Vec<&[u8]> = messages.iter().copied().filter(|rlp| rlp.len() >= 32).collect();
        let mut hashes = vec![[0; 32]; long.len()];
        verify::keccak256_batch(&long, &mut hashes);
        let mut hashes = hashes.into_iter();
        let references = messages.iter().map(|rlp| {
            // The reference to a node whose RLP is shorter than a hash is the RLP itself.
            RlpNode::from_raw(rlp).filter(|_| rlp.len() < 32).unwrap_or_else(|| {
                let hash = hashes.next().expect("one hash per long message");
                RlpNode::word_rlp(&B256::new(hash))
            })
        });
        let references = references.collect();
        self.bytes.clear();
        self.ends.clear();
        references
    }
}

/// A node to be hashed at its level.
#[derive(Clone, Copy)]
enum Task {
    Branch(usize),
    Extension(usize),
}

/// The tasks found by walking the touched part of the tries.
struct Plan {
    /// Tasks by depth.
    levels: Vec<Vec<Task>>,
    /// New or moved leaves: branch and index of the child.
    leaves: Vec<(usize, usize)>,
    /// Touched branches: trie, path, and index in the arena.
    branches: Vec<(usize, Nibbles, usize)>,
}

impl Plan {
    fn walk(&mut self, arena: &Arena, trie: usize, path: Nibbles, index: usize) {
        let branch = &arena[index];
        let base = path.join(&branch.prefix);
        self.branches.push((trie, path, index));
        self.levels[base.len()].push(Task::Branch(index));
        if !branch.prefix.is_empty() {
            self.levels[path.len()].push(Task::Extension(index));
        }
        for (at, (nibble, child)) in child_nibbles(branch.mask).zip(&branch.children).enumerate() {
            match child {
                Work::Leaf { reference: None, .. } => self.leaves.push((index, at)),
                Work::Leaf { .. } | Work::Clean(_) => {}
                Work::Dirty(child) => {
                    let mut child_path = base;
                    child_path.push(nibble);
                    self.walk(arena, trie, child_path, *child);
                }
            }
        }
    }
}

/// A trie after hashing.
#[derive(Debug)]
pub(super) struct Hashed {
    /// Root hash.
    pub(super) root: B256,
    /// Records to write, with their paths.
    pub(super) written: Vec<(Nibbles, Node)>,
    /// Whether the root was not touched and its record therefore does not change.
    pub(super) root_untouched: bool,
}

/// Hashes the touched nodes of these tries, and creates the records to write.
pub(super) fn hash_tries(arena: &mut Arena, roots: Vec<Slot>) -> Vec<Hashed> {
    let mut plan =
        Plan { levels: vec![Vec::new(); LEVELS], leaves: Vec::new(), branches: Vec::new() };
    for (trie, root) in roots.iter().enumerate() {
        if let Some(Work::Dirty(index)) = root {
            plan.walk(arena, trie, Nibbles::new(), *index);
        }
    }
    hash_leaves(arena, &plan.leaves);
    hash_levels(arena, &plan.levels);
    let mut hashed: Vec<Hashed> = roots.into_iter().map(|root| hash_root(arena, root)).collect();
    for (trie, path, index) in plan.branches {
        let node = Node::Branch(record(arena, index));
        hashed[trie].written.push((path, node));
    }
    hashed
}

fn hash_leaves(arena: &mut Arena, leaves: &[(usize, usize)]) {
    let mut batch = Batch::default();
    for &(index, at) in leaves {
        if let Work::Leaf { suffix, value, .. } = &arena[index].children[at] {
            batch.push(|out| encode_leaf(out, suffix, value));
        }
    }
    for (&(index, at), hashed) in leaves.iter().zip(batch.take_references()) {
        if let Work::Leaf { reference, .. } = &mut arena[index].children[at] {
            *reference = Some(hashed);
        }
    }
}

fn hash_levels(arena: &mut Arena, levels: &[Vec<Task>]) {
    let mut batch = Batch::default();
    let mut references = Vec::with_capacity(16);
    for level in levels.iter().rev() {
        for task in level {
            match *task {
                Task::Branch(index) => {
                    let branch = &arena[index];
                    references.clear();
                    references.extend(branch.children.iter().map(|child| reference(arena, child)));
                    batch.push(|out| encode_branch(out, branch.mask, &references));
                }
                Task::Extension(index) => {
                    let DirtyBranch { prefix, branch_reference, .. } = &arena[index];
                    batch.push(|out| encode_extension(out, prefix, branch_reference));
                }
            }
        }
        for (task, hashed) in level.iter().zip(batch.take_references()) {
            match *task {
                Task::Branch(index) => {
                    arena[index].branch_reference = hashed.clone();
                    arena[index].reference = hashed;
                }
                Task::Extension(index) => arena[index].reference = hashed,
            }
        }
    }
}

/// Returns the reference to a child, whose descendants must have been hashed.
fn reference(arena: &Arena, child: &Work) -> RlpNode {
    match child {
        Work::Clean(reference) => reference.clone(),
        Work::Leaf { reference, .. } => reference.clone().expect("leaves are hashed first"),
        Work::Dirty(index) => arena[*index].reference.clone(),
    }
}

fn hash_root(arena: &Arena, root: Slot) -> Hashed {
    let (root, written, root_untouched) = match root {
        None => (EMPTY_ROOT_HASH, Vec::new(), false),
        Some(Work::Clean(reference)) => (root_hash_of(&reference), Vec::new(), true),
        Some(Work::Dirty(index)) => (root_hash_of(&arena[index].reference), Vec::new(), false),
        Some(Work::Leaf { reference: Some(reference), .. }) => {
            (root_hash_of(&reference), Vec::new(), true)
        }
        Some(Work::Leaf { suffix, value, reference: None }) => {
            let leaf = root_leaf(suffix, value);
            let root = root_hash_of(&leaf.reference);
            (root, vec![(Nibbles::new(), Node::Leaf(leaf))], false)
        }
    };
    Hashed { root, written, root_untouched }
}

fn root_leaf(suffix: Nibbles, value: Bytes) -> Leaf {
    let mut rlp = Vec::new();
    encode_leaf(&mut rlp, &suffix, &value);
    Leaf { suffix, value, reference: super::node::reference_of(&rlp) }
}

fn record(arena: &mut Arena, index: usize) -> Branch {
    let children = std::mem::take(&mut arena[index].children);
    let children = children.into_iter().map(|child| match child {
        Work::Leaf { suffix, value, reference } => {
            let reference = reference.expect("leaves are hashed first");
            Child::Leaf(Leaf { suffix, value, reference })
        }
        other => Child::Node(reference(arena, &other)),
    });
    let children = children.collect();
    let DirtyBranch { prefix, mask, .. } = arena[index];
    Branch { prefix, mask, children }
}
