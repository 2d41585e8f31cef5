//! Predicts which storage slots of a contract a call will access, from earlier calls of the same function.
//!
//! Most accessed slots are entries of mappings whose keys are the sender or an argument. Solidity stores the entry of
//! `key` at Keccak-256(key . slot of the mapping), and the entry of a nested mapping at Keccak-256(inner key . slot of
//! the outer entry). The slots that a call read reveal which mappings it accessed, and which of its words were the
//! keys. These paths are recorded as an [`AccessPattern`]. The slots of all calls in a block are then computed eight at
//! a time and read together in ascending order, instead of one after the other.
//!
//! A prediction only causes a read in advance. A wrong prediction costs one read and does not change a result.
//! Slots that were not predicted are read on demand.
//!
//! Access patterns are small and are kept between blocks. Their number is limited; the least recently used
//! ones are discarded.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Selector, U256};
use quick_cache::sync::Cache;
use verify::keccak256_spans;

/// Maximum number of slots that are predicted per transaction. Most transactions access two or three slots of a
/// contract.
pub(crate) const MAX_TX_SLOTS: usize = 4;
/// Maximum number of contract functions whose patterns are stored, about 100 bytes each.
const MAX_PATTERNS: usize = 4096;
/// Number of calls without a new path after which a pattern is no longer extended.
const MAX_CALLS_WITHOUT_PATH: u8 = 4;
/// Number of slots at the beginning of a contract's storage that are tried as slots of mappings.
const MAX_MAPPING_SLOT: u8 = 16;
/// Maximum number of arguments that are tried as keys. They must have static types, so that each is one word of
/// calldata.
const MAX_ARGUMENTS: u8 = 4;
/// Number of calls whose slots are computed together, so that their words stay in the L1 cache.
const CALLS_PER_BATCH: usize = 64;

/// A function of a contract.
pub(crate) type Function = (Address, Selector);

/// The words of a call that may be keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CalldataWords<'a> {
    pub(crate) sender: Address,
    pub(crate) input: &'a [u8],
}

/// The word of a call that is the key of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Sender,
    Argument(u8),
}

/// How to compute the slot of a mapping entry from a call's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MappingPath {
    mapping: u8,
    key: Key,
    /// The key of the nested mapping, if there is one.
    inner: Option<Key>,
}

/// The paths that earlier calls of a function accessed.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccessPattern {
    paths: Vec<MappingPath>,
    calls_without_path: u8,
}

pub(super) type AccessPatterns = Cache<Function, Arc<AccessPattern>>;

/// Creates a cache without patterns.
pub(super) fn empty_cache() -> AccessPatterns {
    Cache::new(MAX_PATTERNS)
}

impl CalldataWords<'_> {
    /// Returns the selector of the called function, if the calldata has at least four bytes.
    pub(crate) fn selector(&self) -> Option<Selector> {
        self.input.first_chunk().map(Selector::from)
    }

    /// Returns a word of the call. Bytes beyond the end of the calldata are zero.
    fn word(&self, key: Key) -> B256 {
        let Key::Argument(at) = key else { return self.sender.into_word() };
        let start = Selector::len_bytes() + B256::len_bytes() * usize::from(at);
        let rest = self.input.get(start..).unwrap_or_default();
        let mut word = B256::ZERO;
        let length = rest.len().min(B256::len_bytes());
        word[..length].copy_from_slice(&rest[..length]);
        word
    }

    /// Returns the words that may be keys.
    fn keys(&self) -> impl Iterator<Item = Key> + use<> {
        let arguments = self.input.len().saturating_sub(Selector::len_bytes()) / B256::len_bytes();
        let arguments = (0..MAX_ARGUMENTS).take(arguments).map(Key::Argument);
        [Key::Sender].into_iter().chain(arguments)
    }
}

/// Two words: a key and the slot of a mapping.
pub(crate) type Pair = [u8; 2 * B256::len_bytes()];

fn pair(key: B256, mapping: B256) -> Pair {
    let mut pair = [0; size_of::<Pair>()];
    pair[..B256::len_bytes()].copy_from_slice(key.as_slice());
    pair[B256::len_bytes()..].copy_from_slice(mapping.as_slice());
    pair
}

/// Pairs that are hashed together.
#[derive(Debug, Default)]
struct Pairs {
    bytes: Vec<u8>,
    hashes: Vec<[u8; 32]>,
}

