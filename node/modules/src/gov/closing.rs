//! The end of a block: closes proposals whose periods have ended, returns or burns their deposits, and executes
//! passed proposals.

use super::{
    limits::MAX_FINISHED,
    session::{Bank, Ended, Session, amount_of, dropped_event, event, timestamp},
    slots,
    state::Entry,
    tally::tally,
};
use alloy_primitives::{Address, U256};
use feemarket::store::StoredEvent;
use proto::cosmos::gov::v1::ProposalStatus;
use std::sync::Arc;
use transactions::cosmos::{gov_address, read_update};

impl Session<'_> {
    /// Ends the block: removes proposals without enough deposit, tallies proposals whose voting period has
    /// ended, and executes passed ones.
    ///
    /// # Errors
    /// If the state cannot be read.
    ///
    /// # Panics
    /// If the balance of the governance account is below the sum of all deposits.
    pub fn end<B: Bank>(mut self, bank: &mut B) -> Result<Ended, B::Error> {
        let shared = std::mem::take(&mut self.events);
        let events = shared.into_iter().map(Arc::unwrap_or_clone).collect();
        let mut ended = Ended { events, ..Ended::default() };
        let due: Vec<_> =
            self.state().entries().filter(|entry| self.is_due(entry)).map(Entry::id).collect();
        for id in due {
            let entry = self.active(id).expect("the id was just found");
            if entry.status() == ProposalStatus::DepositPeriod {
                self.drop_proposal(bank, id, self.rules.params.burn_proposal_deposit_prevote)?;
                ended.events.push(dropped_event(id));
            } else {
                self.close(bank, id, &mut ended)?;
            }
        }
        self.open_waiting(&mut ended);
        self.remove_oldest_finished();
        let (height, version) = (self.height, self.rules.version);
        let before = &self.rules.modules.gov;
        ended.changed = self.state.map(|state| before.changed(state, height, version));
        Ok(ended)
    }

    /// Returns whether the proposal has the deposit that starts its voting period.
    fn is_funded(&self, entry: &Entry) -> bool {
        let needed = self.rules.params.required_deposit(entry.head.expedited);
        amount_of(&entry.head.total_deposit) >= needed
    }

    /// Returns whether the period of an active proposal has ended. Since rules version 1, a funded proposal that
    /// waits for another vote to end has no deadline.
    fn is_due(&self, entry: &Entry) -> bool {
        let end = match entry.status() {
            ProposalStatus::DepositPeriod if self.is_version_1() && self.is_funded(entry) => None,
            ProposalStatus::DepositPeriod => entry.head.deposit_end_time,
            ProposalStatus::VotingPeriod => entry.head.voting_end_time,
            _ => None,
        };
        end.is_some_and(|end| end.seconds.unsigned_abs() <= self.time)
    }

    /// Starts voting periods that had to wait for a free slot, largest deposits first.
    fn open_waiting(&mut self, ended: &mut Ended) {
        if !self.is_version_1() {
            return;
        }
        while let Some(id) = slots::next_to_open(self.state(), |entry| self.is_funded(entry)) {
            self.open(id);
            let started = [("voting_period_start", id.to_string())];
            ended.events.push(event("proposal_deposit", id, &started));
        }
    }

    /// Tallies the votes on a proposal and applies the result.
    fn close<B: Bank>(&mut self, bank: &mut B, id: u64, ended: &mut Ended) -> Result<(), B::Error> {
        let params = self.rules.params;
        let entry = self.state().entry(id).expect("the id was just found");
        let count = tally(params, entry.votes().map(|(address, vote)| (vote, *address)));
        let expedited = entry.head.expedited;
        let verdict = count.verdict(params, expedited);
        let (time, start) = (self.time, entry.head.voting_start_time);
        if expedited && !verdict.passes {
            // As in the SDK, the proposal becomes an ordinary one and keeps its votes.
            let head = &mut self.entry_mut(id).head;
            head.expedited = false;
            let start = start.map_or(time, |start| start.seconds.unsigned_abs());
            let end = start.saturating_add(params.voting_period);
            if end > time {
                head.voting_end_time = timestamp(end);
                return Ok(());
            }
        }
        self.settle(bank, id, verdict.burns)?;
        let status = match verdict.passes.then(|| self.execute(id, ended)) {
            None => ProposalStatus::Rejected,
            Some(Ok(())) => ProposalStatus::Passed,
            Some(Err(reason)) => {
                self.entry_mut(id).head.failed_reason = reason;
                ProposalStatus::Failed
            }
        };
        ended.events.push(result_event(id, status));
        let entry = self.entry_mut(id);
        entry.votes.clear();
        entry.head.final_tally_result = Some(count.to_proto());
        entry.head.set_status(status);
        Ok(())
    }

    /// Executes the messages of a proposal: all of them, or none.
    fn execute(&self, id: u64, ended: &mut Ended) -> Result<(), String> {
        let mut modules = self.rules.modules.clone();
        for update in &ended.updates {
            modules.update(update.clone()).expect("the update was accepted before");
        }
        let mut updates = Vec::new();
        let entry = self.state().entry(id).expect("the caller found it");
        for message in &entry.content().parts.messages {
            let update = read_update(message).map_err(|refusal| refusal.to_string())?;
            modules.update(update.clone()).map_err(|error| error.to_string())?;
            updates.push(update);
        }
        ended.updates.append(&mut updates);
        Ok(())
    }

    /// Removes a proposal that is in its deposit period.
    pub(super) fn drop_proposal<B: Bank>(
        &mut self,
        bank: &mut B,
        id: u64,
        burns: bool,
    ) -> Result<(), B::Error> {
        self.settle(bank, id, burns)?;
        self.state_mut().entries.remove(&id);
        Ok(())
    }

    /// Returns the deposits of a proposal, or burns them.
    fn settle<B: Bank>(&mut self, bank: &mut B, id: u64, burns: bool) -> Result<(), B::Error> {
        for (address, placed) in std::mem::take(&mut self.entry_mut(id).deposits) {
            let amount = amount_of(&placed.item.amount);
            pay_out(bank, (!burns).then_some(address), amount)?;
        }
        Ok(())
    }

    /// Returns one deposit of a proposal that is still active.
    pub(super) fn return_deposit<B: Bank>(
        &mut self,
        bank: &mut B,
        id: u64,
        address: Address,
    ) -> Result<(), B::Error> {
        let Some(returned) = self.entry_mut(id).deposits.remove(&address) else { return Ok(()) };
        let amount = amount_of(&returned.item.amount);
        let total = amount_of(&self.entry_mut(id).head.total_deposit);
        self.entry_mut(id).head.total_deposit = self.coins(total.saturating_sub(amount));
        let attributes =
            [("depositor", returned.item.depositor.clone()), ("amount", amount.to_string())];
        self.events.push(Arc::new(event("deposit_returned", id, &attributes)));
        pay_out(bank, Some(address), amount)
    }

    /// Removes the oldest finished proposals above the limit.
    fn remove_oldest_finished(&mut self) {
        let finished = self.state().entries().filter(|entry| !entry.is_active()).count();
        let surplus = finished.saturating_sub(MAX_FINISHED);
        let ids = self.state().entries().filter(|entry| !entry.is_active()).map(Entry::id);
        let removed: Vec<_> = ids.take(surplus).collect();
        for id in removed {
            self.state_mut().entries.remove(&id);
        }
    }
}

/// Pays an amount from the account of governance; burns it if there is no recipient.
fn pay_out<B: Bank>(bank: &mut B, to: Option<Address>, amount: U256) -> Result<(), B::Error> {
    let paid = bank.transfer(gov_address(), to, amount)?;
    paid.expect("deposits are in the account of governance, which has no key");
    Ok(())
}

fn result_event(id: u64, status: ProposalStatus) -> StoredEvent {
    let result = match status {
        ProposalStatus::Passed => "proposal_passed",
        ProposalStatus::Failed => "proposal_failed",
        _ => "proposal_rejected",
    };
    event("active_proposal", id, &[("proposal_result", result.to_owned())])
}
