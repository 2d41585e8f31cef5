//! Adds deposits to proposals. The voting period starts when the total is sufficient.

use super::{
    limits::MAX_DEPOSITS,
    session::{Bank, Session, amount_of, inactive, timestamp},
    slots,
    state::{Placed, push_item},
};
use alloy_primitives::{Address, U256};
use keys::bech32;
use proto::cosmos::{
    base::v1beta1::Coin,
    gov::v1::{Deposit as StoredDeposit, ProposalStatus},
};
use std::sync::Arc;
use transactions::cosmos::{Deposit, Refusal, gov_address, min_deposit_too_small};

impl Session<'_> {
    /// Formats an amount as in the errors of the SDK; empty if it is zero.
    pub(super) fn coin_text(&self, amount: U256) -> String {
        let denom = &self.rules.modules.evm.evm_denom;
        if amount.is_zero() { String::new() } else { format!("{amount}{denom}") }
    }

    /// Since rules version 1: checks that a deposit is at least the minimum share of the required deposit.
    pub(super) fn check_deposit(&self, amount: U256, expedited: bool) -> Result<(), Refusal> {
        let least = self.rules.params.min_single_deposit(expedited);
        if !self.is_version_1() || amount >= least {
            return Ok(());
        }
        let [amount, least] = [amount, least].map(|amount| self.coin_text(amount));
        Err(min_deposit_too_small(format!(
            "received {amount} but need at least one of the following: {least}"
        )))
    }

    /// Adds a deposit to a proposal. Returns whether this started the voting period.
    ///
    /// # Errors
    /// Those of [`Self::submit`].
    pub fn deposit<B: Bank>(
        &mut self,
        bank: &mut B,
        deposit: &Deposit,
    ) -> Result<Result<bool, Refusal>, B::Error> {
        self.add_deposit(bank, deposit.proposal, deposit.depositor.address, deposit.amount)
    }

    pub(super) fn add_deposit<B: Bank>(
        &mut self,
        bank: &mut B,
        id: u64,
        from: Address,
        amount: U256,
    ) -> Result<Result<bool, Refusal>, B::Error> {
        let replaced = match self.replaced_depositor(id, from, amount) {
            Ok(replaced) => replaced,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Err(refusal) = bank.transfer(from, Some(gov_address()), amount)? {
            return Ok(Err(refusal));
        }
        if let Some(replaced) = replaced {
            self.return_deposit(bank, id, replaced)?;
        }
        let coins = self.coins(amount);
        let total = amount_of(&self.entry_mut(id).head.total_deposit).saturating_add(amount);
        let sum = self.coins(total);
        let depositor = bech32(self.rules.prefix, from);
        let (params, may_open) = (self.rules.params, self.may_open());
        let entry = self.entry_mut(id);
        match entry.deposits.get(&from) {
            Some(known) => {
                let mut item = known.item.clone();
                add(&mut item.amount, amount);
                let placed = Placed { position: known.position, item };
                entry.deposits.insert(from, Arc::new(placed));
            }
            None => {
                let deposit = StoredDeposit { proposal_id: id, depositor, amount: coins };
                push_item(&mut entry.deposits, from, deposit);
            }
        }
        let head = &mut entry.head;
        head.total_deposit = sum;
        let waits = head.status() == ProposalStatus::DepositPeriod;
        let opens = waits && may_open && total >= params.required_deposit(head.expedited);
        if opens {
            self.open(id);
        }
        Ok(Ok(opens))
    }

    fn may_open(&self) -> bool {
        !self.is_version_1() || slots::may_open(self.state())
    }

    /// Returns the account whose deposit a new one replaces; `None` if no deposit has to be replaced.
    fn replaced_depositor(
        &self,
        id: u64,
        from: Address,
        amount: U256,
    ) -> Result<Option<Address>, Refusal> {
        let entry = self.active(id).ok_or_else(|| inactive(id))?;
        self.check_deposit(amount, entry.head.expedited)?;
        if entry.deposits.contains_key(&from) {
            return Ok(None);
        }
        if self.is_version_1() {
            return slots::replaced_depositor(entry, amount);
        }
        if entry.deposits.len() >= MAX_DEPOSITS {
            let text = format!("{MAX_DEPOSITS} accounts have put something down for proposal {id}");
            return Err(transactions::cosmos::invalid_proposal(text));
        }
        Ok(None)
    }

    /// Starts the voting period of a proposal.
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
