//! Which slots of a contract a call will ask for, told by what calls like it have asked for.
//!
//! Most slots that calls ask for are entries of mappings, whose keys are the sender and the arguments:
//! Solidity keeps the entry of `key` at Keccak-256(key . slot of the mapping), and that of a mapping
//! inside a mapping at Keccak-256(inner key . slot of the entry). From one call it can be told which
//! mappings it looked into with which of its words: its [`Lesson`]. The slots of a whole block's calls
//! are then computed eight at a time, and read together in order, instead of one after the other.
//!
//! What is foreseen is read early and not otherwise different, so a wrong guess costs a read and no more;
//! what was not foreseen is read when it is asked for.
//!
//! Lessons are few and small and remain between blocks. Bound: contracts and functions; what is not
//! asked for again makes room.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use alloy_primitives::{Address, B256, Selector, U256, map::DefaultHashBuilder};
use quick_cache::sync::Cache;
use verify::keccak256_spans;

use super::touched_slots::NEAR;

/// Functions of contracts whose lessons are kept, some 100 bytes each.
const LESSONS_MAX: usize = 4096;
/// Calls of a function in a block from which on it is worth while to foresee their slots.
const CALLS_MIN: usize = 8;
/// Most functions that one block learns about: half a millisecond.
const LEARNED_MAX: usize = 8;
/// Calls that taught nothing new, after which no more are looked at.
const FRUITLESS_MAX: u8 = 4;
/// Slots of the first variables of a contract, where mappings are looked for.
const MAPPINGS: u8 = 16;
/// Arguments looked at: of static types, so that a word of calldata is one.
const ARGUMENTS: u8 = 4;
/// Calls whose slots are computed at once: their words stay in the nearest cache.
const CALLS_AT_ONCE: usize = 64;

/// A function of a contract.
type Function = (Address, Selector);

/// What a call brings along.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    pub(super) sender: Address,
    pub(super) input: &'a [u8],
}

/// A word of a call that is the key of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Sender,
    Argument(u8),
}

/// The way to an entry of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    mapping: u8,
    key: Key,
    /// The key of the mapping inside, if there is one.
    inner: Option<Key>,
}

/// The ways that calls of a function have taken.
#[derive(Clone, Debug, Default)]
struct Lesson {
    ways: Vec<Way>,
    fruitless: u8,
}

static LESSONS: LazyLock<Cache<Function, Arc<Lesson>>> = LazyLock::new(|| Cache::new(LESSONS_MAX));

impl Words<'_> {
    /// The function called, if the calldata begins with one.
    fn selector(&self) -> Option<Selector> {
        self.input.first_chunk().map(Selector::from)
    }

    /// A word of the call; what calldata does not have is zero.
    fn word(&self, key: Key) -> B256 {
        let Key::Argument(at) = key else { return self.sender.into_word() };
        let start = Selector::len_bytes() + B256::len_bytes() * usize::from(at);
        let rest = self.input.get(start..).unwrap_or_default();
        let mut word = B256::ZERO;
        let length = rest.len().min(B256::len_bytes());
        word[..length].copy_from_slice(&rest[..length]);
        word
    }

    /// The words that may be keys.
    fn keys(&self) -> impl Iterator<Item = Key> + use<> {
        let arguments = self.input.len().saturating_sub(Selector::len_bytes()) / B256::len_bytes();
        let arguments = (0..ARGUMENTS).take(arguments).map(Key::Argument);
        [Key::Sender].into_iter().chain(arguments)
    }
}

/// Two words.
pub(super) type Pair = [u8; 2 * B256::len_bytes()];

fn pair(key: B256, mapping: B256) -> Pair {
    let mut pair = [0; size_of::<Pair>()];
    pair[..B256::len_bytes()].copy_from_slice(key.as_slice());
    pair[B256::len_bytes()..].copy_from_slice(mapping.as_slice());
    pair
}

/// Pairs to be hashed together.
#[derive(Debug, Default)]
struct Pairs {
    bytes: Vec<u8>,
    hashes: Vec<[u8; 32]>,
}

impl Pairs {
    fn push(&mut self, key: B256, mapping: B256) {
        self.bytes.extend_from_slice(&pair(key, mapping));
    }

