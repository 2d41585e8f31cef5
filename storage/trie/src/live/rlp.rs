//! Encodes nodes as RLP directly from the arena (yellow paper, appendices B and D).

use super::arena::nibbles;
use super::path::{KEY_NIBBLES, Key, Path, packed_suffix};
use super::value::Value;
use crate::PLAIN_ACCOUNT_END;

/// Flag in the first byte of a compact path: the node is a leaf.
const LEAF: u8 = 0x20;
/// Flag in the first byte of a compact path: the number of nibbles is odd, and this byte contains the first one.
const ODD: u8 = 0x10;

/// Returns the length of a reference: a hash, or the RLP of a short node, whose first byte determines its
/// length.
pub(super) const fn reference_len(reference: &[u8; 32], embedded: bool) -> usize {
    if embedded { reference[0] as usize - 0xc0 + 1 } else { 32 }
}

fn put_list_header(out: &mut Vec<u8>, payload: usize) {
    match payload {
        0..=55 => out.push(0xc0 + payload as u8),
        56..=0xff => out.extend_from_slice(&[0xf8, payload as u8]),
        _ => out.extend_from_slice(&[0xf9, (payload >> 8) as u8, payload as u8]),
    }
}

/// Returns the length of the RLP of a string with this length and first byte.
fn string_len(length: usize, first: u8) -> usize {
    match length {
        1 if first < 0x80 => 1,
        0..=55 => 1 + length,
        _ => 2 + length,
    }
}

fn put_string_header(out: &mut Vec<u8>, length: usize, first: u8) {
    match length {
        1 if first < 0x80 => {}
        0..=55 => out.push(0x80 + length as u8),
        // No value of a state trie is longer than 255 bytes.
        _ => out.extend_from_slice(&[0xb8, length as u8]),
    }
}

/// Appends the RLP of the leaf for `key` at depth `depth` in nibbles.
pub(super) fn put_leaf(out: &mut Vec<u8>, key: &Key, depth: usize, value: Value<'_>) {
    let odd = !(KEY_NIBBLES - depth).is_multiple_of(2);
    let rest = &key[depth.div_ceil(2)..];
    let first = if odd { LEAF | ODD | (key[depth / 2] & 0x0f) } else { LEAF };
    let path = 1 + rest.len();
    let length = value.len();
    let value_first = value.head.first().copied().unwrap_or(0);
    put_list_header(out, string_len(path, first) + string_len(length, value_first));
    put_string_header(out, path, first);
    out.push(first);
    out.extend_from_slice(rest);
    put_string_header(out, length, value_first);
    out.extend_from_slice(value.head);
    if value.plain {
        out.extend_from_slice(&PLAIN_ACCOUNT_END);
    }
}

/// Maximum size of a branch in bytes: list header, 16 hashes with their headers, and no value.
const MAX_BRANCH_BYTES: usize = 3 + 16 * 33 + 1;

/// Appends the RLP of a branch node with these children.
pub(crate) fn put_branch(out: &mut Vec<u8>, mask: u16, embedded: u16, references: &[[u8; 32]]) {
    let mut payload = 17 + 32 * mask.count_ones() as usize;
    if embedded != 0 {
        for (nibble, reference) in nibbles(mask).zip(references) {
            if embedded & (1 << nibble) != 0 {
                payload -= 33 - reference_len(reference, true);
            }
        }
    }
    out.reserve(MAX_BRANCH_BYTES);
    put_list_header(out, payload);
    let mut references = references.iter();
    for nibble in 0..16 {
        if mask & (1 << nibble) == 0 {
            out.push(0x80);
            continue;
        }
        let reference = references.next().expect("one reference per child");
        if embedded & (1 << nibble) == 0 {
            out.push(0xa0);
            out.extend_from_slice(reference);
        } else {
            out.extend_from_slice(&reference[..reference_len(reference, true)]);
        }
    }
    out.push(0x80);
}

/// Appends the RLP of the extension node with this path before a branch.
pub(super) fn put_extension(out: &mut Vec<u8>, prefix: &Path, branch: &[u8]) {
    let odd = !prefix.len().is_multiple_of(2);
    let first = if odd { ODD | prefix.nibble(0) } else { 0 };
    let (packed, _) = packed_suffix(prefix.key(), usize::from(odd));
    let rest = &packed[..prefix.len() / 2];
    let path = 1 + rest.len();
    let reference = if branch.len() == 32 { 33 } else { branch.len() };
    put_list_header(out, string_len(path, first) + reference);
    put_string_header(out, path, first);
    out.push(first);
    out.extend_from_slice(rest);
    if branch.len() == 32 {
        out.push(0xa0);
    }
    out.extend_from_slice(branch);
}
