//! Branches and leaves of all tries, in slabs that are addressed by index.
//!
//! A branch consists of a header and a chunk for its children. The chunk holds their references contiguously, so
//! that the RLP of the branch is built by copying, and their links to nodes in memory. Chunks come in a few sizes,
//! and freed chunks are reused. Nodes are not allocated individually.

use super::path::{Key, Path};
use super::value::Value;
use crate::prefetch;

/// The link of a child whose record is not in memory.
pub(super) const COLD: u32 = u32::MAX;

/// Capacity of a chunk in children, by class.
const CLASSES: [usize; 7] = [2, 3, 4, 6, 8, 12, 16];

/// The node at a path of a trie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Empty,
    /// A record that is not in memory.
    Cold,
    Leaf(u32),
    Branch(u32),
}

/// A branch with its prefix, in one cache line. Bit `n` of a mask belongs to the child for nibble `n`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct Branch {
    /// Existing children.
    pub(super) mask: u16,
    /// Children that are leaves.
    pub(super) leaves: u16,
    /// Children whose reference is their RLP, because it is shorter than 32 bytes.
    pub(super) embedded: u16,
    /// Children whose reference is stale.
    pub(super) stale: u16,
    /// Children changed since the last checkpoint.
    pub(super) dirty: u16,
    class: u8,
    chunk: u32,
    /// Index of the path between the slot of the branch and the branch; 0 for the empty path.
    prefix: u32,
    /// Number of the last update that used it.
    pub(super) used: u32,
    /// The checkpoint that must write it, or wrote it; 0 if it has not changed since it was loaded.
    pub(super) epoch: u32,
}

/// Leaf tag: mask of the length of the inline value.
const INLINE: u8 = 0x3f;
/// Leaf tag: the value is stored separately. Its index is in the first four bytes.
const ELSEWHERE: u8 = 0x40;
/// Leaf tag: the value has the suffix of plain accounts.
const PLAIN: u8 = 0x80;
/// Maximum size of a value that is stored inline after its key, in bytes.
const INLINE_BYTES: usize = 31;

/// A leaf, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Leaf {
    key: Key,
    tag: u8,
    bytes: [u8; INLINE_BYTES],
}