    /// The hashes of those pushed, which are forgotten.
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

impl Lesson {
    /// Slots that a call will ask for.
    const fn len(&self) -> usize {
        self.ways.len()
    }

    /// Whether more can be learned.
    const fn is_open(&self) -> bool {
        self.ways.len() < NEAR && self.fruitless < FRUITLESS_MAX
    }

    /// Adds the slots that these calls will ask for: as many for each as there are ways.
    fn slots(&self, calls: &[Words<'_>], slots: &mut Vec<U256>) {
        let mut pairs = Pairs::default();
        for calls in calls.chunks(CALLS_AT_ONCE) {
            let ways =
                || calls.iter().flat_map(|call| self.ways.iter().map(move |way| (call, way)));
            ways().for_each(|(call, way)| pairs.push(call.word(way.key), word_of(way.mapping)));
            let start = slots.len();
            slots.extend(pairs.hash().iter().map(|hash| U256::from_be_bytes(*hash)));
            let inner = || {
                let ways = ways().zip(start..);
                ways.filter_map(|((call, way), at)| Some((call.word(way.inner?), at)))
            };
            inner().for_each(|(word, at)| pairs.push(word, slots[at].into()));
            for (hash, (_, at)) in pairs.hash().iter().zip(inner()) {
                slots[at] = U256::from_be_bytes(*hash);
            }
        }
    }

    /// Learns from a call that has asked for these slots.
    fn learn(&mut self, call: Words<'_>, asked: &[U256]) {
        let mut found: Vec<(usize, Way)> = Vec::new();
        let mut pairs = Pairs::default();
        let mappings =
            || (0..MAPPINGS).flat_map(|mapping| call.keys().map(move |key| (mapping, key)));
        mappings().for_each(|(mapping, key)| pairs.push(call.word(key), word_of(mapping)));
        let entries: Vec<B256> = pairs.hash().iter().map(B256::from).collect();
        let is_asked = |hash: B256| asked.iter().position(|slot| B256::from(*slot) == hash);
        for ((mapping, key), hash) in mappings().zip(&entries) {
            found.extend(is_asked(*hash).map(|at| (at, Way { mapping, key, inner: None })));
        }
        if (0..asked.len()).any(|at| found.iter().all(|(there, _)| *there != at)) {
            let inner = || {
                mappings().zip(&entries).flat_map(|outer| call.keys().map(move |key| (outer, key)))
            };
            inner().for_each(|((_, outer), key)| pairs.push(call.word(key), *outer));
            for ((((mapping, key), _), inner), hash) in inner().zip(pairs.hash()) {
                let way = Way { mapping, key, inner: Some(inner) };
                found.extend(is_asked(hash.into()).map(|at| (at, way)));
            }
        }
        // Where two words are equal, the first way is taken; another call will tell them apart.
        found.sort_by_key(|(at, _)| *at);
        found.dedup_by_key(|(at, _)| *at);
        let before = self.ways.len();
        for (_, way) in found {
            if self.is_open() && !self.ways.contains(&way) {
                self.ways.push(way);
            }
        }
        self.fruitless += u8::from(self.ways.len() == before);
    }
}

/// Calls of one function in a block, by their places there.
type Calls = HashMap<(u32, Selector), Vec<u32>, DefaultHashBuilder>;

/// What is foreseen of one block.
#[derive(Debug, Default)]
pub(super) struct Foresight {
    /// Functions that the block may still teach something about.
    open: Vec<Function>,
    /// Lessons made use of.
    lessons: Vec<Arc<Lesson>>,
    /// By transaction; none where none calls anything.
    of_tx: Vec<OfTx>,
    /// Places of slots in their contracts.
    places: Vec<u32>,
}

/// What is foreseen of one transaction.
#[derive(Clone, Copy, Debug, Default)]
struct OfTx {
    /// Where its slots begin in the list of places.
    start: u32,
    /// How many they are.
    slots: u32,
    lesson: u32,
}

/// The calls of a block that are foreseen, contract by contract.
#[derive(Debug, Default)]
pub(super) struct Foreseen {
    /// Address and place of the contract.
    pub(super) contract: (Address, u32),
    /// Slots of it, call by call.
    pub(super) slots: Vec<U256>,
    /// Transactions that ask for them, with how many each, and by which lesson.
    calls: Vec<(u32, u32, u32)>,
}

impl Foresight {
    /// Foresees the slots that these transactions of a block, which call something, will ask for;
    /// `call` gives the place and address of the contract that one calls, and its words.
    pub(super) fn of<'a>(
        &mut self,
        txs: &[u32],
        call: impl Fn(u32) -> (u32, Address, Words<'a>),
    ) -> Vec<Foreseen> {
        let mut calls = Calls::default();
        for at in txs {
            let (place, _, words) = call(*at);
            if let Some(selector) = words.selector() {
                calls.entry((place, selector)).or_default().push(*at);
            }
        }
        calls.retain(|_, calls| calls.len() >= CALLS_MIN);
        let mut foreseen: HashMap<u32, Foreseen, DefaultHashBuilder> = HashMap::default();
        for ((place, selector), calls) in calls {
            let address = call(calls[0]).1;
            let lesson = LESSONS.get(&(address, selector)).unwrap_or_default();
            if lesson.is_open() && self.open.len() < LEARNED_MAX {
                self.open.push((address, selector));
            }
            if lesson.len() == 0 {
                continue;
            }
            let of_contract = foreseen.entry(place).or_default();
            of_contract.contract = (address, place);
            let words: Vec<_> = calls.iter().map(|at| call(*at).2).collect();
            lesson.slots(&words, &mut of_contract.slots);
            let (slots, number) = (lesson.len() as u32, self.lessons.len() as u32);
            of_contract.calls.extend(calls.iter().map(|at| (*at, slots, number)));
            self.lessons.push(lesson);
        }
        foreseen.into_values().collect()
    }

