//! Governance within one block: first its messages, then the proposals whose periods have ended.

use super::{
    Governance,
    limits::MAX_ACTIVE,
    slots,
    state::{Entry, GovState, push_item},
    tally::Tally,
};
use crate::Modules;
use alloy_primitives::{Address, U256};
use chain::{GovParams, RulesVersion};
use feemarket::{Market, store::StoredEvent};
use keys::bech32;
use prost_types::Timestamp;
use proto::cosmos::{
    base::v1beta1::Coin,
    gov::v1::{Proposal, ProposalStatus, Vote as StoredVote, WeightedVoteOption},
};
use std::sync::Arc;
use storage::GovernanceRow;
use transactions::{
    Update,
    cosmos::{Refusal, Submission, Vote, min_deposit_too_small},
};

/// Transfers tokens in the state of the block.
pub trait Bank {
    /// The error of a failed read of the state.
    type Error;

    /// Transfers an amount, unless the sender's balance is lower. Without a recipient, the amount is burned.
    ///
    /// # Errors
    /// The outer error is a failed read; the inner one is the reason for the rejection.
    fn transfer(
        &mut self,
        from: Address,
        to: Option<Address>,
        amount: U256,
    ) -> Result<Result<(), Refusal>, Self::Error>;
}

/// The context of a session.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The parameters, including the voters.
    pub params: &'a GovParams,
    /// Prefix of addresses.
    pub prefix: &'a str,
    /// The modules at the beginning of the block.
    pub modules: &'a Modules,
    /// The version of the consensus rules.
    pub version: RulesVersion,
}

/// Governance within a block.
#[derive(Clone, Debug)]
pub struct Session<'a> {
    pub(super) rules: Rules<'a>,
    /// `None` until the first change, which clones the state of the modules.
    pub(super) state: Option<GovState>,
    pub(super) height: u64,
    pub(super) time: u64,
    /// Events about effects of messages on accounts other than their signer. They are in `Arc`s, because a session
    /// is cloned for each transaction.
    pub(super) events: Vec<Arc<StoredEvent>>,
}

/// The effects of a block on governance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ended {
    /// Governance after the block, and the rows to store with it, if it changed.
    pub changed: Option<(Governance, Vec<GovernanceRow>)>,
    /// New parameters of modules, in order. [`Modules::update`] accepts each of them.
    pub updates: Vec<Update>,
    /// Events about proposals.
    pub events: Vec<StoredEvent>,
}

impl<'a> Session<'a> {
    /// Begins the block with this height and this time, in seconds.
    pub const fn new(rules: Rules<'a>, height: u64, time: u64) -> Self {
        Self { rules, state: None, height, time, events: Vec::new() }
    }

