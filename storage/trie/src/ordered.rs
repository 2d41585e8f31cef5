//! Computes the root of the trie of a block's list, hashing eight messages at a time.
//!
//! The keys are the RLP of 0, 1, 2, ...: their order and the shape of the trie depend only on the number of
//! items. Therefore, leaves are hashed in batches directly after they are encoded, followed by the branches,
//! level by level.

use alloy_primitives::B256;
use alloy_rlp::{BufMut, Header};

use super::EMPTY_ROOT_HASH;
use super::live::put_branch;
use crate::prefetch;

/// Number of leaves that are encoded before they are hashed.
const CHUNK: usize = 128;
/// Bytes reserved before an item for its leaf: list header (at most 9 bytes), path (at most 7) and string header
/// (at most 9).
const LEAF_HEAD: usize = 25;
/// Number of items between the prefetch of an item and its encoding.
const ITEMS_AHEAD: usize = 8;
/// Number of nibbles in [`Entry::key`]. The depth of every branch is lower.
const LEVELS: usize = 16;
/// Marks a node without a parent branch: a leaf or a branch that is the root.
const ROOT: u32 = u32::MAX;

/// Returns the root of the trie of a block's list (transactions, receipts, withdrawals), in which the key of
/// `items[i]` is the RLP of `i`.
pub fn ordered_root(items: &[impl AsRef<[u8]>]) -> B256 {
    ordered_root_with(items.len(), |index, out| {
        if let Some(ahead) = items.get(index + ITEMS_AHEAD) {
            prefetch(ahead.as_ref());
        }
        out.extend_from_slice(items[index].as_ref());
    })
}

/// Does the same as [`ordered_root`] for `count` items. `encode` appends an item, and is called once per item,
/// in an unspecified order.
pub fn ordered_root_with(count: usize, mut encode: impl FnMut(usize, &mut Vec<u8>)) -> B256 {
    if count == 0 {
        return EMPTY_ROOT_HASH;
    }
    let keys: Vec<Entry> = in_key_order(count).map(Entry::new).collect();
    let mut shape = Shape { branches: Vec::new(), leaves: Vec::with_capacity(count) };
    shape.build(&keys, 0, ROOT);
    let mut root = EMPTY_ROOT_HASH;
    shape.hash_leaves(&mut encode, &mut root);
    shape.hash_branches(&mut root);
    root
}

/// Returns 0 to `count - 1` in the order of their RLP: numbers below 128 are one byte, except for 0, which is
/// `0x80`.
fn in_key_order(count: usize) -> impl Iterator<Item = usize> {
    let bytes = 1..count.min(128);
    bytes.chain(std::iter::once(0)).chain(128..count.max(128))
}

/// An item and its key.
#[derive(Clone, Copy, Debug)]
struct Entry {
    item: u32,
    /// The RLP of the item's index, left-aligned; no key is a prefix of another.
    key: u64,
    nibbles: u8,
}

impl Entry {
    fn new(item: usize) -> Self {
        let index = u32::try_from(item).expect("a list has fewer than 2^32 items");
        let bytes = u64::from(index.checked_ilog2().map_or(0, |bits| bits / 8 + 1));
        let (key, length) = match index {
            0 => (0x80, 1),
            1..128 => (u64::from(index), 1),
            _ => (((0x80 + bytes) << (8 * bytes)) | u64::from(index), 1 + bytes),
        };
        Self { item: index, key: key << (64 - 8 * length), nibbles: 2 * length as u8 }
    }

    const fn nibble(&self, at: u32) -> u8 {
        (self.key >> (60 - 4 * at)) as u8 & 0x0f
    }
}

/// Destination of a reference.
#[derive(Clone, Copy, Debug)]
struct Parent {
    /// [`ROOT`] if there is none.
    branch: u32,
    nibble: u8,
}

#[derive(Clone, Copy, Debug)]
struct Leaf {
    entry: Entry,
    depth: u32,
    parent: Parent,
}

#[derive(Debug)]
struct Branch {
    parent: Parent,
    /// Depth in nibbles, including the extension.
    base: u32,
    /// Number of nibbles of the extension before it.
    extension: u32,
    /// Any key below the branch; it contains the nibbles of the extension.
    key: u64,
    mask: u16,
    embedded: u16,
    /// One for each child, in ascending order of nibbles.
    references: Vec<[u8; 32]>,
}

