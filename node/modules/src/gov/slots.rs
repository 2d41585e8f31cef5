//! Determines which proposal or deposit a new one replaces if all slots are in use, since rules version 1. Only a
//! larger deposit can take a slot, so no account can prevent others from proposing or depositing by paying less.

use super::{
    limits::{MAX_DEPOSITS, MAX_VOTING, MAX_WAITING},
    session::amount_of,
    state::{Entry, GovState},
};
use alloy_primitives::{Address, U256};
use proto::cosmos::gov::v1::ProposalStatus;
use std::cmp::Reverse;
use transactions::cosmos::{Refusal, invalid_proposal};

fn total(entry: &Entry) -> U256 {
    amount_of(&entry.head.total_deposit)
}

fn with_status(state: &GovState, status: ProposalStatus) -> impl Iterator<Item = &Entry> {
    state.entries().filter(move |entry| entry.status() == status)
}

/// Returns whether another voting period can start now.
pub(super) fn may_open(state: &GovState) -> bool {
    with_status(state, ProposalStatus::VotingPeriod).count() < MAX_VOTING
}

/// Returns the waiting proposal that a new one with this deposit replaces; `None` if there is a free slot.
pub(super) fn replaced_proposal(state: &GovState, deposit: U256) -> Result<Option<u64>, Refusal> {
    let waiting = || with_status(state, ProposalStatus::DepositPeriod);
    if waiting().count() < MAX_WAITING {
        return Ok(None);
    }
    // Of equal ones, the newest is replaced, so that repeated submissions cannot take the slot of an older one.
    let smallest = waiting().min_by_key(|entry| (total(entry), Reverse(entry.id())));
    match smallest {
        Some(entry) if total(entry) < deposit => Ok(Some(entry.id())),
        smallest => Err(invalid_proposal(format!(
            "{MAX_WAITING} proposals wait for deposits, which is the maximum, and the initial deposit of {deposit} is \
             not above the smallest of theirs, {}",
            smallest.map(total).unwrap_or_default()
        ))),
    }
}

/// Returns the account whose deposit a new one of this amount replaces; `None` if there is a free slot.
pub(super) fn replaced_depositor(entry: &Entry, amount: U256) -> Result<Option<Address>, Refusal> {
    if entry.deposits.len() < MAX_DEPOSITS {
        return Ok(None);
    }
    let amount_at = |address: &Address| amount_of(&entry.deposits[address].item.amount);
    let smallest = entry.deposits.keys().min_by_key(|address| (amount_at(address), **address));
    match smallest {
        Some(address) if amount_at(address) < amount => Ok(Some(*address)),
        smallest => Err(invalid_proposal(format!(
            "proposal {} has {MAX_DEPOSITS} deposits, which is the maximum, and {amount} is not above the smallest of \
             them, {}",
            entry.id(),
            smallest.map(amount_at).unwrap_or_default()
        ))),
    }
}

/// Returns the proposal whose voting period starts next: the one with the largest deposit of those that wait
/// although they have the required deposit.
pub(super) fn next_to_open(state: &GovState, is_funded: impl Fn(&Entry) -> bool) -> Option<u64> {
    if !may_open(state) {
        return None;
    }
    let funded = with_status(state, ProposalStatus::DepositPeriod).filter(|entry| is_funded(entry));
    funded.max_by_key(|entry| (total(entry), Reverse(entry.id()))).map(Entry::id)
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
