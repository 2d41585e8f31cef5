//! Caches the rewards of chunks as text, for the lists of percentiles that clients request repeatedly.

use super::chunk::{Chunk, Column};
use quick_cache::{Equivalent, Weighter, sync::Cache};
use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

/// Maximum memory of the cached texts, in bytes.
const MAX_BYTES: u64 = 32 << 20;
/// Typical memory of a text: 64 blocks with three rewards of 14 characters. The number of entries is estimated from it.
const USUAL_BYTES: u64 = 4 * 1024;
/// Bytes of an entry in addition to its text and percentiles.
const ENTRY_BYTES: u64 = 128;
/// Maximum number of percentiles of a list whose texts are cached. Wallets and libraries use short lists.
const MAX_PERCENTILES: usize = 16;

/// A chunk and a list of percentiles.
struct Key {
    chunk: u64,
    percentiles: Box<[f64]>,
}

/// A borrowed key for lookups.
struct KeyRef<'a> {
    chunk: u64,
    percentiles: &'a [f64],
}

impl Key {
    const fn borrowed(&self) -> KeyRef<'_> {
        KeyRef { chunk: self.chunk, percentiles: &self.percentiles }
    }
}

impl KeyRef<'_> {
    /// Percentiles are compared by their bits, so that the comparison agrees with the hash.
    fn equals(&self, other: &KeyRef<'_>) -> bool {
        let bits = |percentile: &f64| percentile.to_bits();
        self.chunk == other.chunk
            && self.percentiles.iter().map(bits).eq(other.percentiles.iter().map(bits))
    }
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.chunk.hash(state);
        self.percentiles.iter().for_each(|percentile| percentile.to_bits().hash(state));
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.borrowed().hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.borrowed().equals(&other.borrowed())
    }
}

impl Eq for Key {}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.equals(&key.borrowed())
    }
}

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Arc<Column>> for Weight {
    fn weight(&self, key: &Key, column: &Arc<Column>) -> u64 {
        (column.bytes() + size_of_val(&*key.percentiles)) as u64 + ENTRY_BYTES
    }
}

/// A cache of the texts of rewards.
pub(super) struct RewardTexts(Cache<Key, Arc<Column>, Weight>);

impl Default for RewardTexts {
    fn default() -> Self {
        Self(Cache::with_weighter((MAX_BYTES / USUAL_BYTES) as usize, MAX_BYTES, Weight))
    }
}

impl RewardTexts {
    /// Returns the rewards of all blocks of a chunk, if lists of this length are cached.
    pub(super) fn of_chunk(&self, chunk: &Chunk, percentiles: &[f64]) -> Option<Arc<Column>> {
        if percentiles.len() > MAX_PERCENTILES {
            return None;
        }
        if let Some(column) = self.0.get(&KeyRef { chunk: chunk.id, percentiles }) {
            return Some(column);
        }
        let column = Arc::new(chunk.rewards(0, chunk.entries.len(), percentiles));
        let key = Key { chunk: chunk.id, percentiles: percentiles.into() };
        self.0.insert(key, Arc::clone(&column));
        Some(column)
    }
}

impl fmt::Debug for RewardTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RewardTexts").field(&self.0.len()).finish()
    }
}

#[cfg(test)]
impl RewardTexts {
    /// Returns the memory of the cached texts in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.0.weight()
    }

    pub(super) const MAX_BYTES: u64 = MAX_BYTES;
}