/// The trie.
#[derive(Debug)]
struct Shape {
    branches: Vec<Branch>,
    leaves: Vec<Leaf>,
}

impl Shape {
    /// Adds the subtrie of these entries at depth `depth` in nibbles, below the branch `above`. The entries must be
    /// in ascending order of keys.
    fn build(&mut self, entries: &[Entry], depth: u32, above: u32) {
        let (first, last) = (entries[0], entries[entries.len() - 1]);
        let nibble = if depth == 0 { 0 } else { first.nibble(depth - 1) };
        let parent = Parent { branch: above, nibble };
        if entries.len() == 1 {
            self.leaves.push(Leaf { entry: first, depth, parent });
            return;
        }
        let base = (first.key ^ last.key).leading_zeros() / 4;
        let groups = || entries.chunk_by(|a, b| a.nibble(base) == b.nibble(base));
        let mask = groups().fold(0, |mask, group| mask | 1u16 << group[0].nibble(base));
        let index = self.branches.len() as u32;
        self.branches.push(Branch {
            parent,
            base,
            extension: base - depth,
            key: first.key,
            mask,
            embedded: 0,
            references: vec![[0; 32]; mask.count_ones() as usize],
        });
        for group in groups() {
            self.build(group, base + 1, index);
        }
    }

    fn hash_leaves(&mut self, encode: &mut impl FnMut(usize, &mut Vec<u8>), root: &mut B256) {
        let leaves = std::mem::take(&mut self.leaves);
        let (mut bytes, mut spans, mut hashes) = (Vec::new(), Vec::new(), vec![[0; 32]; CHUNK]);
        for chunk in leaves.chunks(CHUNK) {
            bytes.clear();
            spans.clear();
            for leaf in chunk {
                let start = bytes.len() + LEAF_HEAD;
                bytes.resize(start, 0);
                encode(leaf.entry.item as usize, &mut bytes);
                let (head, length) = leaf_head(leaf, &bytes[start..]);
                bytes[start - length..start].copy_from_slice(&head[..length]);
                spans.push(start - length..bytes.len());
            }
            verify::keccak256_spans(&bytes, &spans, &mut hashes[..chunk.len()]);
            for ((leaf, span), hash) in chunk.iter().zip(&spans).zip(&hashes) {
                self.set_reference(leaf.parent, &bytes[span.clone()], hash, root);
            }
        }
    }

