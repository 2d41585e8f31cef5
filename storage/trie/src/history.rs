//! Generates random histories of a small state, and defines a simple model to compare them with.

use std::collections::BTreeMap;

use crate::{Account, AccountChange, StateChanges};
use alloy_primitives::{Address, U256, keccak256};
use proptest::prelude::*;

/// Maximum number of accounts.
pub(crate) const ACCOUNTS: u8 = 40;
/// Maximum number of slots per account.
pub(crate) const SLOTS: u8 = 24;

/// The model: accounts and their slots.
pub(crate) type Model = BTreeMap<Address, (Account, BTreeMap<U256, U256>)>;

/// One step of a history.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) account: u8,
    /// `None` removes the account.
    pub(crate) balance: Option<u64>,
    pub(crate) wiped: bool,
    pub(crate) slots: BTreeMap<u8, u64>,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let balance = prop_oneof![1 => Just(None), 4 => any::<u64>().prop_map(Some)];
    let value = prop_oneof![2 => Just(0), 1 => 1..200u64, 1 => any::<u64>()];
    let slots = prop::collection::btree_map(0..SLOTS, value, 0..6);
    (0..ACCOUNTS, balance, prop::bool::weighted(0.1), slots)
        .prop_map(|(account, balance, wiped, slots)| Step { account, balance, wiped, slots })
}

pub(crate) fn address(index: u8) -> Address {
    Address::from_word(keccak256([index]))
}

pub(crate) fn changes_of(steps: &[Step]) -> StateChanges {
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

pub(crate) fn apply(model: &mut Model, changes: &StateChanges) {
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
