//! Returns the changes of a block between two of its transactions, and the code that the block has loaded.

use std::{collections::BTreeMap, error::Error};

use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B256, U256};
use storage::{AccountChange, StateChanges, StateRead};

use super::{BlockBuilder, Executed, ExecutionError, StateError};

impl<S, I> BlockBuilder<'_, S, I>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    /// Returns the changes of the block so far to its parent's state.
    pub fn changes_so_far(&self) -> StateChanges {
        self.machine.overlay().changes()
    }

    /// Does the same as [`Self::finish`], and also returns the hashes of all code that was loaded or deployed.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub fn finish_with_codes(
        mut self,
        ommers: &[Header],
        withdrawals: Option<&[Withdrawal]>,
    ) -> Result<(Executed, Vec<B256>), ExecutionError> {
        self.end(ommers, withdrawals)?;
        let codes = self.machine.overlay().code_hashes().collect();
        Ok((self.into_executed(), codes))
    }
}

/// Returns the changes from the state after `before` to the state after `after`, both of which are changes to `parent`.
///
/// # Errors
/// If the parent's state cannot be read.
pub fn changes_since<S>(
    parent: &S,
    before: &StateChanges,
    after: &StateChanges,
) -> Result<StateChanges, StateError>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    let mut steps = BTreeMap::new();
    for change in &before.accounts {
        steps.insert(change.address, (Some(change), None));
    }
    for change in &after.accounts {
        steps.entry(change.address).or_insert((None, None)).1 = Some(change);
    }
    let mut changes = StateChanges::default();
    for (address, (before, after)) in steps {
        if before == after {
            continue;
        }
        changes.accounts.push(account_step(parent, address, before, after)?);
    }
    Ok(changes)
}

