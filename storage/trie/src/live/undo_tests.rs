//! Undoes blocks, with checkpoints that were handed over and not written. At the end, the store must have the same
//! records as if only the remaining blocks had ever been applied.

use super::tests::{Store, cases};
use super::*;
use crate::history::{Model, apply, changes_of, step};
use crate::{state_root_from_scratch, update_state_root};
use alloy_primitives::Address;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What happens after a block.
#[derive(Clone, Copy, Debug)]
enum Event {
    Nothing,
    Checkpoint,
    /// The oldest checkpoint is written.
    Write,
    /// This many blocks are undone, but none up to the last written checkpoint.
    Undo(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(Event::Nothing),
        2 => Just(Event::Checkpoint),
        1 => Just(Event::Write),
        2 => (1..6usize).prop_map(Event::Undo),
    ]
}

/// The state after a block, and the records of the pure update.
#[derive(Clone)]
struct Past {
    model: Model,
    pure: Store,
    root: B256,
    changes: StateChanges,
}

/// Returns the changes that lead from the state after the newest of `blocks` to `before`.
fn inverse(before: &Model, blocks: &[Past]) -> StateChanges {
    let mut touched: BTreeMap<Address, (bool, BTreeSet<U256>)> = BTreeMap::new();
    for change in blocks.iter().flat_map(|block| &block.changes.accounts) {
        let (wiped, slots) = touched.entry(change.address).or_default();
        *wiped |= change.wiped || change.account.is_none();
        slots.extend(change.slots.iter().map(|(slot, _)| *slot));
    }
    let accounts = touched.into_iter().map(|(address, (wiped, slots))| {
        let Some((account, words)) = before.get(&address) else {
            return AccountChange { address, account: None, wiped: true, slots: Vec::new() };
        };
        let slots = match wiped {
            true => words.iter().map(|(slot, word)| (*slot, *word)).collect(),
            false => slots
                .into_iter()
                .map(|slot| (slot, words.get(&slot).copied().unwrap_or_default()))
                .collect(),
        };
        AccountChange { address, account: Some(*account), wiped, slots }
    });
    StateChanges { accounts: accounts.collect(), codes: Vec::new() }
}

proptest! {
    #![proptest_config(cases(192))]

    #[test]
    fn undone_blocks_and_withdrawn_checkpoints_leave_no_trace(
        blocks in prop::collection::vec(
            (prop::collection::vec(step(), 0..12), event()), 1..40),
    ) {
        let mut live = LiveTrie::new(EMPTY_ROOT_HASH, 0);
        let (mut store, mut taken) = (Store::default(), VecDeque::new());
        let none = StateChanges::default();
        let first = Past {
            model: Model::new(), pure: Store::default(), root: EMPTY_ROOT_HASH, changes: none,
        };
        // The index of a block in `chain` is its number.
        let (mut chain, mut written) = (vec![first], 0);
        for (steps, event) in &blocks {
            let changes = changes_of(steps);
            let mut next = chain[chain.len() - 1].clone();
            apply(&mut next.model, &changes);
            let expected = state_root_from_scratch(next.model.iter().map(
                |(address, (account, slots))| {
                    (*address, *account, slots.iter().map(|(&slot, &value)| (slot, value)))
                },
            ));
            prop_assert_eq!(live.update(&store, &changes).unwrap(), expected);
            let (root, updates) = update_state_root(&next.pure, &changes, next.root).unwrap();
            next.pure.update(&updates);
            (next.root, next.changes) = (root, changes);
            chain.push(next);
            match event {
                Event::Nothing => {}
                Event::Checkpoint => taken.push_back(live.checkpoint(chain.len() as u64 - 1)),
                Event::Write => {
                    if let Some(checkpoint) = taken.pop_front() {
                        store.write(&checkpoint);
                        live.written(checkpoint.number);
                        written = checkpoint.number as usize;
                    }
                }
                Event::Undo(count) => {
                    let kept = (chain.len() - count.min(&(chain.len() - 1))).max(written + 1);
                    let undone = chain.split_off(kept);
                    let target = &chain[kept - 1];
                    live.withdraw_above(kept as u64 - 1);
                    taken.retain(|checkpoint: &TrieCheckpoint| checkpoint.number < kept as u64);
                    let root = live.update(&store, &inverse(&target.model, &undone)).unwrap();
                    prop_assert_eq!(root, target.root);
                }
            }
            // Eviction must not free nodes whose records were only in a withdrawn checkpoint.
            live.limit = 0;
            live.evict();
            live.limit = usize::MAX;
        }
        taken.push_back(live.checkpoint(chain.len() as u64 - 1));
        taken.iter().for_each(|checkpoint| store.write(checkpoint));
        prop_assert_eq!(&store, &chain[chain.len() - 1].pure);
    }
}