#[derive(Debug, Default)]
struct Slab<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    fn add(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.items[index as usize] = item;
                index
            }
            None => {
                self.items.push(item);
                let index = u32::try_from(self.items.len() - 1).ok().filter(|index| *index < COLD);
                index.expect("the cache is bounded far below 2^32 nodes")
            }
        }
    }

    fn live(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

/// Chunks of children of one size class.
#[derive(Debug, Default)]
struct Chunks {
    references: Vec<[u8; 32]>,
    links: Vec<u32>,
    free: Vec<u32>,
}

/// Branches and leaves of all tries.
#[derive(Debug)]
pub(super) struct Arena {
    branches: Slab<Branch>,
    chunks: [Chunks; CLASSES.len()],
    leaves: Slab<Leaf>,
    /// Values too long for their leaf.
    values: Slab<Box<[u8]>>,
    value_bytes: usize,
    /// Item 0 is the empty path.
    prefixes: Slab<Path>,
    /// Size of the chunks in use in bytes.
    chunk_bytes: usize,
}

/// Returns the class of the smallest chunk for this number of children.
fn class_of(children: usize) -> u8 {
    CLASSES.iter().position(|size| *size >= children).expect("a branch has at most 16 children")
        as u8
}

const fn chunk_bytes(class: u8) -> usize {
    CLASSES[class as usize] * (32 + 4)
}

impl Arena {
    pub(super) fn new() -> Self {
        Self {
            branches: Slab { items: Vec::new(), free: Vec::new() },
            chunks: Default::default(),
            leaves: Slab { items: Vec::new(), free: Vec::new() },
            values: Slab { items: Vec::new(), free: Vec::new() },
            value_bytes: 0,
            prefixes: Slab { items: vec![Path::ROOT], free: Vec::new() },
            chunk_bytes: 0,
        }
    }

    /// Returns the number of bytes in use.
    pub(super) fn bytes(&self) -> usize {
        self.branches.live() * size_of::<Branch>()
            + self.leaves.live() * size_of::<Leaf>()
            + self.prefixes.live() * size_of::<Path>()
            + self.values.live() * size_of::<Box<[u8]>>()
            + self.value_bytes
            + self.chunk_bytes
    }

    pub(super) fn branch(&self, index: u32) -> &Branch {
        &self.branches.items[index as usize]
    }

    pub(super) fn branch_mut(&mut self, index: u32) -> &mut Branch {
        &mut self.branches.items[index as usize]
    }

    /// Prefetches a branch, without its children.
    pub(super) fn prefetch_branch(&self, index: u32) {
        prefetch(self.branch(index));
    }

    /// Prefetches the links of a branch.
    pub(super) fn prefetch_links(&self, index: u32) {
        prefetch(self.links(self.branch(index)));
    }

    /// Prefetches the references of a branch.
    pub(super) fn prefetch_references(&self, index: u32) {
        prefetch(self.references(self.branch(index)));
    }

    /// Prefetches a leaf.
    pub(super) fn prefetch_leaf(&self, leaf: u32) {
        prefetch(&self.leaves.items[leaf as usize]);
    }

    /// Prefetches the leaves that are children of a branch.
    pub(super) fn prefetch_leaves(&self, branch: &Branch) {
        for nibble in nibbles(branch.leaves) {
            self.prefetch_leaf(self.links(branch)[position(branch.mask, nibble)]);
        }
    }

    /// Prefetches the given children that are branches, and their links.
    pub(super) fn prefetch_branches(&self, branch: &Branch, children: u16) {
        let below = || {
            let links = self.links(branch);
            nibbles(children & !branch.leaves).map(|nibble| links[position(branch.mask, nibble)])
        };
        below().for_each(|link| self.prefetch_branch(link));
        below().for_each(|link| self.prefetch_links(link));
    }

    pub(super) fn prefix(&self, branch: &Branch) -> &Path {
        &self.prefixes.items[branch.prefix as usize]
    }

    /// Returns the number of nibbles in the prefix of a branch.
    pub(super) fn prefix_len(&self, branch: &Branch) -> usize {
        if branch.prefix == 0 { 0 } else { self.prefix(branch).len() }
    }

    pub(super) fn set_prefix(&mut self, index: u32, prefix: Path) {
        let old = self.branch(index).prefix;
        let new = match (old, prefix.len()) {
            (0, 0) => 0,
            (0, _) => self.prefixes.add(prefix),
            (old, 0) => {
                self.prefixes.free.push(old);
                0
            }
            (old, _) => {
                self.prefixes.items[old as usize] = prefix;
                old
            }
        };
        self.branch_mut(index).prefix = new;
    }

    /// Creates a branch that has no children yet, with capacity for `children`.
    pub(super) fn new_branch(&mut self, prefix: Path, children: usize, used: u32) -> u32 {
        let class = class_of(children.max(2));
        let chunk = self.new_chunk(class);
        let index = self.branches.add(Branch { class, chunk, used, ..Branch::default() });
        self.set_prefix(index, prefix);
        index
    }

    /// Frees a branch, but not its children.
    pub(super) fn free_branch(&mut self, index: u32) {
        self.set_prefix(index, Path::ROOT);
        let Branch { class, chunk, .. } = *self.branch(index);
        self.free_chunk(class, chunk);
        self.branches.free.push(index);
    }

    fn new_chunk(&mut self, class: u8) -> u32 {
        self.chunk_bytes += chunk_bytes(class);
        let size = CLASSES[class as usize];
        let chunks = &mut self.chunks[class as usize];
        chunks.free.pop().unwrap_or_else(|| {
            let chunk = chunks.links.len() / size;
            chunks.links.resize(chunks.links.len() + size, COLD);
            chunks.references.resize(chunks.references.len() + size, [0; 32]);
            u32::try_from(chunk).expect("the cache is bounded far below 2^32 chunks")
        })
    }

    fn free_chunk(&mut self, class: u8, chunk: u32) {
        self.chunk_bytes -= chunk_bytes(class);
        self.chunks[class as usize].free.push(chunk);
    }

    /// Returns the class of a branch's chunk, and the position of its first child among the children of that class.
    fn at(&self, branch: &Branch) -> (usize, usize) {
        let class = branch.class as usize;
        (class, branch.chunk as usize * CLASSES[class])
    }

    /// Returns the references of the existing children, in ascending order of nibbles.
    pub(super) fn references(&self, branch: &Branch) -> &[[u8; 32]] {
        let (class, start) = self.at(branch);
        &self.chunks[class].references[start..start + branch.mask.count_ones() as usize]
    }

    /// Returns the links of the existing children, in ascending order of nibbles.
    pub(super) fn links(&self, branch: &Branch) -> &[u32] {
        let (class, start) = self.at(branch);
        &self.chunks[class].links[start..start + branch.mask.count_ones() as usize]
    }

    pub(super) fn child(&self, index: u32, nibble: u8) -> Slot {
        let branch = self.branch(index);
        let bit = 1u16 << nibble;
        if branch.mask & bit == 0 {
            return Slot::Empty;
        }
        let link = self.links(branch)[position(branch.mask, nibble)];
        if branch.leaves & bit != 0 {
            Slot::Leaf(link)
        } else if link == COLD {
            Slot::Cold
        } else {
            Slot::Branch(link)
        }
    }

    /// Sets or removes a child. Its reference does not change.
    pub(super) fn set_child(&mut self, index: u32, nibble: u8, child: Slot) {
        let bit = 1u16 << nibble;
        let (link, leaf) = match child {
            Slot::Empty => return self.remove_child(index, nibble),
            Slot::Cold => (COLD, false),
            Slot::Leaf(link) => (link, true),
            Slot::Branch(link) => (link, false),
        };
        if self.branch(index).mask & bit == 0 {
            self.insert_gap(index, nibble);
        }
        let branch = self.branch_mut(index);
        branch.leaves = if leaf { branch.leaves | bit } else { branch.leaves & !bit };
        let branch = *branch;
        let (class, start) = self.at(&branch);
        self.chunks[class].links[start + position(branch.mask, nibble)] = link;
    }

    /// Sets the reference of an existing child.
    pub(super) fn set_reference(&mut self, index: u32, nibble: u8, reference: &[u8]) {
        let bit = 1u16 << nibble;
        let branch = self.branch_mut(index);
        let embedded = reference.len() < 32;
        branch.embedded = if embedded { branch.embedded | bit } else { branch.embedded & !bit };
        let branch = *branch;
        let (class, start) = self.at(&branch);
        let stored = &mut self.chunks[class].references[start + position(branch.mask, nibble)];
        match reference.try_into() {
            Ok(hash) => *stored = hash,
            Err(_) => stored[..reference.len()].copy_from_slice(reference),
        }
    }

    fn remove_child(&mut self, index: u32, nibble: u8) {
        let bit = 1u16 << nibble;
        let branch = *self.branch(index);
        if branch.mask & bit == 0 {
            return;
        }
        let (class, start) = self.at(&branch);
        let (at, end) =
            (start + position(branch.mask, nibble), start + branch.mask.count_ones() as usize);
        let chunks = &mut self.chunks[class];
        chunks.links.copy_within(at + 1..end, at);
        chunks.references.copy_within(at + 1..end, at);
        let branch = self.branch_mut(index);
        for mask in [
            &mut branch.mask,
            &mut branch.leaves,
            &mut branch.embedded,
            &mut branch.stale,
            &mut branch.dirty,
        ] {
            *mask &= !bit;
        }
    }

    /// Inserts a gap for a new child. Moves the children to a larger chunk if this one is full.
    fn insert_gap(&mut self, index: u32, nibble: u8) {
        let branch = *self.branch(index);
        let count = branch.mask.count_ones() as usize;
        let (class, start) = self.at(&branch);
        let at = position(branch.mask, nibble);
        if count < CLASSES[class] {
            let chunks = &mut self.chunks[class];
            chunks.links.copy_within(start + at..start + count, start + at + 1);
            chunks.references.copy_within(start + at..start + count, start + at + 1);
        } else {
            let larger = class_of(count + 1);
            let chunk = self.new_chunk(larger);
            let to = chunk as usize * CLASSES[larger as usize];
            for child in 0..count {
                let gap = usize::from(child >= at);
                let reference = self.chunks[class].references[start + child];
                let link = self.chunks[class].links[start + child];
                self.chunks[larger as usize].references[to + child + gap] = reference;
                self.chunks[larger as usize].links[to + child + gap] = link;
            }
            self.free_chunk(class as u8, branch.chunk);
            let branch = self.branch_mut(index);
            (branch.class, branch.chunk) = (larger, chunk);
        }
        self.branch_mut(index).mask |= 1 << nibble;
    }

    pub(super) fn new_leaf(&mut self, key: &Key, value: Value<'_>) -> u32 {
        let leaf = Leaf { key: *key, tag: 0, bytes: [0; INLINE_BYTES] };
        let index = self.leaves.add(leaf);
        self.put_value(index, value);
        index
    }

    pub(super) fn free_leaf(&mut self, index: u32) {
        self.drop_value(index);
        self.leaves.free.push(index);
    }

    pub(super) fn key(&self, leaf: u32) -> &Key {
        &self.leaves.items[leaf as usize].key
    }

    pub(super) fn value(&self, leaf: u32) -> Value<'_> {
        let Leaf { tag, bytes, .. } = &self.leaves.items[leaf as usize];
        let head = match elsewhere(*tag, bytes) {
            Some(index) => &*self.values.items[index as usize],
            None => &bytes[..usize::from(tag & INLINE)],
        };
        Value { head, plain: tag & PLAIN != 0 }
    }

    /// Changes the value of a leaf.
    pub(super) fn set_value(&mut self, leaf: u32, value: Value<'_>) {
        self.drop_value(leaf);
        self.put_value(leaf, value);
    }

    fn put_value(&mut self, leaf: u32, value: Value<'_>) {
        let plain = if value.plain { PLAIN } else { 0 };
        let length = value.head.len();
        let elsewhere = (length > INLINE_BYTES).then(|| {
            self.value_bytes += length;
            self.values.add(value.head.into())
        });
        let leaf = &mut self.leaves.items[leaf as usize];
        match elsewhere {
            Some(index) => {
                leaf.tag = ELSEWHERE | plain;
                leaf.bytes[..4].copy_from_slice(&index.to_le_bytes());
            }
            None => {
                leaf.tag = length as u8 | plain;
                leaf.bytes[..length].copy_from_slice(value.head);
            }
        }
    }

    fn drop_value(&mut self, leaf: u32) {
        let leaf = &self.leaves.items[leaf as usize];
        if let Some(index) = elsewhere(leaf.tag, &leaf.bytes) {
            let value = std::mem::take(&mut self.values.items[index as usize]);
            self.value_bytes -= value.len();
            self.values.free.push(index);
        }
    }
}

/// Returns the index of a value that is stored separately.
fn elsewhere(tag: u8, bytes: &[u8; INLINE_BYTES]) -> Option<u32> {
    let number = [bytes[0], bytes[1], bytes[2], bytes[3]];
    (tag & ELSEWHERE != 0).then(|| u32::from_le_bytes(number))
}

/// Returns the position of `nibble` among the children of a mask.
pub(super) const fn position(mask: u16, nibble: u8) -> usize {
    (mask & ((1u16 << nibble) - 1)).count_ones() as usize
}

/// Returns the nibbles that are set in a mask, in ascending order.
pub(super) fn nibbles(mut mask: u16) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let nibble = (mask != 0).then(|| mask.trailing_zeros() as u8)?;
        mask &= mask - 1;
        Some(nibble)
    })
}
