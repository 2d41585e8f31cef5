//! Records of the trie, and the RLP of their nodes.

use alloy_primitives::{B256, Bytes};
use alloy_rlp::Encodable;
use alloy_trie::nodes::{BranchNodeRef, ExtensionNodeRef, LeafNodeRef, RlpNode};
use alloy_trie::{Nibbles, TrieMask};

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// The only entry of its trie.
    Leaf(Leaf),
    /// Two to sixteen subtries.
    Branch(Branch),
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The part of the key after the position of the leaf.
    pub suffix: Nibbles,
    /// The value, which is RLP for both accounts and storage words.
    pub value: Bytes,
    /// The reference in the parent's RLP: the hash, or the RLP of the leaf if it is shorter than 32 bytes.
    pub reference: RlpNode,
}

/// A branch with its prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Nibbles of the extension node before the branch; empty if there is none.
    pub prefix: Nibbles,
    /// Bit `n` is set if there is a child for nibble `n`.
    pub mask: u16,
    /// The existing children, by ascending nibble.
    pub children: Vec<Child>,
}

/// A child of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Child {
    /// Another record, one nibble below the branch: its hash, or its RLP if it is shorter than 32 bytes.
    Node(RlpNode),
    /// A leaf, which is stored in its parent.
    Leaf(Leaf),
}

impl Leaf {
    /// Creates a leaf whose RLP is shorter than 32 bytes. Returns `None` if the RLP is longer.
    pub(crate) fn embedded(suffix: Nibbles, value: Bytes) -> Option<Self> {
        let mut rlp = Vec::new();
        encode_leaf(&mut rlp, &suffix, &value);
        if rlp.len() >= 32 {
            return None;
        }
        let reference = RlpNode::from_raw(&rlp)?;
        Some(Self { suffix, value, reference })
    }

    /// Appends the RLP of the leaf node.
    pub fn encode_rlp(&self, out: &mut Vec<u8>) {
        encode_leaf(out, &self.suffix, &self.value);
    }
}

impl Branch {
    /// Returns the child for `nibble`.
    pub fn child(&self, nibble: u8) -> Option<&Child> {
        let index = child_index(self.mask, nibble)?;
        self.children.get(index)
    }

    /// Appends the RLP of the branch node alone, without the extension before it.
    pub fn encode_rlp(&self, out: &mut Vec<u8>) {
        let references: Vec<RlpNode> = self
            .children
            .iter()
            .map(|child| match child {
                Child::Node(reference) => reference.clone(),
                Child::Leaf(leaf) => leaf.reference.clone(),
            })
            .collect();
        encode_branch(out, self.mask, &references);
    }
}

impl Node {
    /// Returns the root hash of the trie whose root is this record.
    pub fn root_hash(&self) -> B256 {
        let mut rlp = Vec::new();
        match self {
            Self::Leaf(leaf) => leaf.encode_rlp(&mut rlp),
            Self::Branch(branch) => {
                branch.encode_rlp(&mut rlp);
                if !branch.prefix.is_empty() {
                    let reference = reference_of(&rlp);
                    rlp.clear();
                    encode_extension(&mut rlp, &branch.prefix, &reference);
                }
            }
        }
        verify::keccak256(&rlp).into()
    }
}

/// Returns the index of `nibble` among the children of a branch; `None` if there is no such child.
pub(super) fn child_index(mask: u16, nibble: u8) -> Option<usize> {
    let bit = 1u16 << nibble;
    (mask & bit != 0).then(|| (mask & (bit - 1)).count_ones() as usize)
}

/// Returns the nibbles of the children, in ascending order.
pub(super) fn child_nibbles(mask: u16) -> impl Iterator<Item = u8> {
    (0..16).filter(move |nibble| mask & (1 << nibble) != 0)
}

/// Returns the reference to a node in its parent's RLP.
pub(super) fn reference_of(rlp: &[u8]) -> RlpNode {
    if rlp.len() < 32 {
        RlpNode::from_raw(rlp).expect("shorter than 33 bytes")
    } else {
        RlpNode::word_rlp(&verify::keccak256(rlp).into())
    }
}

/// Returns the root hash of a trie whose top node has this reference.
pub(super) fn root_hash_of(reference: &RlpNode) -> B256 {
    reference.as_hash().unwrap_or_else(|| verify::keccak256(reference).into())
}

pub(super) fn encode_leaf(out: &mut Vec<u8>, suffix: &Nibbles, value: &[u8]) {
    LeafNodeRef::new(suffix, value).encode(out);
}

pub(super) fn encode_extension(out: &mut Vec<u8>, prefix: &Nibbles, child: &RlpNode) {
    ExtensionNodeRef::new(prefix, child).encode(out);
}

pub(super) fn encode_branch(out: &mut Vec<u8>, mask: u16, children: &[RlpNode]) {
    BranchNodeRef::new(children, TrieMask::new(mask)).encode(out);
}
