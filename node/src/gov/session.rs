//! One block of governance: messages as they come, then the votes whose time is over.

use super::{
    GovParams, Governance,
    limits::{MAX_ACTIVE, MAX_DEPOSITS, MAX_FINISHED},
    tally::{Tally, tally},
};
use crate::{
    account::{bech32, decode_any},
    cosmos::{Deposit, Refusal, Submission, Vote, gov_address, read_update},
    feemarket::{
        Market,
        store::{Attribute, StoredEvent},
    },
    modules::{Modules, Update},
    proto::{
        cosmos::{
            base::v1beta1::Coin,
            gov::v1::{
                Deposit as StoredDeposit, Proposal, ProposalStatus, Vote as StoredVote,
                WeightedVoteOption,
            },
        },
        evmd::gov::v1::State,
    },
};
use alloy_primitives::{Address, Bytes, U256};
use prost_types::Timestamp;

/// Moves tokens in the state of the block.
pub trait Bank {
    /// Why state cannot be read.
    type Error;

    /// Moves an amount, or says that the giver has less.
    ///
    /// # Errors
    /// The outer error is a failed read, the inner one a refusal.
    fn transfer(
        &mut self,
        from: Address,
        to: Option<Address>,
        amount: U256,
    ) -> Result<Result<(), Refusal>, Self::Error>;
}

/// What a session goes by.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// Periods, deposits, voters.
    pub params: &'a GovParams,
    /// Prefix of addresses.
    pub prefix: &'a str,
    /// The modules at the beginning of the block.
    pub modules: &'a Modules,
}

/// Governance within a block.
#[derive(Clone, Debug)]
pub struct Session<'a> {
    rules: Rules<'a>,
    /// Copied from the modules at the first change.
    state: Option<State>,
    height: u64,
    time: u64,
}

/// What a block leaves behind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ended {
    /// Governance after it, and the bytes to store with it, if it changed anything.
    pub changed: Option<(Governance, Bytes)>,
    /// New parameters of modules, in order. Each is one that [`Modules::update`] accepts.
    pub updates: Vec<Update>,
    /// What became of which proposal.
    pub events: Vec<StoredEvent>,
}

impl<'a> Session<'a> {
    /// Begins the block of this height and time, in seconds.
    pub const fn new(rules: Rules<'a>, height: u64, time: u64) -> Self {
        Self { rules, state: None, height, time }
    }