    /// Takes in where the slots of a contract are.
    pub(super) fn found(&mut self, count: usize, foreseen: &Foreseen, places: &[u32]) {
        self.of_tx.resize(count, OfTx::default());
        let mut start = self.places.len() as u32;
        self.places.extend_from_slice(places);
        for (at, slots, lesson) in &foreseen.calls {
            self.of_tx[*at as usize] = OfTx { start, slots: *slots, lesson: *lesson };
            start += slots;
        }
    }

    /// Places of the slots that the transaction at `at` will ask for in the contract that it calls.
    #[inline]
    pub(super) fn places(&self, at: usize) -> &[u32] {
        let of_tx = self.of_tx.get(at).copied().unwrap_or_default();
        &self.places[of_tx.start as usize..][..of_tx.slots as usize]
    }

    /// The places of the same, each with the words of which its slot is the hash, as far as these are
    /// in the call.
    pub(super) fn pairs<'s>(
        &'s self,
        at: usize,
        call: Words<'s>,
    ) -> impl Iterator<Item = (u32, Pair)> + use<'s> {
        let lesson = self.of_tx.get(at).and_then(|of_tx| self.lessons.get(of_tx.lesson as usize));
        let ways = lesson.map(|lesson| lesson.ways.iter()).into_iter().flatten();
        let ways = self.places(at).iter().zip(ways).filter(|(_, way)| way.inner.is_none());
        ways.map(move |(place, way)| (*place, pair(call.word(way.key), word_of(way.mapping))))
    }

    /// Learns from a call that has asked for slots which were not foreseen.
    pub(super) fn learn(&mut self, contract: Address, call: Words<'_>, asked: &[(Address, U256)]) {
        let Some(selector) = call.selector() else { return };
        let Some(at) = self.open.iter().position(|function| *function == (contract, selector))
        else {
            return;
        };
        let asked = asked.iter().filter(|(address, _)| *address == contract);
        let asked: Vec<U256> = asked.map(|(_, slot)| *slot).collect();
        if asked.is_empty() {
            return;
        }
        let function = self.open.swap_remove(at);
        let mut lesson =
            LESSONS.get(&function).map_or_else(Lesson::default, |lesson| (*lesson).clone());
        lesson.learn(call, &asked);
        LESSONS.insert(function, Arc::new(lesson));
    }
}
