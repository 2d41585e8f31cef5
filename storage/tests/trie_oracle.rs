//! The incremental trie against the one built from scratch, over random histories.
//!
//! Nodes go the way they go in the node: unflushed blocks answer from their updates, older ones
//! from the `index` environment, so every record passes the codec.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::{Address, B256, U256, keccak256};
use proptest::prelude::*;
use storage::trie::{EMPTY_ROOT_HASH, Nibbles, Node, NodeRead, state_root_from_scratch};
use storage::{
    Account, AccountChange, FlushBlock, IndexDb, IndexOptions, IndexReader, ReadError,
    StateChanges, TrieUpdates, update_state_root,
};

/// Enough for any history here.
const MAP_BYTES: u64 = 64 << 20;

/// The plain model: accounts and their slots.
type Model = BTreeMap<Address, (Account, BTreeMap<U256, U256>)>;

/// One step of a history.
#[derive(Clone, Debug)]
struct Step {
    account: u8,
    /// `None` removes the account.
    balance: Option<u64>,
    wiped: bool,
    slots: BTreeMap<u8, u64>,
}

fn step() -> impl Strategy<Value = Step> {
    let balance = prop_oneof![1 => Just(None), 4 => any::<u64>().prop_map(Some)];
    let value = prop_oneof![2 => Just(0), 1 => 1..200u64, 1 => any::<u64>()];
    let slots = prop::collection::btree_map(0..24u8, value, 0..6);
    (0..40u8, balance, prop::bool::weighted(0.1), slots)
        .prop_map(|(account, balance, wiped, slots)| Step { account, balance, wiped, slots })
}

fn address(index: u8) -> Address {
    Address::from_word(keccak256([index]))
}

fn changes_of(steps: &[Step]) -> StateChanges {
    let steps: BTreeMap<Address, &Step> =
        steps.iter().map(|step| (address(step.account), step)).collect();
    let accounts = steps.into_iter().map(|(address, step)| AccountChange {
        address,
        account: step.balance.map(|balance| Account {
            nonce: balance % 7,
            balance: U256::from(balance),
            ..Account::default()
        }),
        wiped: step.wiped || step.balance.is_none(),
        slots: step.slots.iter().map(|(&s, &v)| (U256::from(s), U256::from(v))).collect(),
    });
    StateChanges { accounts: accounts.collect(), codes: Vec::new() }
}

fn apply(model: &mut Model, changes: &StateChanges) {
    for change in &changes.accounts {
        let Some(account) = change.account else {
            model.remove(&change.address);
            continue;
        };
        let entry = model.entry(change.address).or_default();
        entry.0 = account;
        if change.wiped {
            entry.1.clear();
        }
        for &(slot, value) in &change.slots {
            if value.is_zero() {
                entry.1.remove(&slot);
            } else {
                entry.1.insert(slot, value);
            }
        }
    }
}

fn scratch_root(model: &Model) -> B256 {
    state_root_from_scratch(model.iter().map(|(address, (account, slots))| {
        (*address, *account, slots.iter().map(|(&slot, &value)| (slot, value)))
    }))
}

/// Unflushed blocks over the index.
struct Layers<'a> {
    index: &'a IndexReader,
    above: &'a [TrieUpdates],
}

impl NodeRead for Layers<'_> {
    type Error = ReadError;

    fn node(&self, owner: Option<B256>, path: &Nibbles) -> Result<Option<Arc<Node>>, ReadError> {
        for updates in self.above.iter().rev() {
            if let Some(answer) = updates.get(owner, path) {
                return Ok(answer.cloned());
            }
        }
        self.index.node(owner, path)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn incremental_root_is_the_root_from_scratch(
        blocks in prop::collection::vec(prop::collection::vec(step(), 0..12), 1..40),
        flush_every in 1..6usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let index =
            IndexDb::open(folder.path(), IndexOptions { map_bytes: MAP_BYTES }).unwrap();
        let mut model = Model::new();
        let mut root = EMPTY_ROOT_HASH;
        let mut pending: Vec<StateChanges> = Vec::new();
        let mut above: Vec<TrieUpdates> = Vec::new();
        for (number, steps) in blocks.iter().enumerate() {
            let changes = changes_of(steps);
            apply(&mut model, &changes);
            let reader = index.reader().unwrap();
            let layers = Layers { index: &reader, above: &above };
            let (next, updates) = update_state_root(&layers, &changes, root).unwrap();
            prop_assert_eq!(next, scratch_root(&model));
            root = next;
            pending.push(changes);
            above.push(updates);
            if above.len() == flush_every {
                let first = number + 1 - above.len();
                let batch: Vec<FlushBlock<'_>> = pending.iter().zip(&above).enumerate()
                    .map(|(at, (changes, trie))| FlushBlock {
                        number: (first + at) as u64,
                        hash: keccak256((first + at).to_string()),
                        tx_hashes: &[],
                        changes,
                        trie,
                    })
                    .collect();
                index.flush(&batch).unwrap();
                pending.clear();
                above.clear();
            }
        }
    }
}