    /// The token.
    pub fn denom(&self) -> &'a str {
        &self.rules.modules.evm.evm_denom
    }

    /// The fee market at the beginning of the block.
    pub const fn market(&self) -> &'a Market {
        &self.rules.modules.market
    }

    pub(super) fn state(&self) -> &State {
        self.state.as_ref().unwrap_or_else(|| self.rules.modules.gov.state())
    }

    pub(super) fn state_mut(&mut self) -> &mut State {
        self.state.get_or_insert_with(|| self.rules.modules.gov.state().clone())
    }

    fn coins(&self, amount: U256) -> Vec<Coin> {
        if amount.is_zero() {
            return Vec::new();
        }
        vec![Coin { denom: self.rules.modules.evm.evm_denom.clone(), amount: amount.to_string() }]
    }

    /// Opens a proposal; gives its id.
    ///
    /// # Errors
    /// As [`Bank::transfer`]; the session is then as before.
    pub fn submit<B: Bank>(
        &mut self,
        bank: &mut B,
        submission: &Submission,
    ) -> Result<Result<u64, Refusal>, B::Error> {
        let active = self.state().proposals.iter().filter(|proposal| is_active(proposal)).count();
        if active >= MAX_ACTIVE {
            let text = format!("{active} proposals are open, which is the most there may be");
            return Ok(Err(crate::cosmos::invalid_proposal(text)));
        }
        let message = &submission.message;
        let id = self.state().last_id.saturating_add(1);
        let end = self.time.saturating_add(self.rules.params.max_deposit_period);
        let proposal = Proposal {
            id,
            messages: message.messages.clone(),
            status: ProposalStatus::DepositPeriod.into(),
            final_tally_result: Some(Tally::default().to_proto()),
            submit_time: timestamp(self.time),
            deposit_end_time: timestamp(end),
            metadata: message.metadata.clone(),
            title: message.title.clone(),
            summary: message.summary.clone(),
            proposer: message.proposer.clone(),
            expedited: message.expedited,
            ..Proposal::default()
        };
        let state = self.state_mut();
        state.last_id = id;
        state.proposals.push(proposal);
        let proposer = submission.proposer.address;
        if submission.deposit.is_zero() {
            return Ok(Ok(id));
        }
        Ok(self.put_down(bank, id, proposer, submission.deposit)?.map(|_| id))
    }

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

    fn put_down<B: Bank>(
        &mut self,
        bank: &mut B,
        id: u64,
        from: Address,
        amount: U256,
    ) -> Result<Result<bool, Refusal>, B::Error> {
        let Some(at) = self.active(id) else { return Ok(Err(inactive(id))) };
        let depositor = bech32(self.rules.prefix, from);
        let of_proposal = self.state().deposits.iter().filter(|deposit| deposit.proposal_id == id);
        let known = of_proposal.clone().any(|deposit| deposit.depositor == depositor);
        if !known && of_proposal.count() >= MAX_DEPOSITS {
            let text = format!("{MAX_DEPOSITS} accounts have put something down for proposal {id}");
            return Ok(Err(crate::cosmos::invalid_proposal(text)));
        }
        if let Err(refusal) = bank.transfer(from, Some(gov_address()), amount)? {
            return Ok(Err(refusal));
        }
        let total = amount_of(&self.state().proposals[at].total_deposit).saturating_add(amount);
        let coins = self.coins(amount);
        let sum = self.coins(total);
        let (time, params) = (self.time, self.rules.params);
        let state = self.state_mut();
        let entry = |deposit: &&mut StoredDeposit| {
            deposit.proposal_id == id && deposit.depositor == depositor
        };
        match state.deposits.iter_mut().find(entry) {
            Some(deposit) => add(&mut deposit.amount, amount),
            None => {
                state.deposits.push(StoredDeposit { proposal_id: id, depositor, amount: coins });
                state.deposits.sort_by_key(|deposit| deposit.proposal_id);
            }
        }
        let proposal = &mut state.proposals[at];
        proposal.total_deposit = sum;
        let waits = proposal.status() == ProposalStatus::DepositPeriod;
        let opens = waits && total >= params.needed_deposit(proposal.expedited);
        if opens {
            proposal.set_status(ProposalStatus::VotingPeriod);
            proposal.voting_start_time = timestamp(time);
            let seconds = params.voting_seconds(proposal.expedited);
            proposal.voting_end_time = timestamp(time.saturating_add(seconds));
        }
        Ok(Ok(opens))
    }

    /// Takes a vote; a later one replaces it.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn vote(&mut self, vote: &Vote) -> Result<(), Refusal> {
        let id = vote.proposal;
        let at = self.active(id).ok_or_else(|| inactive(id))?;
        if self.state().proposals[at].status() != ProposalStatus::VotingPeriod {
            return Err(inactive(id));
        }
        let voter = bech32(self.rules.prefix, vote.voter.address);
        if self.rules.params.power(vote.voter.address).is_none() {
            return Err(crate::cosmos::no_voter(format!(
                "{voter} is none of the genesis validators, who alone vote"
            )));
        }
        let option = WeightedVoteOption {
            option: vote.option.into(),
            weight: "1.000000000000000000".to_owned(),
        };
        let state = self.state_mut();
        state.votes.retain(|known| known.proposal_id != id || known.voter != voter);
        state.votes.push(StoredVote {
            proposal_id: id,
            voter,
            options: vec![option],
            metadata: vote.metadata.clone(),
        });
        state.votes.sort_by_key(|vote| vote.proposal_id);
        Ok(())
    }

    /// Where a proposal is that is not over.
    fn active(&self, id: u64) -> Option<usize> {
        let proposals = &self.state().proposals;
        let at = proposals.binary_search_by_key(&id, |proposal| proposal.id).ok()?;
        is_active(&proposals[at]).then_some(at)
    }

    /// Ends the block: proposals without deposit go, votes whose time is over are counted, and what
    /// passes is executed.
    ///
    /// # Errors
    /// When state cannot be read.
    ///
    /// # Panics
    /// If the account of governance has less than was put down.
    pub fn end<B: Bank>(mut self, bank: &mut B) -> Result<Ended, B::Error> {
        let mut ended = Ended::default();
        let due: Vec<_> =
            self.state().proposals.iter().filter(|p| is_due(p, self.time)).map(|p| p.id).collect();
        for id in due {
            let at = self.active(id).expect("it was just found");
            if self.state().proposals[at].status() == ProposalStatus::DepositPeriod {
                self.settle(bank, id, self.rules.params.burn_proposal_deposit_prevote)?;
                self.state_mut().proposals.remove(at);
                ended.events.push(result_event("inactive_proposal", id, "proposal_dropped"));
            } else {
                self.close(bank, at, &mut ended)?;
            }
        }
        self.forget_oldest();
        ended.changed = self.state.map(|state| Governance::changed(state, self.height));
        Ok(ended)
    }

    /// Counts the votes on a proposal and does what they say.
    fn close<B: Bank>(
        &mut self,
        bank: &mut B,
        at: usize,
        ended: &mut Ended,
    ) -> Result<(), B::Error> {
        let id = self.state().proposals[at].id;
        let params = self.rules.params;
        let votes = self.state().votes.iter().filter(|vote| vote.proposal_id == id);
        let count = tally(params, votes.map(|vote| (vote, address(&vote.voter))));
        let expedited = self.state().proposals[at].expedited;
        let verdict = count.verdict(params, expedited);
        let (time, start) = (self.time, self.state().proposals[at].voting_start_time);
        if expedited && !verdict.passes {
            // As in the SDK: it goes on as an ordinary proposal, with the votes it has.
            let proposal = &mut self.state_mut().proposals[at];
            proposal.expedited = false;
            let start = start.map_or(time, |start| start.seconds.unsigned_abs());
            let end = start.saturating_add(params.voting_period);
            if end > time {
                proposal.voting_end_time = timestamp(end);
                return Ok(());
            }
        }
        self.settle(bank, id, verdict.burns)?;
        let status = match verdict.passes.then(|| self.execute(at, ended)) {
            None => ProposalStatus::Rejected,
            Some(Ok(())) => ProposalStatus::Passed,
            Some(Err(reason)) => {
                self.state_mut().proposals[at].failed_reason = reason;
                ProposalStatus::Failed
            }
        };
        let result = match status {
            ProposalStatus::Passed => "proposal_passed",
            ProposalStatus::Failed => "proposal_failed",
            _ => "proposal_rejected",
        };
        ended.events.push(result_event("active_proposal", id, result));
        let state = self.state_mut();
        state.votes.retain(|vote| vote.proposal_id != id);
        let proposal = &mut state.proposals[at];
        proposal.final_tally_result = Some(count.to_proto());
        proposal.set_status(status);
        Ok(())
    }

    /// Executes the messages of a proposal: all, or none.
    fn execute(&self, at: usize, ended: &mut Ended) -> Result<(), String> {
        let mut modules = self.rules.modules.clone();
        for update in &ended.updates {
            modules.update(update.clone()).expect("it was accepted before");
        }
        let mut updates = Vec::new();
        for message in &self.state().proposals[at].messages {
            let update = read_update(message).map_err(|refusal| refusal.to_string())?;
            modules.update(update.clone()).map_err(|error| error.to_string())?;
            updates.push(update);
        }
        ended.updates.append(&mut updates);
        Ok(())
    }

    /// Gives the deposits of a proposal back, or burns them.
    fn settle<B: Bank>(&mut self, bank: &mut B, id: u64, burns: bool) -> Result<(), B::Error> {
        let state = self.state_mut();
        let (mine, others) = std::mem::take(&mut state.deposits)
            .into_iter()
            .partition::<Vec<_>, _>(|deposit| deposit.proposal_id == id);
        state.deposits = others;
        for deposit in mine {
            let to = (!burns).then(|| address(&deposit.depositor));
            let paid = bank.transfer(gov_address(), to, amount_of(&deposit.amount))?;
            paid.expect("deposits lie in the account of governance, which nobody signs for");
        }
        Ok(())
    }

    /// Keeps the newest of the proposals that are over.
    fn forget_oldest(&mut self) {
        let over = self.state().proposals.iter().filter(|proposal| !is_active(proposal)).count();
        let mut surplus = over.saturating_sub(MAX_FINISHED);
        if surplus > 0 {
            self.state_mut().proposals.retain(|proposal| {
                let goes = surplus > 0 && !is_active(proposal);
                surplus -= usize::from(goes);
                !goes
            });
        }
    }
}

