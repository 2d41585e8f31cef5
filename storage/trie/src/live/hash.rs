//! Hashes marked nodes level by level, deepest first, eight messages at a time, for all given tries at once.

use std::ops::Range;

use alloy_primitives::B256;

use super::arena::{Arena, Slot, nibbles, position};
use super::path::{Key, nibble};
use super::rlp::{put_branch, put_extension, put_leaf};
use crate::EMPTY_ROOT_HASH;

/// Number of levels of branches: a branch is 0 to 63 nibbles below the root.
const LEVELS: usize = 64;
/// Number of messages that are encoded before they are hashed. That many leaves fit into the L1 cache.
const CHUNK: usize = 256;

/// Number of tasks between the prefetch for a task and its execution.
const AHEAD: usize = 8;

/// Destination of a reference: a child of a branch, or a root.
#[derive(Clone, Copy, Debug)]
enum Parent {
    Branch { index: u32, nibble: u8 },
    Root(u32),
}

#[derive(Clone, Copy, Debug)]
struct LeafTask {
    leaf: u32,
    depth: u8,
    parent: Parent,
}

#[derive(Clone, Copy, Debug)]
struct BranchTask {
    branch: u32,
    parent: Parent,
}

/// The RLP of nodes, concatenated.
#[derive(Debug, Default)]
struct Messages {
    bytes: Vec<u8>,
    spans: Vec<Range<usize>>,
    hashes: Vec<[u8; 32]>,
}

impl Messages {
    fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
    }

    fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        encode(&mut self.bytes);
        self.spans.push(start..self.bytes.len());
    }

    fn hash(&mut self) {
        self.hashes.resize(self.spans.len(), [0; 32]);
        verify::keccak256_spans(&self.bytes, &self.spans, &mut self.hashes);
    }

    /// Returns the reference to message `at`: its hash, or the message itself if it is shorter.
    fn reference(&self, at: usize) -> &[u8] {
        let span = &self.spans[at];
        if span.len() < 32 { &self.bytes[span.clone()] } else { &self.hashes[at] }
    }
}

/// Buffers that are reused for all blocks.
#[derive(Debug)]
pub(super) struct Hash {
    leaves: Vec<LeafTask>,
    levels: Vec<Vec<BranchTask>>,
    messages: Messages,
    extensions: Messages,
    extended: Vec<usize>,
    roots: Vec<B256>,
    /// Number of hashed branches that equalled their records before the change.
    newly_dirty: usize,
}

impl Hash {
    pub(super) fn new() -> Self {
        Self {
            leaves: Vec::new(),
            levels: vec![Vec::new(); LEVELS],
            messages: Messages::default(),
            extensions: Messages::default(),
            extended: Vec::new(),
            roots: Vec::new(),
            newly_dirty: 0,
        }
    }

    /// Hashes the marked nodes and returns the root hashes of these tries. The hashed branches then belong to
    /// checkpoint `epoch`.
    pub(super) fn run(&mut self, arena: &mut Arena, roots: &[Slot], epoch: u32) -> &[B256] {
        self.roots.clear();
        self.roots.resize(roots.len(), EMPTY_ROOT_HASH);
        for (at, root) in roots.iter().enumerate() {
            let parent = Parent::Root(at as u32);
            match *root {
                Slot::Empty => {}
                Slot::Leaf(leaf) => self.leaves.push(LeafTask { leaf, depth: 0, parent }),
                Slot::Branch(branch) => self.walk(arena, branch, 0, parent, epoch),
                Slot::Cold => unreachable!("a trie that changed is in memory"),
            }
        }
        self.hash_marked(arena);
        &self.roots
    }

    /// Hashes the marked nodes on the paths to these keys, from two branches below the root downwards. These
    /// nodes must not change again in this update.
    pub(super) fn ahead(&mut self, arena: &mut Arena, root: Slot, keys: &[Key], epoch: u32) {
        for group in keys.chunk_by(|a, b| a[0] == b[0]) {
            let [first, second] = [0, 1].map(|at| nibble(&group[0], at));
            // If there are prefixes near the root, the trie is small, and nothing is hashed ahead.
            if let Some(root) = plain_branch(arena, root)
                && let Some(above) = plain_branch(arena, arena.child(root, first))
                && let Slot::Branch(below) = arena.child(above, second)
            {
                let bit = 1 << second;
                let branch = arena.branch_mut(above);
                if branch.stale & bit == 0 {
                    continue;
                }
                branch.stale &= !bit;
                branch.dirty |= bit;
                let parent = Parent::Branch { index: above, nibble: second };
                self.walk(arena, below, 2, parent, epoch);
            }
        }
        self.hash_marked(arena);
    }