    /// Returns the denomination of the token.
    pub fn denom(&self) -> &'a str {
        &self.rules.modules.evm.evm_denom
    }

    /// Returns the fee market at the beginning of the block.
    pub const fn market(&self) -> &'a Market {
        &self.rules.modules.market
    }

    pub(super) fn state(&self) -> &GovState {
        self.state.as_ref().unwrap_or_else(|| self.rules.modules.gov.state())
    }

    pub(super) fn state_mut(&mut self) -> &mut GovState {
        self.state.get_or_insert_with(|| self.rules.modules.gov.state().clone())
    }

    /// Returns a mutable entry of an existing proposal.
    pub(super) fn entry_mut(&mut self, id: u64) -> &mut Entry {
        self.state_mut().entry_mut(id).expect("the caller found it")
    }

    /// Returns whether rules version 1 or a later one is in force.
    pub fn is_version_1(&self) -> bool {
        self.rules.version >= RulesVersion::V1
    }

    pub(super) fn coins(&self, amount: U256) -> Vec<Coin> {
        if amount.is_zero() {
            return Vec::new();
        }
        vec![Coin { denom: self.rules.modules.evm.evm_denom.clone(), amount: amount.to_string() }]
    }

    /// Submits a proposal. Returns its id.
    ///
    /// # Errors
    /// Those of [`Bank::transfer`]. After a rejection the session may be half changed and must not be used.
    pub fn submit<B: Bank>(
        &mut self,
        bank: &mut B,
        submission: &Submission,
    ) -> Result<Result<u64, Refusal>, B::Error> {
        let replaced = match self.proposal_to_replace(submission) {
            Ok(replaced) => replaced,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let id = self.add_proposal(submission);
        let proposer = submission.proposer.address;
        if !submission.deposit.is_zero()
            && let Err(refusal) = self.add_deposit(bank, id, proposer, submission.deposit)?
        {
            return Ok(Err(refusal));
        }
        if let Some(replaced) = replaced {
            self.drop_proposal(bank, replaced, false)?;
            self.events.push(Arc::new(dropped_event(replaced)));
        }
        Ok(Ok(id))
    }

    /// Returns the proposal that a new one replaces; `None` if no proposal has to be replaced.
    fn proposal_to_replace(&self, submission: &Submission) -> Result<Option<u64>, Refusal> {
        if !self.is_version_1() {
            let active = self.state().entries().filter(|entry| entry.is_active()).count();
            if active >= MAX_ACTIVE {
                let text = format!("{active} proposals are open, which is the most there may be");
                return Err(transactions::cosmos::invalid_proposal(text));
            }
            return Ok(None);
        }
        let (deposit, expedited) = (submission.deposit, submission.message.expedited);
        let params = self.rules.params;
        let least = params.min_initial_deposit(expedited);
        if deposit < least {
            let [was, need] = [deposit, least].map(|amount| self.coin_text(amount));
            return Err(min_deposit_too_small(format!("was ({was}), need ({need})")));
        }
        // The SDK requires the minimum share of a single deposit even if there is no initial deposit.
        self.check_deposit(deposit, expedited)?;
        if deposit >= params.required_deposit(expedited) && slots::may_open(self.state()) {
            return Ok(None);
        }
        slots::replaced_proposal(self.state(), deposit)
    }

    /// Adds a proposal in its deposit period.
    fn add_proposal(&mut self, submission: &Submission) -> u64 {
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
        state.insert(Entry::new(proposal));
        id
    }

    /// Adds a vote. A later vote of the same account replaces it.
    ///
    /// # Errors
    /// The reason for the rejection.
    pub fn vote(&mut self, vote: &Vote) -> Result<(), Refusal> {
        let id = vote.proposal;
        let entry = self.active(id).ok_or_else(|| inactive(id))?;
        if entry.status() != ProposalStatus::VotingPeriod {
            return Err(inactive(id));
        }
        let address = vote.voter.address;
        let voter = bech32(self.rules.prefix, address);
        if self.rules.params.power(address).is_none() {
            return Err(transactions::cosmos::no_voter(format!(
                "{voter} is none of the genesis validators, who alone vote"
            )));
        }
        let option = WeightedVoteOption {
            option: vote.option.into(),
            weight: "1.000000000000000000".to_owned(),
        };
        let metadata = vote.metadata.clone();
        let vote = StoredVote { proposal_id: id, voter, options: vec![option], metadata };
        push_item(&mut self.entry_mut(id).votes, address, vote);
        Ok(())
    }

    /// Returns a proposal that is still active.
    pub(super) fn active(&self, id: u64) -> Option<&Entry> {
        self.state().entry(id).filter(|entry| entry.is_active())
    }
}

pub(super) fn dropped_event(id: u64) -> StoredEvent {
    event("inactive_proposal", id, &[("proposal_result", "proposal_dropped".to_owned())])
}

/// Creates an event about a proposal.
pub(super) fn event(kind: &str, id: u64, attributes: &[(&str, String)]) -> StoredEvent {
    StoredEvent::new(kind, &[&[("proposal_id", id.to_string())], attributes].concat())
}

pub(super) fn inactive(id: u64) -> Refusal {
    transactions::cosmos::inactive_proposal(id.to_string())
}

pub(super) fn timestamp(seconds: u64) -> Option<Timestamp> {
    Some(Timestamp { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 })
}

pub(super) fn amount_of(coins: &[Coin]) -> U256 {
    let amount = |coin: &Coin| coin.amount.parse::<U256>().ok();
    coins.first().and_then(amount).unwrap_or_default()
}