fn result_event(kind: &str, id: u64, result: &str) -> StoredEvent {
    let attributes = [("proposal_id", id.to_string()), ("proposal_result", result.to_owned())];
    let attribute = |(key, value): (&str, String)| Attribute { key: key.to_owned(), value };
    StoredEvent { kind: kind.to_owned(), attributes: attributes.map(attribute).to_vec() }
}

fn is_active(proposal: &Proposal) -> bool {
    matches!(proposal.status(), ProposalStatus::DepositPeriod | ProposalStatus::VotingPeriod)
}

/// Its time is over at `time`.
fn is_due(proposal: &Proposal, time: u64) -> bool {
    let end = match proposal.status() {
        ProposalStatus::DepositPeriod => proposal.deposit_end_time,
        ProposalStatus::VotingPeriod => proposal.voting_end_time,
        _ => None,
    };
    end.is_some_and(|end| end.seconds.unsigned_abs() <= time)
}

fn inactive(id: u64) -> Refusal {
    crate::cosmos::inactive_proposal(id.to_string())
}

fn timestamp(seconds: u64) -> Option<Timestamp> {
    Some(Timestamp { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 })
}

/// An address that was written here.
fn address(text: &str) -> Address {
    let bytes = decode_any(text).map(|(_, bytes)| bytes).unwrap_or_default();
    Address::try_from(bytes.as_slice()).expect("addresses of the state were written by us")
}

fn amount_of(coins: &[Coin]) -> U256 {
    let amount = |coin: &Coin| coin.amount.parse::<U256>().ok();
    coins.first().and_then(amount).unwrap_or_default()
}

fn add(coins: &mut [Coin], amount: U256) {
    if let Some(coin) = coins.first_mut() {
        let sum = amount_of(std::slice::from_ref(coin)).saturating_add(amount);
        coin.amount = sum.to_string();
    }
}