    /// Returns the number of branches that equalled their records before they were hashed, since the last call.
    pub(super) const fn take_newly_dirty(&mut self) -> usize {
        std::mem::replace(&mut self.newly_dirty, 0)
    }

    /// Hashes the collected tasks.
    fn hash_marked(&mut self, arena: &mut Arena) {
        self.hash_leaves(arena);
        for level in (0..LEVELS).rev() {
            self.hash_level(arena, level);
        }
    }

    /// Collects the tasks below a branch, and clears the marks.
    fn walk(&mut self, arena: &mut Arena, index: u32, depth: usize, parent: Parent, epoch: u32) {
        let branch = arena.branch_mut(index);
        self.newly_dirty += usize::from(branch.epoch != epoch);
        branch.epoch = epoch;
        let stale = std::mem::take(&mut branch.stale);
        branch.dirty |= stale;
        let branch = *branch;
        let base = depth + arena.prefix_len(&branch);
        self.levels[base].push(BranchTask { branch: index, parent });
        arena.prefetch_branches(&branch, stale);
        for nibble in nibbles(stale) {
            let link = arena.links(&branch)[position(branch.mask, nibble)];
            let parent = Parent::Branch { index, nibble };
            if branch.leaves & (1 << nibble) != 0 {
                self.leaves.push(LeafTask { leaf: link, depth: (base + 1) as u8, parent });
            } else {
                self.walk(arena, link, base + 1, parent, epoch);
            }
        }
    }

    fn hash_leaves(&mut self, arena: &mut Arena) {
        let tasks = std::mem::take(&mut self.leaves);
        for chunk in tasks.chunks(CHUNK) {
            self.messages.clear();
            for (at, task) in chunk.iter().enumerate() {
                if let Some(ahead) = chunk.get(at + AHEAD) {
                    arena.prefetch_leaf(ahead.leaf);
                }
                let (key, value) = (arena.key(task.leaf), arena.value(task.leaf));
                self.messages.push(|out| put_leaf(out, key, usize::from(task.depth), value));
            }
            self.messages.hash();
            for (at, task) in chunk.iter().enumerate() {
                set_reference(arena, &mut self.roots, task.parent, self.messages.reference(at));
            }
        }
        self.leaves = tasks;
        self.leaves.clear();
    }

    fn hash_level(&mut self, arena: &mut Arena, level: usize) {
        let tasks = std::mem::take(&mut self.levels[level]);
        for chunk in tasks.chunks(CHUNK) {
            self.messages.clear();
            for (at, task) in chunk.iter().enumerate() {
                if let Some(ahead) = chunk.get(at + 2 * AHEAD) {
                    arena.prefetch_branch(ahead.branch);
                }
                if let Some(ahead) = chunk.get(at + AHEAD) {
                    arena.prefetch_references(ahead.branch);
                }
                let branch = arena.branch(task.branch);
                let references = arena.references(branch);
                self.messages.push(|out| put_branch(out, branch.mask, branch.embedded, references));
            }
            self.messages.hash();
            self.hash_extensions(arena, chunk);
            let mut extended = self.extended.iter().enumerate().peekable();
            for (at, task) in chunk.iter().enumerate() {
                let reference = match extended.next_if(|(_, of)| **of == at) {
                    Some((extension, _)) => self.extensions.reference(extension),
                    None => self.messages.reference(at),
                };
                set_reference(arena, &mut self.roots, task.parent, reference);
            }
        }
        self.levels[level] = tasks;
        self.levels[level].clear();
    }

    /// Hashes the extension nodes before the branches of a chunk.
    fn hash_extensions(&mut self, arena: &Arena, chunk: &[BranchTask]) {
        self.extensions.clear();
        self.extended.clear();
        for (at, task) in chunk.iter().enumerate() {
            let branch = arena.branch(task.branch);
            if arena.prefix_len(branch) > 0 {
                let reference = self.messages.reference(at);
                self.extensions.push(|out| put_extension(out, arena.prefix(branch), reference));
                self.extended.push(at);
            }
        }
        self.extensions.hash();
    }
}

/// Returns the branch at a slot, if it is a branch without a prefix.
fn plain_branch(arena: &Arena, slot: Slot) -> Option<u32> {
    let Slot::Branch(index) = slot else { return None };
    (arena.prefix_len(arena.branch(index)) == 0).then_some(index)
}

/// Stores a reference in the parent. The reference of a root is always its hash.
fn set_reference(arena: &mut Arena, roots: &mut [B256], parent: Parent, reference: &[u8]) {
    match parent {
        Parent::Branch { index, nibble } => arena.set_reference(index, nibble, reference),
        Parent::Root(root) => {
            roots[root as usize] = match reference.try_into() {
                Ok(hash) => B256::new(hash),
                Err(_) => verify::keccak256(reference).into(),
            };
        }
    }
}