impl Pairs {
    fn push(&mut self, key: B256, mapping: B256) {
        self.bytes.extend_from_slice(&pair(key, mapping));
    }

    /// Hashes the pairs that were pushed, and clears them.
    fn hash(&mut self) -> &[[u8; 32]] {
        const BYTES: usize = size_of::<Pair>();
        let count = self.bytes.len() / BYTES;
        let spans: Vec<_> = (0..count).map(|at| at * BYTES..(at + 1) * BYTES).collect();
        self.hashes.resize(count, [0; 32]);
        keccak256_spans(&self.bytes, &spans, &mut self.hashes);
        self.bytes.clear();
        &self.hashes
    }
}

fn word_of(mapping: u8) -> B256 {
    B256::with_last_byte(mapping)
}

impl AccessPattern {
    /// Returns the number of slots predicted per call.
    pub(crate) const fn len(&self) -> usize {
        self.paths.len()
    }

    /// Returns whether the pattern can be extended.
    pub(crate) const fn is_open(&self) -> bool {
        self.paths.len() < MAX_TX_SLOTS && self.calls_without_path < MAX_CALLS_WITHOUT_PATH
    }

    /// Appends the predicted slots of these calls, one per call and path.
    pub(crate) fn slots(&self, calls: &[CalldataWords<'_>], slots: &mut Vec<U256>) {
        let mut pairs = Pairs::default();
        for calls in calls.chunks(CALLS_PER_BATCH) {
            let paths =
                || calls.iter().flat_map(|call| self.paths.iter().map(move |path| (call, path)));
            paths().for_each(|(call, path)| pairs.push(call.word(path.key), word_of(path.mapping)));
            let start = slots.len();
            slots.extend(pairs.hash().iter().map(|hash| U256::from_be_bytes(*hash)));
            let inner = || {
                let paths = paths().zip(start..);
                paths.filter_map(|((call, path), at)| Some((call.word(path.inner?), at)))
            };
            inner().for_each(|(word, at)| pairs.push(word, slots[at].into()));
            for (hash, (_, at)) in pairs.hash().iter().zip(inner()) {
                slots[at] = U256::from_be_bytes(*hash);
            }
        }
    }

    /// Extends the pattern with the slots that a call read.
    pub(crate) fn learn(&mut self, call: CalldataWords<'_>, read: &[U256]) {
        let mut found: Vec<(usize, MappingPath)> = Vec::new();
        let mut pairs = Pairs::default();
        let mappings =
            || (0..MAX_MAPPING_SLOT).flat_map(|mapping| call.keys().map(move |key| (mapping, key)));
        mappings().for_each(|(mapping, key)| pairs.push(call.word(key), word_of(mapping)));
        let entries: Vec<B256> = pairs.hash().iter().map(B256::from).collect();
        let position_read = |hash: B256| read.iter().position(|slot| B256::from(*slot) == hash);
        for ((mapping, key), hash) in mappings().zip(&entries) {
            found.extend(
                position_read(*hash).map(|at| (at, MappingPath { mapping, key, inner: None })),
            );
        }
        if (0..read.len()).any(|at| found.iter().all(|(there, _)| *there != at)) {
            let inner = || {
                mappings().zip(&entries).flat_map(|outer| call.keys().map(move |key| (outer, key)))
            };
            inner().for_each(|((_, outer), key)| pairs.push(call.word(key), *outer));
            for ((((mapping, key), _), inner), hash) in inner().zip(pairs.hash()) {
                let path = MappingPath { mapping, key, inner: Some(inner) };
                found.extend(position_read(hash.into()).map(|at| (at, path)));
            }
        }
        // If two words of the call are equal, two paths lead to the same slot, and only the first is learned.
        found.sort_by_key(|(at, _)| *at);
        found.dedup_by_key(|(at, _)| *at);
        let before = self.paths.len();
        for (_, path) in found {
            if self.is_open() && !self.paths.contains(&path) {
                self.paths.push(path);
            }
        }
        self.calls_without_path += u8::from(self.paths.len() == before);
    }

    /// Returns the predicted slots whose preimages are known from the call alone, because their mappings are not
    /// nested: the index of the slot among the call's slots, and the preimage.
    pub(crate) fn preimages(&self, call: CalldataWords<'_>) -> impl Iterator<Item = (usize, Pair)> {
        let paths = self.paths.iter().enumerate().filter(|(_, path)| path.inner.is_none());
        paths.map(move |(at, path)| (at, pair(call.word(path.key), word_of(path.mapping))))
    }
}
