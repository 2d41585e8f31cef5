//! Roots of complete states computed from scratch: the oracle of tests, and a cross-check of a genesis.

use alloy_primitives::{Address, B256, U256};
use alloy_trie::TrieAccount;
use alloy_trie::root as scratch;

use super::EMPTY_ROOT_HASH;
use crate::Account;

/// Returns the root of a storage trie with these slots. Slots with value zero count as unset.
pub fn storage_root_from_scratch(slots: impl IntoIterator<Item = (U256, U256)>) -> B256 {
    let set = slots.into_iter().filter(|(_, value)| !value.is_zero());
    scratch::storage_root_unhashed(set.map(|(slot, value)| (B256::from(slot), value)))
}

/// Returns the root of the state with these accounts and their slots: the oracle for
/// [`super::update_state_root`], and a cross-check of a genesis.
pub fn state_root_from_scratch<S>(accounts: impl IntoIterator<Item = (Address, Account, S)>) -> B256
where
    S: IntoIterator<Item = (U256, U256)>,
{
    let accounts = accounts.into_iter().map(|(address, account, slots)| {
        (address, trie_account(&account, storage_root_from_scratch(slots)))
    });
    let accounts: Vec<_> = accounts.collect();
    if accounts.is_empty() { EMPTY_ROOT_HASH } else { scratch::state_root_unhashed(accounts) }
}

/// Returns the account in the format of its leaf.
pub(super) fn trie_account(account: &Account, storage_root: B256) -> TrieAccount {
    TrieAccount::new(account.nonce, account.balance, storage_root, account.code_hash)
}
