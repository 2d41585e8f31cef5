//! Decodes records of the state trie, and encodes their keys.

use alloy_primitives::{Bytes, hex};
use alloy_trie::Nibbles;
use alloy_trie::nodes::RlpNode;

use super::{Branch, Child, Leaf, Node};
use crate::primitive::{DecodeError, Input};

/// First bytes and tags of records.
pub(crate) mod record {
    /// First byte of a record: the root leaf of a trie with one entry.
    pub(crate) const LEAF: u8 = 0;
    /// First byte of a record: a branch.
    pub(crate) const BRANCH: u8 = 1;

    /// Child tag: another record, referenced by its hash.
    pub(crate) const CHILD_HASH: u8 = 0;
    /// Child tag: another record, referenced by its RLP, which is shorter than 32 bytes.
    pub(crate) const CHILD_EMBEDDED: u8 = 1;
    /// Child tag: a leaf, stored here.
    pub(crate) const CHILD_LEAF: u8 = 2;
    /// Child tag: a leaf, stored here, whose value ends in [`super::PLAIN_ACCOUNT_END`], which is
    /// omitted.
    pub(crate) const CHILD_PLAIN_LEAF: u8 = 3;

    /// After a leaf: its RLP is shorter than 32 bytes, so the RLP itself is the reference.
    pub(crate) const NO_REFERENCE: u8 = 0;
    /// After a leaf: its hash follows.
    pub(crate) const HASH_REFERENCE: u8 = 1;
}

use record::{
    BRANCH, CHILD_EMBEDDED, CHILD_HASH, CHILD_LEAF, CHILD_PLAIN_LEAF, HASH_REFERENCE, LEAF,
    NO_REFERENCE,
};

/// Suffix of the value of an account without storage and code: RLP of the empty root and of the
/// hash of empty code.
pub(crate) const PLAIN_ACCOUNT_END: [u8; 66] = hex!(
    "a056e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"
    "a0c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
);

/// Maximum number of nibbles of a path.
const MAX_PATH_NIBBLES: u8 = 64;

/// Appends the key of the node at `path`: the nibbles, two per byte, padded with a zero nibble if their number
/// is odd, followed by their number.
pub fn encode_path_key(out: &mut Vec<u8>, path: &Nibbles) {
    out.extend_from_slice(&path.pack());
    out.push(path.len() as u8);
}

fn take_path(input: &mut Input<'_>) -> Result<Nibbles, DecodeError> {
    let nibbles = input.byte()?;
    if nibbles > MAX_PATH_NIBBLES {
        return Err(input.error("path above 64 nibbles"));
    }
    let nibbles = usize::from(nibbles);
    let packed = input.take(nibbles.div_ceil(2))?;
    if nibbles % 2 == 1 && packed.last().is_some_and(|last| last & 0x0f != 0) {
        return Err(input.error("path with a superfluous nibble"));
    }
    let mut path = Nibbles::unpack(packed);
    path.truncate(nibbles);
    Ok(path)
}

fn take_leaf(input: &mut Input<'_>, tag: u8) -> Result<Leaf, DecodeError> {
    let suffix = take_path(input)?;
    let mut value = input.counted_bytes()?;
    if tag == CHILD_PLAIN_LEAF {
        value = Bytes::from([value.as_ref(), &PLAIN_ACCOUNT_END].concat());
    } else if value.ends_with(&PLAIN_ACCOUNT_END) {
        return Err(input.error("plain account with an explicit suffix"));
    }
    match input.byte()? {
        NO_REFERENCE => {
            let leaf = Leaf::embedded(suffix, value);
            leaf.ok_or_else(|| input.error("leaf without a hash is not short"))
        }
        HASH_REFERENCE => {
            let reference = RlpNode::word_rlp(&input.b256()?);
            Ok(Leaf { suffix, value, reference })
        }
        _ => Err(input.error("unknown leaf reference")),
    }
}

fn take_child(input: &mut Input<'_>) -> Result<Child, DecodeError> {
    match input.byte()? {
        CHILD_HASH => Ok(Child::Node(RlpNode::word_rlp(&input.b256()?))),
        CHILD_EMBEDDED => {
            let rlp = input.counted_bytes()?;
            if rlp.len() >= 32 {
                return Err(input.error("embedded node above 31 bytes"));
            }
            let node = RlpNode::from_raw_rlp(&rlp);
            Ok(Child::Node(node.map_err(|_| input.error("embedded node too long"))?))
        }
        tag @ (CHILD_LEAF | CHILD_PLAIN_LEAF) => Ok(Child::Leaf(take_leaf(input, tag)?)),
        _ => Err(input.error("unknown child tag")),
    }
}

/// Decodes a record.
///
/// # Errors
/// If the bytes are not the encoding of a record.
pub fn decode_node(bytes: &Bytes) -> Result<Node, DecodeError> {
    let mut input = Input::shared(bytes);
    let node = match input.byte()? {
        LEAF => {
            let tag = input.byte()?;
            if !matches!(tag, CHILD_LEAF | CHILD_PLAIN_LEAF) {
                return Err(input.error("root leaf expected"));
            }
            Node::Leaf(take_leaf(&mut input, tag)?)
        }
        BRANCH => {
            let prefix = take_path(&mut input)?;
            let mask = u16::from_be_bytes(input.array()?);
            if mask.count_ones() < 2 {
                return Err(input.error("branch with fewer than two children"));
            }
            let mut children = Vec::with_capacity(mask.count_ones() as usize);
            for _ in 0..mask.count_ones() {
                children.push(take_child(&mut input)?);
            }
            Node::Branch(Branch { prefix, mask, children })
        }
        _ => return Err(input.error("unknown node kind")),
    };
    input.finish()?;
    Ok(node)
}
