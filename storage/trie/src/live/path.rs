//! Hashed keys and prefixes of them (paths), with two nibbles per byte.

use alloy_primitives::B256;

use crate::Nibbles;

/// A hashed address or slot.
pub(super) type Key = [u8; 32];

/// Number of nibbles of a key.
pub(super) const KEY_NIBBLES: usize = 64;

/// Returns the nibble of `key` at position `at`.
pub(super) fn nibble(key: &Key, at: usize) -> u8 {
    let byte = key[at / 2];
    if at.is_multiple_of(2) { byte >> 4 } else { byte & 0x0f }
}

/// Returns the number of leading nibbles that two keys share.
pub(super) fn common(a: &Key, b: &Key) -> usize {
    let Some(at) = a.iter().zip(b).position(|(a, b)| a != b) else { return KEY_NIBBLES };
    2 * at + usize::from(a[at] >> 4 == b[at] >> 4)
}

/// The first nibbles of a key. The other nibbles are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path {
    nibbles: Key,
    length: u8,
}

impl Path {
    pub(super) const ROOT: Self = Self { nibbles: [0; 32], length: 0 };

    /// Returns the first `length` nibbles of `key`.
    pub(super) fn of(key: &Key, length: usize) -> Self {
        let mut nibbles = [0; 32];
        nibbles[..length / 2].copy_from_slice(&key[..length / 2]);
        if !length.is_multiple_of(2) {
            nibbles[length / 2] = key[length / 2] & 0xf0;
        }
        Self { nibbles, length: length as u8 }
    }

    pub(super) const fn len(&self) -> usize {
        self.length as usize
    }

    pub(super) fn nibble(&self, at: usize) -> u8 {
        nibble(&self.nibbles, at)
    }

    pub(super) fn push(&mut self, nibble: u8) {
        let at = self.len();
        self.nibbles[at / 2] |= if at.is_multiple_of(2) { nibble << 4 } else { nibble };
        self.length += 1;
    }

    pub(super) fn with(mut self, nibble: u8) -> Self {
        self.push(nibble);
        self
    }

    /// Concatenates two paths.
    pub(super) fn join(mut self, below: &Self) -> Self {
        for at in 0..below.len() {
            self.push(below.nibble(at));
        }
        self
    }

    /// Returns the nibbles `from..to` as a path.
    pub(super) fn slice(&self, from: usize, to: usize) -> Self {
        let mut slice = Self::ROOT;
        for at in from..to {
            slice.push(self.nibble(at));
        }
        slice
    }

    /// Returns the nibbles as bytes; an unused last nibble is zero.
    pub(super) fn packed(&self) -> &[u8] {
        &self.nibbles[..self.len().div_ceil(2)]
    }

    /// Reads `length` nibbles in the format of [`Self::packed`].
    pub(super) fn unpack(packed: &[u8], length: usize) -> Self {
        let mut nibbles = [0; 32];
        nibbles[..packed.len()].copy_from_slice(packed);
        Self { nibbles, length: length as u8 }
    }

    /// Returns the path as a key. It must have all nibbles of a key.
    pub(super) const fn key(&self) -> &Key {
        &self.nibbles
    }

    /// Appends the key of the record at this path (`docs/storage-format.md`).
    pub(super) fn put_record_key(&self, owner: Option<B256>, out: &mut Vec<u8>) {
        if let Some(owner) = owner {
            out.extend_from_slice(owner.as_slice());
        }
        out.extend_from_slice(self.packed());
        out.push(self.length);
    }

    pub(super) fn to_nibbles(self) -> Nibbles {
        let mut nibbles = Nibbles::unpack(self.nibbles);
        nibbles.truncate(self.len());
        nibbles
    }
}

/// Returns the nibbles of `key` from `depth` on, packed from the start of the bytes, and the number of bytes used.
pub(super) fn packed_suffix(key: &Key, depth: usize) -> ([u8; 32], usize) {
    let mut packed = [0; 32];
    let rest = &key[depth / 2..];
    if depth.is_multiple_of(2) {
        packed[..rest.len()].copy_from_slice(rest);
    } else {
        for (at, byte) in packed[..rest.len()].iter_mut().enumerate() {
            *byte = (rest[at] << 4) | rest.get(at + 1).map_or(0, |next| next >> 4);
        }
    }
    (packed, (KEY_NIBBLES - depth).div_ceil(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_behave_like_nibbles() {
        let mut key = [0; 32];
        for (at, byte) in key.iter_mut().enumerate() {
            *byte = (at * 37 + 11) as u8;
        }
        let whole = Nibbles::unpack(key);
        for length in 0..=KEY_NIBBLES {
            let path = Path::of(&key, length);
            assert_eq!(path.to_nibbles(), whole.slice(..length));
            assert_eq!(path.packed(), whole.slice(..length).pack().as_slice());
            assert_eq!(Path::unpack(path.packed(), length), path);
            let (packed, bytes) = packed_suffix(&key, length);
            assert_eq!(&packed[..bytes], whole.slice(length..).pack().as_slice());
            let suffix = path.slice(length / 3, length);
            assert_eq!(Path::of(&key, length / 3).join(&suffix), path);
            let mut other = key;
            if length < KEY_NIBBLES {
                other[length / 2] ^= if length.is_multiple_of(2) { 0x50 } else { 0x05 };
            }
            assert_eq!(common(&key, &other), length);
        }
    }
}
