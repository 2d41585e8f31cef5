//! Encodes records of the state trie node by node. Tests compare them with the records that the
//! trie in memory writes.

use alloy_trie::Nibbles;

use super::decode_node::{
    PLAIN_ACCOUNT_END,
    record::{
        BRANCH, CHILD_EMBEDDED, CHILD_HASH, CHILD_LEAF, CHILD_PLAIN_LEAF, HASH_REFERENCE, LEAF,
        NO_REFERENCE,
    },
};
use super::{Child, Leaf, Node};
use crate::primitive::put_counted_bytes;

pub(crate) fn encode_node(out: &mut Vec<u8>, node: &Node) {
    match node {
        Node::Leaf(leaf) => {
            out.push(LEAF);
            put_leaf(out, leaf);
        }
        Node::Branch(branch) => {
            out.push(BRANCH);
            put_path(out, &branch.prefix);
            out.extend_from_slice(&branch.mask.to_be_bytes());
            for child in &branch.children {
                put_child(out, child);
            }
        }
    }
}

fn put_child(out: &mut Vec<u8>, child: &Child) {
    match child {
        Child::Leaf(leaf) => put_leaf(out, leaf),
        Child::Node(reference) => match reference.as_hash() {
            Some(hash) => {
                out.push(CHILD_HASH);
                out.extend_from_slice(hash.as_slice());
            }
            None => {
                out.push(CHILD_EMBEDDED);
                put_counted_bytes(out, reference);
            }
        },
    }
}

fn put_leaf(out: &mut Vec<u8>, leaf: &Leaf) {
    let (tag, value) = match leaf.value.strip_suffix(&PLAIN_ACCOUNT_END) {
        Some(start) => (CHILD_PLAIN_LEAF, start),
        None => (CHILD_LEAF, leaf.value.as_ref()),
    };
    out.push(tag);
    put_path(out, &leaf.suffix);
    put_counted_bytes(out, value);
    // The reference to a leaf that is short enough to be embedded is its RLP, which is recomputed on reading.
    match leaf.reference.as_hash() {
        Some(hash) => {
            out.push(HASH_REFERENCE);
            out.extend_from_slice(hash.as_slice());
        }
        None => out.push(NO_REFERENCE),
    }
}

fn put_path(out: &mut Vec<u8>, path: &Nibbles) {
    out.push(path.len() as u8);
    out.extend_from_slice(&path.pack());
}