/// Returns the changes of one account. `None` means that the account does not differ from the parent's state.
fn account_step<S>(
    parent: &S,
    address: Address,
    before: Option<&AccountChange>,
    after: Option<&AccountChange>,
) -> Result<AccountChange, StateError>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    let account = match after {
        Some(after) => after.account,
        None => parent.account(address).map_err(StateError::new)?,
    };
    let is_wiped = |change: Option<&AccountChange>| change.is_some_and(|change| change.wiped);
    let mut step = AccountChange {
        address,
        account,
        wiped: is_wiped(after) && !is_wiped(before),
        slots: after.map(|after| after.slots.clone()).unwrap_or_default(),
    };
    if account.is_none() || step.wiped {
        return Ok(step);
    }
    // A slot that is no longer listed has the parent's value again, unless the storage was cleared.
    let listed = |slot: &U256| step.slots.binary_search_by_key(slot, |(slot, _)| *slot).is_ok();
    let lost = before.into_iter().flat_map(|before| &before.slots);
    let lost: Vec<U256> = lost.map(|(slot, _)| *slot).filter(|slot| !listed(slot)).collect();
    for slot in lost {
        let value = match is_wiped(after) {
            true => U256::ZERO,
            false => parent.storage(address, slot).map_err(StateError::new)?,
        };
        step.slots.push((slot, value));
    }
    step.slots.sort_unstable_by_key(|(slot, _)| *slot);
    Ok(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Bytes;
    use proptest::prelude::*;
    use std::convert::Infallible;
    use storage::{Account, trie::EMPTY_ROOT_HASH, update_state_root};

    type Slots = BTreeMap<U256, U256>;
    /// Accounts with their storage.
    type Model = BTreeMap<Address, (Account, Slots)>;

    struct Parent(Model);

    impl StateRead for Parent {
        type Error = Infallible;

        fn account(&self, address: Address) -> Result<Option<Account>, Infallible> {
            Ok(self.0.get(&address).map(|(account, _)| *account))
        }

        fn storage(&self, address: Address, slot: U256) -> Result<U256, Infallible> {
            let found = self.0.get(&address).and_then(|(_, slots)| slots.get(&slot));
            Ok(found.copied().unwrap_or_default())
        }

        fn code(&self, _: B256) -> Result<Bytes, Infallible> {
            Ok(Bytes::new())
        }

        fn has_storage(&self, address: Address) -> Result<bool, Infallible> {
            Ok(self.0.get(&address).is_some_and(|(_, slots)| !slots.is_empty()))
        }
    }

    /// Returns the change of an account relative to the parent's state, as an overlay reports it.
    fn change(
        address: Address,
        parent: Option<&(Account, Slots)>,
        now: Option<&(Account, Slots)>,
        wiped: bool,
    ) -> Option<AccountChange> {
        let old = parent.filter(|_| !wiped).map(|(_, slots)| slots.clone()).unwrap_or_default();
        let new = now.map(|(_, slots)| slots.clone()).unwrap_or_default();
        let keys = old.keys().chain(new.keys()).copied().collect::<std::collections::BTreeSet<_>>();
        let value = |slots: &Slots, slot: &U256| slots.get(slot).copied().unwrap_or_default();
        let slots: Vec<_> = keys
            .into_iter()
            .filter(|slot| now.is_some() && value(&old, slot) != value(&new, slot))
            .map(|slot| (slot, value(&new, &slot)))
            .collect();
        let account = now.map(|(account, _)| *account);
        let same = account == parent.map(|(account, _)| *account) && slots.is_empty() && !wiped;
        (!same).then_some(AccountChange { address, account, wiped, slots })
    }

    fn entry() -> impl Strategy<Value = Option<(Account, Slots)>> {
        let slots = prop::collection::btree_map(0..4u8, 1..3u8, 0..4);
        prop::option::weighted(0.8, (0..3u64, slots)).prop_map(|entry| {
            let (nonce, slots) = entry?;
            let word = |byte: u8| U256::from(byte);
            let slots = slots.into_iter().map(|(slot, value)| (word(slot), word(value)));
            Some((Account { nonce, ..Account::default() }, slots.collect()))
        })
    }

    fn from_empty(model: &Model) -> StateChanges {
        let accounts = model.iter();
        let accounts =
            accounts.filter_map(|(address, now)| change(*address, None, Some(now), false));
        StateChanges { accounts: accounts.collect(), codes: Vec::new() }
    }

    fn root(model: &Model) -> B256 {
        update_state_root(&EmptyTrie, &from_empty(model), EMPTY_ROOT_HASH).unwrap().0
    }

    struct EmptyTrie;

    impl storage::trie::NodeRead for EmptyTrie {
        type Error = Infallible;

        fn node(
            &self,
            _: Option<B256>,
            _: &storage::trie::Nibbles,
        ) -> Result<Option<std::sync::Arc<storage::trie::Node>>, Infallible> {
            Ok(None)
        }
    }

    struct UpdatedTrie(storage::TrieUpdates);

    impl storage::trie::NodeRead for UpdatedTrie {
        type Error = Infallible;

        fn node(
            &self,
            owner: Option<B256>,
            path: &storage::trie::Nibbles,
        ) -> Result<Option<std::sync::Arc<storage::trie::Node>>, Infallible> {
            Ok(self.0.get(owner, path).flatten().cloned())
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

        /// `states` holds the states of four accounts: in the parent's state, and after some transactions.
        #[test]
        fn steps_lead_to_the_root_of_each_state(
            states in prop::collection::vec(prop::collection::vec((entry(), any::<bool>()), 4), 2..8),
        ) {
            let address = |index: usize| Address::repeat_byte(index as u8 + 1);
            let model = |state: &[(Option<(Account, Slots)>, bool)]| -> Model {
                let entries = state.iter().enumerate();
                entries.filter_map(|(at, (entry, _))| Some((address(at), entry.clone()?))).collect()
            };
            let parent = Parent(model(&states[0]));
            let (mut at, updates) =
                update_state_root(&EmptyTrie, &from_empty(&parent.0), EMPTY_ROOT_HASH).unwrap();
            let mut trie = UpdatedTrie(updates);
            let mut before = StateChanges::default();
            let mut wiped = [false; 4];
            for state in &states[1..] {
                let now = model(state);
                let mut after = StateChanges::default();
                for (index, wiped) in wiped.iter_mut().enumerate() {
                    let existed = parent.0.contains_key(&address(index));
                    // Once storage was cleared, the parent's storage is never visible again.
                    *wiped |= existed && (state[index].1 || state[index].0.is_none());
                    let (old, new) = (parent.0.get(&address(index)), now.get(&address(index)));
                    after.accounts.extend(change(address(index), old, new, *wiped));
                }
                let step = changes_since(&parent, &before, &after).unwrap();
                let (root_after, updates) = update_state_root(&trie, &step, at).unwrap();
                prop_assert_eq!(root_after, root(&now));
                trie.0.extend(&updates);
                (at, before) = (root_after, after);
            }
        }
    }
}
