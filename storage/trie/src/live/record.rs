//! Conversion between records and the arena (`docs/storage-format.md`, trie records).

use super::arena::{Arena, Branch, Slot, nibbles};
use super::path::{KEY_NIBBLES, Key, Path, packed_suffix};
use super::rlp::{put_leaf, reference_len};
use super::value::Value;
use crate::PLAIN_ACCOUNT_END;
use crate::primitive::{DecodeError, Input, put_counted_bytes};
use crate::record as form;

/// Maximum size of a value in a record, in bytes: no state value is longer.
const MAX_VALUE_BYTES: usize = super::value::MAX_VALUE_BYTES;

/// Loads the record at `path`.
pub(super) fn take_record(
    arena: &mut Arena,
    path: &Path,
    bytes: &[u8],
    used: u32,
) -> Result<Slot, DecodeError> {
    let mut input = Input::borrowed(bytes);
    let slot = match input.byte()? {
        form::LEAF if path.len() == 0 => {
            let tag = input.byte()?;
            let leaf = TakenLeaf::read(&mut input, tag, path)?;
            Slot::Leaf(arena.new_leaf(&leaf.key, leaf.value))
        }
        form::BRANCH => Slot::Branch(take_branch(arena, path, &mut input, used)?),
        _ => return Err(input.error("unknown node kind")),
    };
    input.finish()?;
    Ok(slot)
}

fn take_branch(
    arena: &mut Arena,
    path: &Path,
    input: &mut Input<'_>,
    used: u32,
) -> Result<u32, DecodeError> {
    let prefix = take_path(input)?;
    let depth = path.len() + prefix.len();
    if depth >= KEY_NIBBLES {
        return Err(input.error("branch below the end of keys"));
    }
    let base = path.join(&prefix);
    let mask = u16::from_be_bytes(input.array()?);
    if mask.count_ones() < 2 {
        return Err(input.error("branch with fewer than two children"));
    }
    let index = arena.new_branch(prefix, mask.count_ones() as usize, used);
    for nibble in nibbles(mask) {
        take_child(arena, index, nibble, &base, input)?;
    }
    Ok(index)
}

fn take_child(
    arena: &mut Arena,
    index: u32,
    nibble: u8,
    base: &Path,
    input: &mut Input<'_>,
) -> Result<(), DecodeError> {
    match input.byte()? {
        form::CHILD_HASH => {
            arena.set_child(index, nibble, Slot::Cold);
            arena.set_reference(index, nibble, input.take(32)?);
        }
        form::CHILD_EMBEDDED => {
            let count = input.count(1)?;
            let rlp = input.take(count)?;
            if !matches!(rlp, [first, ..] if usize::from(*first) == 0xc0 + count - 1 && count < 32)
            {
                return Err(input.error("embedded node above 31 bytes"));
            }
            arena.set_child(index, nibble, Slot::Cold);
            arena.set_reference(index, nibble, rlp);
        }
        tag @ (form::CHILD_LEAF | form::CHILD_PLAIN_LEAF) => {
            let path = base.with(nibble);
            let leaf = TakenLeaf::read(input, tag, &path)?;
            let link = arena.new_leaf(&leaf.key, leaf.value);
            arena.set_child(index, nibble, Slot::Leaf(link));
            match leaf.hash {
                Some(hash) => arena.set_reference(index, nibble, &hash),
                None => {
                    let mut rlp = Vec::new();
                    put_leaf(&mut rlp, &leaf.key, path.len(), leaf.value);
                    if rlp.len() >= 32 {
                        return Err(input.error("leaf without a hash is not short"));
                    }
                    arena.set_reference(index, nibble, &rlp);
                }
            }
        }
        _ => return Err(input.error("unknown child tag")),
    }
    Ok(())
}

struct TakenLeaf<'a> {
    key: Key,
    value: Value<'a>,
    hash: Option<[u8; 32]>,
}

impl<'a> TakenLeaf<'a> {
    fn read(input: &mut Input<'a>, tag: u8, path: &Path) -> Result<Self, DecodeError> {
        let suffix = take_path(input)?;
        if path.len() + suffix.len() != KEY_NIBBLES {
            return Err(input.error("leaf does not end at the length of a key"));
        }
        let count = input.count(1)?;
        let value = Value { head: input.take(count)?, plain: tag == form::CHILD_PLAIN_LEAF };
        if value.len() > MAX_VALUE_BYTES {
            return Err(input.error("value longer than any account"));
        }
        if !value.plain && value.head.ends_with(&PLAIN_ACCOUNT_END) {
            return Err(input.error("plain account with an explicit suffix"));
        }
        let hash = match input.byte()? {
            form::NO_REFERENCE => None,
            form::HASH_REFERENCE => Some(input.array()?),
            _ => return Err(input.error("unknown leaf reference")),
        };
        Ok(Self { key: *path.join(&suffix).key(), value, hash })
    }
}

fn take_path(input: &mut Input<'_>) -> Result<Path, DecodeError> {
    let length = usize::from(input.byte()?);
    if length > KEY_NIBBLES {
        return Err(input.error("path above 64 nibbles"));
    }
    let packed = input.take(length.div_ceil(2))?;
    if !length.is_multiple_of(2) && packed.last().is_some_and(|last| last & 0x0f != 0) {
        return Err(input.error("path with a superfluous nibble"));
    }
    Ok(Path::unpack(packed, length))
}

/// Appends the record of a branch at depth `depth` in nibbles, including its prefix.
pub(super) fn put_branch_record(out: &mut Vec<u8>, arena: &Arena, branch: &Branch, depth: usize) {
    let prefix = arena.prefix(branch);
    out.push(form::BRANCH);
    out.push(prefix.len() as u8);
    out.extend_from_slice(prefix.packed());
    out.extend_from_slice(&branch.mask.to_be_bytes());
    let children = arena.links(branch).iter().zip(arena.references(branch));
    for (nibble, (link, reference)) in nibbles(branch.mask).zip(children) {
        let bit = 1u16 << nibble;
        let embedded = branch.embedded & bit != 0;
        if branch.leaves & bit != 0 {
            let reference = (!embedded).then_some(reference);
            put_leaf_record(out, arena.key(*link), depth + 1, arena.value(*link), reference);
        } else if embedded {
            out.push(form::CHILD_EMBEDDED);
            put_counted_bytes(out, &reference[..reference_len(reference, true)]);
        } else {
            out.push(form::CHILD_HASH);
            out.extend_from_slice(reference);
        }
    }
}

/// Appends the record of a trie with one entry.
pub(super) fn put_root_leaf_record(out: &mut Vec<u8>, key: &Key, value: Value<'_>) {
    out.push(form::LEAF);
    let mut rlp = Vec::new();
    put_leaf(&mut rlp, key, 0, value);
    let hash = (rlp.len() >= 32).then(|| verify::keccak256(&rlp));
    put_leaf_record(out, key, 0, value, hash.as_ref());
}

fn put_leaf_record(
    out: &mut Vec<u8>,
    key: &Key,
    depth: usize,
    value: Value<'_>,
    hash: Option<&[u8; 32]>,
) {
    out.push(if value.plain { form::CHILD_PLAIN_LEAF } else { form::CHILD_LEAF });
    out.push((KEY_NIBBLES - depth) as u8);
    let (packed, bytes) = packed_suffix(key, depth);
    out.extend_from_slice(&packed[..bytes]);
    put_counted_bytes(out, value.head);
    match hash {
        Some(hash) => {
            out.push(form::HASH_REFERENCE);
            out.extend_from_slice(hash);
        }
        None => out.push(form::NO_REFERENCE),
    }
}
