//! Compares two branches: the state after their last common block, and the changes that lead from one to the other.

use super::{Layer, StateView};
use alloy_primitives::{Address, U256, map::HashMap};
use std::{collections::BTreeSet, sync::Arc};
use storage::{AccountChange, ReadError, StateChanges, StateRead};

/// The last common state of two branches, and their layers after it.
#[derive(Debug)]
pub struct Fork {
    /// The state after the last common block.
    pub ancestor: StateView,
    /// The layers of the first branch after it, oldest first.
    pub undone: Vec<Arc<Layer>>,
    /// The layers of the second branch after it, oldest first.
    pub applied: Vec<Arc<Layer>>,
}

impl Fork {
    /// Compares the branch that ends with `from` with the one that ends with `to`. Returns `None` if the layers
    /// since the last common block are not in memory.
    pub fn between(from: &StateView, to: &StateView) -> Option<Self> {
        let newest = from.next().min(to.next());
        let mut next = newest;
        // There are no ids below the oldest layer of a branch, so the loop ends.
        while from.id_before(next)? != to.id_before(next)? {
            next = next.checked_sub(1)?;
        }
        let after = |view: &StateView| {
            let layers = view.layers().iter().filter(|layer| layer.number() >= next);
            layers.cloned().collect()
        };
        let ancestor = from.as_of(next)?;
        Some(Self { ancestor, undone: after(from), applied: after(to) })
    }

    /// Returns the changes that undo the blocks of the first branch: the values of the common state for everything
    /// that they changed.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub fn undo_changes(&self) -> Result<StateChanges, ReadError> {
        let mut touched: HashMap<Address, Touched> = HashMap::default();
        for change in self.undone.iter().flat_map(|layer| &layer.changes().accounts) {
            let touched = touched.entry(change.address).or_default();
            touched.wiped |= change.wiped || change.account.is_none();
            touched.slots.extend(change.slots.iter().map(|(slot, _)| *slot));
        }
        let state = self.ancestor.reader()?;
        let mut accounts = Vec::with_capacity(touched.len());
        for (address, mut touched) in touched {
            let account = state.account(address)?;
            if account.is_none() {
                let slots = Vec::new();
                accounts.push(AccountChange { address, account, wiped: true, slots });
                continue;
            }
            if touched.wiped {
                // The changes of a block do not list the slots that it cleared.
                touched.slots = self.slots_of(address, state.index().slots_with_history(address)?);
            }
            let mut slots = Vec::with_capacity(touched.slots.len());
            for slot in touched.slots {
                let value = state.storage(address, slot)?;
                if !(touched.wiped && value.is_zero()) {
                    slots.push((slot, value));
                }
            }
            accounts.push(AccountChange { address, account, wiped: touched.wiped, slots });
        }
        accounts.sort_unstable_by_key(|change| change.address);
        Ok(StateChanges { accounts, codes: Vec::new() })
    }

    /// Returns the slots of an account that the common state may have: those of the index, and those of its layers.
    fn slots_of(&self, address: Address, in_index: Vec<U256>) -> BTreeSet<U256> {
        let changes = self.ancestor.layers().iter().flat_map(|layer| &layer.changes().accounts);
        let of_account = changes.filter(|change| change.address == address);
        let in_layers = of_account.flat_map(|change| change.slots.iter().map(|(slot, _)| *slot));
        in_index.into_iter().chain(in_layers).collect()
    }
}

/// The parts of an account that the undone blocks changed.
#[derive(Default)]
struct Touched {
    /// Whether the storage was cleared at least once.
    wiped: bool,
    slots: BTreeSet<U256>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::B256;
    use storage::{Account, FlushBlock, IndexDb, IndexOptions};

    fn change(address: Address, balance: Option<u64>, slots: &[(u64, u64)]) -> AccountChange {
        AccountChange {
            address,
            account: balance.map(|balance| Account {
                nonce: 1,
                balance: U256::from(balance),
                ..Account::default()
            }),
            wiped: balance.is_none(),
            slots: slots
                .iter()
                .map(|(slot, word)| (U256::from(*slot), U256::from(*word)))
                .collect(),
        }
    }

    fn extended(view: &StateView, accounts: Vec<AccountChange>) -> StateView {
        let changes = StateChanges { accounts, codes: Vec::new() };
        view.with_layer(Arc::new(view.next_layer(changes, Vec::new())), 0)
    }

    #[test]
    fn undo_restores_accounts_slots_and_cleared_storage() {
        let folder = tempfile::tempdir().unwrap();
        let index = IndexDb::open(folder.path(), IndexOptions { map_bytes: 1 << 24 }).unwrap();
        let [kept, cleared, created] = [1, 2, 3].map(Address::with_last_byte);
        let changes = StateChanges {
            accounts: vec![
                change(kept, Some(5), &[(1, 10), (2, 20)]),
                change(cleared, Some(6), &[(7, 70)]),
            ],
            codes: Vec::new(),
        };
        let hash = B256::repeat_byte(1);
        let (number, tx_hashes, posting_keys) = (0, &[][..], &[][..]);
        let block = FlushBlock { number, hash, tx_hashes, posting_keys, changes: &changes };
        index.flush(&[block]).unwrap();
        let base = StateView::before(1, index);
        // Slot 8 is only in a layer, and not in the index.
        let common = extended(&base, vec![change(cleared, Some(6), &[(8, 80)])]);
        let old = extended(&common, vec![change(kept, Some(4), &[(1, 11), (3, 30)])]);
        let old =
            extended(&old, vec![change(cleared, None, &[]), change(created, Some(1), &[(9, 9)])]);
        let new = extended(&common, vec![change(created, Some(2), &[])]);

        let fork = Fork::between(&old, &new).unwrap();
        assert_eq!(fork.ancestor.id(), common.id());
        assert_eq!((fork.undone.len(), fork.applied.len()), (2, 1));
        let undo = fork.undo_changes().unwrap();
        let restored = [
            AccountChange { wiped: false, ..change(kept, Some(5), &[(1, 10), (3, 0)]) },
            AccountChange { wiped: true, ..change(cleared, Some(6), &[(7, 70), (8, 80)]) },
            change(created, None, &[]),
        ];
        assert_eq!(undo.accounts, restored);

        // A branch and one of its own blocks.
        let fork = Fork::between(&old, &common).unwrap();
        assert_eq!((fork.undone.len(), fork.applied.len()), (2, 0));
        let fork = Fork::between(&common, &old).unwrap();
        assert_eq!((fork.undone.len(), fork.applied.len()), (0, 2));
        // A branch whose first layers are not in memory any more.
        let flushed = old.layers()[1].number();
        let layer = Arc::new(old.next_layer(StateChanges::default(), Vec::new()));
        assert!(Fork::between(&old.with_layer(layer, flushed), &new).is_none());
    }
}
