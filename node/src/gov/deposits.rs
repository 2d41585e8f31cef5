//! Deposits for proposals, and the opening of a vote by them.

use super::{
    limits::MAX_DEPOSITS,
    session::{Bank, Session, amount_of, inactive, timestamp},
    state::{Placed, place},
};
use crate::{
    account::bech32,
    cosmos::{Deposit, Refusal, gov_address},
    proto::cosmos::{
        base::v1beta1::Coin,
        gov::v1::{Deposit as StoredDeposit, ProposalStatus},
    },
};
use alloy_primitives::{Address, U256};
use std::sync::Arc;

impl Session<'_> {
    /// Adds to a proposal's deposit; says whether that opened the vote.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn deposit<B: Bank>(
        &mut self,
        bank: &mut B,
        deposit: &Deposit,
    ) -> Result<Result<bool, Refusal>, B::Error> {
        self.put_down(bank, deposit.proposal, deposit.depositor.address, deposit.amount)
    }

    pub(super) fn put_down<B: Bank>(
        &mut self,
        bank: &mut B,
        id: u64,
        from: Address,
        amount: U256,
    ) -> Result<Result<bool, Refusal>, B::Error> {
        let Some(entry) = self.active(id) else { return Ok(Err(inactive(id))) };
        if !entry.deposits.contains_key(&from) && entry.deposits.len() >= MAX_DEPOSITS {
            let text = format!("{MAX_DEPOSITS} accounts have put something down for proposal {id}");
            return Ok(Err(crate::cosmos::invalid_proposal(text)));
        }
        if let Err(refusal) = bank.transfer(from, Some(gov_address()), amount)? {
            return Ok(Err(refusal));
        }
        let coins = self.coins(amount);
        let total = amount_of(&self.entry_mut(id).head.total_deposit).saturating_add(amount);
        let sum = self.coins(total);
        let depositor = bech32(self.rules.prefix, from);
        let params = self.rules.params;
        let entry = self.entry_mut(id);
        match entry.deposits.get(&from) {
            Some(known) => {
                let mut item = known.item.clone();
                add(&mut item.amount, amount);
                let placed = Placed { place: known.place, item };
                entry.deposits.insert(from, Arc::new(placed));
            }
            None => {
                let deposit = StoredDeposit { proposal_id: id, depositor, amount: coins };
                place(&mut entry.deposits, from, deposit);
            }
        }
        let head = &mut entry.head;
        head.total_deposit = sum;
        let waits = head.status() == ProposalStatus::DepositPeriod;
        let opens = waits && total >= params.needed_deposit(head.expedited);
        if opens {
            self.open(id);
        }
        Ok(Ok(opens))
    }

    /// Begins the vote on a proposal.
    pub(super) fn open(&mut self, id: u64) {
        let (time, params) = (self.time, self.rules.params);
        let head = &mut self.entry_mut(id).head;
        head.set_status(ProposalStatus::VotingPeriod);
        head.voting_start_time = timestamp(time);
        let seconds = params.voting_seconds(head.expedited);
        head.voting_end_time = timestamp(time.saturating_add(seconds));
    }
}

fn add(coins: &mut [Coin], amount: U256) {
    if let Some(coin) = coins.first_mut() {
        let sum = amount_of(std::slice::from_ref(coin)).saturating_add(amount);
        coin.amount = sum.to_string();
    }
}