    fn hash_branches(&mut self, root: &mut B256) {
        let mut levels = vec![Vec::new(); LEVELS];
        for (index, branch) in self.branches.iter().enumerate() {
            levels[branch.base as usize].push(index);
        }
        let (mut bytes, mut spans, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
        for level in levels.iter().rev() {
            bytes.clear();
            spans.clear();
            for &index in level {
                let Branch { mask, embedded, references, .. } = &self.branches[index];
                let start = bytes.len();
                put_branch(&mut bytes, *mask, *embedded, references);
                spans.push(start..bytes.len());
            }
            hashes.resize(spans.len(), [0; 32]);
            verify::keccak256_spans(&bytes, &spans, &mut hashes);
            for ((&index, span), hash) in level.iter().zip(&spans).zip(&hashes) {
                let branch = &self.branches[index];
                let parent = branch.parent;
                if branch.extension == 0 {
                    self.set_reference(parent, &bytes[span.clone()], hash, root);
                    continue;
                }
                // A list has too few extensions to fill a batch.
                let rlp = extension(branch, &bytes[span.clone()], hash);
                let hash = verify::keccak256(&rlp);
                self.set_reference(parent, &rlp, &hash, root);
            }
        }
    }

    /// Stores a node in its parent: its hash, or the RLP of the node if it is shorter.
    fn set_reference(&mut self, parent: Parent, rlp: &[u8], hash: &[u8; 32], root: &mut B256) {
        let Some(branch) = self.branches.get_mut(parent.branch as usize) else {
            *root = B256::new(*hash);
            return;
        };
        let bit = 1u16 << parent.nibble;
        let at = (branch.mask & (bit - 1)).count_ones() as usize;
        if rlp.len() < 32 {
            branch.embedded |= bit;
            branch.references[at][..rlp.len()].copy_from_slice(rlp);
        } else {
            branch.references[at] = *hash;
        }
    }
}

/// Returns the part of a leaf's RLP that precedes the item, and the length of that part.
fn leaf_head(leaf: &Leaf, item: &[u8]) -> ([u8; LEAF_HEAD], usize) {
    let (from, to) = (leaf.depth, u32::from(leaf.entry.nibbles));
    // A single byte below 128 is its own RLP.
    let string = (!matches!(item, [byte] if *byte < 0x80))
        .then_some(Header { list: false, payload_length: item.len() });
    let string_length = string.as_ref().map_or(0, Header::length);
    let payload_length = path_length(from, to) + string_length + item.len();
    let mut head = [0; LEAF_HEAD];
    let mut rest = head.as_mut_slice();
    Header { list: true, payload_length }.encode(&mut rest);
    put_path(&mut rest, 0x20, leaf.entry.key, from, to);
    if let Some(string) = string {
        string.encode(&mut rest);
    }
    let length = LEAF_HEAD - rest.len();
    (head, length)
}

/// Returns the RLP of the extension node before a branch.
fn extension(branch: &Branch, rlp: &[u8], hash: &[u8; 32]) -> Vec<u8> {
    let mut inner = Vec::new();
    put_path(&mut inner, 0, branch.key, branch.base - branch.extension, branch.base);
    if rlp.len() < 32 {
        inner.extend_from_slice(rlp);
    } else {
        inner.push(0xa0);
        inner.extend_from_slice(hash);
    }
    let mut out = Vec::new();
    Header { list: true, payload_length: inner.len() }.encode(&mut out);
    out.extend_from_slice(&inner);
    out
}

/// Appends the nibbles `from..to` of `key` in compact encoding, as an RLP string (yellow paper, appendix C).
fn put_path(out: &mut impl BufMut, kind: u8, key: u64, from: u32, to: u32) {
    let nibble = |at: u32| (key >> (60 - 4 * at)) as u8 & 0x0f;
    let odd = (to - from) % 2;
    let first = if odd == 1 { kind | 0x10 | nibble(from) } else { kind };
    let rest = (to - from) / 2;
    if rest > 0 {
        out.put_u8(0x81 + rest as u8);
    }
    out.put_u8(first);
    for at in 0..rest {
        let at = from + odd + 2 * at;
        out.put_u8(nibble(at) << 4 | nibble(at + 1));
    }
}

/// Returns the number of bytes that [`put_path`] writes.
const fn path_length(from: u32, to: u32) -> usize {
    let rest = (to - from) as usize / 2;
    if rest > 0 { 2 + rest } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_trie::root::ordered_trie_root_encoded;

    fn check(items: &[Vec<u8>]) {
        let root = ordered_root(items);
        assert_eq!(root, ordered_trie_root_encoded(items), "{} items", items.len());
    }

    #[test]
    fn roots_equal_those_of_alloy_for_every_number_of_items() {
        let items: Vec<Vec<u8>> =
            (0..700usize).map(|i| (0..100 + i % 60).map(|j| (i * 7 + j) as u8).collect()).collect();
        for count in 0..items.len() {
            check(&items[..count]);
        }
    }

    #[test]
    fn roots_equal_those_of_alloy_for_long_lists() {
        let items: Vec<Vec<u8>> =
            (0..70_000u32).map(|i| i.to_be_bytes().repeat(1 + i as usize % 12)).collect();
        for count in [4_095, 4_096, 4_097, 65_535, 65_536, 65_537, 70_000] {
            check(&items[..count]);
        }
    }

    #[test]
    fn roots_equal_those_of_alloy_for_short_and_long_items() {
        // The lengths include leaves and branches that are shorter than their hash, and long strings.
        for length in (0..70).chain([255, 256, 65_535, 65_536]) {
            for count in [1, 2, 3, 20, 140, 300] {
                check(&(0..count).map(|i| vec![i as u8; length]).collect::<Vec<_>>());
            }
        }
    }
}
