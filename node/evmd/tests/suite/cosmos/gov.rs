//! Checks the governance rules block by block, without a node: which proposals pass, and what happens to the
//! deposits.

use crate::common::signed::{address_of, any, coins, signed};
use alloy_primitives::{Address, U256};
use chain::{DEV_ACCOUNTS, Genesis};
use keys::module_address;
use modules::{
    Modules,
    gov::{Bank, Ended, Entry, Governance, Rules, Session},
};
use prost_types::Any;
use proto::cosmos::gov::v1::{
    MsgDeposit, MsgSubmitProposal, MsgVote, Proposal, ProposalStatus, VoteOption,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, convert::Infallible};
use transactions::cosmos::{CosmosTx, Message, Refusal, Signatures};

/// Submission time of proposals, in seconds.
const START: u64 = 1_000;
/// Voting period in seconds.
const VOTING: u64 = 100;
/// Deposit period in seconds.
const DEPOSIT_PERIOD: u64 = 50;
/// The minimum deposit of a proposal, in atest.
const MIN_DEPOSIT: u64 = 10_000_000;
/// The initial balance of each account, in atest.
const FUNDS: u64 = 1_000_000_000;

/// Balance changes. Burned coins are credited to `None`.
#[derive(Default)]
struct Balances(BTreeMap<Option<Address>, U256>);

impl Balances {
    fn of(&self, account: usize) -> U256 {
        self.held(Some(DEV_ACCOUNTS[account].address)).wrapping_add(U256::from(FUNDS))
    }

    fn held(&self, account: Option<Address>) -> U256 {
        self.0.get(&account).copied().unwrap_or_default()
    }
}

impl Bank for Balances {
    type Error = Infallible;

    /// Wraps below zero, because the map does not contain the initial balances.
    fn transfer(
        &mut self,
        from: Address,
        to: Option<Address>,
        amount: U256,
    ) -> Result<Result<(), Refusal>, Infallible> {
        let from = self.0.entry(Some(from)).or_default();
        *from = from.wrapping_sub(amount);
        let to = self.0.entry(to).or_default();
        *to = to.wrapping_add(amount);
        Ok(Ok(()))
    }
}

/// A chain with only the governance module.
struct Chain {
    genesis: Genesis,
    modules: Modules,
    bank: Balances,
    height: u64,
}

impl Chain {
    /// Development accounts 0 to 3 have the weights 40, 30, 20 and 10. `params` overrides the SDK's parameters.
    fn new(params: &Value) -> Self {
        let mut genesis: Value = serde_json::from_str(&Genesis::native_dev(0).to_json()).unwrap();
        let gov = &mut genesis["config"]["evmd"]["gov"];
        gov["params"] = json!({
            "voting_period": format!("{VOTING}s"),
            "max_deposit_period": format!("{DEPOSIT_PERIOD}s"),
            "expedited_voting_period": "10s",
        });
        for (name, value) in params.as_object().unwrap() {
            gov["params"][name] = value.clone();
        }
        let validator =
            |(n, power): (usize, &str)| json!({ "address": address_of(n), "power": power });
        gov["validators"] =
            ["40", "30", "20", "10"].into_iter().enumerate().map(validator).collect();
        let genesis = Genesis::from_json(&genesis.to_string()).unwrap();
        let modules = Modules::genesis(genesis.spec.native().unwrap());
        Self { genesis, modules, bank: Balances::default(), height: 0 }
    }

    /// Executes a block with these messages, each with its sender; returns the outcomes of the block and of each
    /// message. `time` is in seconds.
    fn block(&mut self, time: u64, txs: Vec<(usize, Any)>) -> (Ended, Vec<Result<(), Refusal>>) {
        self.height += 1;
        let params = &self.genesis.spec.native().unwrap().gov;
        let version = self.genesis.spec.rules_version(self.height);
        let rules = Rules { params, prefix: "cosmos", modules: &self.modules, version };
        let mut session = Session::new(rules, self.height, time);
        let mut results = Vec::new();
        for (from, message) in txs {
            let raw = signed(from, 0, vec![message]);
            let mut tx = CosmosTx::decode(&raw, Signatures::Required).unwrap();
            let bank = &mut self.bank;
            let Ok(result) = match tx.messages.remove(0) {
                Message::Submit(submission) => {
                    session.submit(bank, &submission).map(|result| result.map(|_| ()))
                }
                Message::Deposit(deposit) => {
                    session.deposit(bank, &deposit).map(|result| result.map(|_| ()))
                }
                Message::Vote(vote) => Ok(session.vote(&vote)),
                Message::Send(_) => panic!("no message of governance"),
            };
            results.push(result);
        }
        let Ok(ended) = session.end(&mut self.bank);
        if let Some((gov, _)) = &ended.changed {
            self.modules.gov = gov.clone();
        }
        (ended, results)
    }

    fn gov(&self) -> &Governance {
        &self.modules.gov
    }

    fn proposal(&self, id: u64) -> Option<Proposal> {
        self.gov().state().entry(id).map(Entry::proposal)
    }

    fn status(&self, id: u64) -> ProposalStatus {
        self.proposal(id).unwrap().status()
    }

    /// Returns the balance of the governance account.
    fn locked(&self) -> U256 {
        self.bank.held(Some(module_address("gov")))
    }

    fn burned(&self) -> U256 {
        self.bank.held(None)
    }
}

fn submission(deposit: u64, expedited: bool) -> Any {
    any(&MsgSubmitProposal {
        initial_deposit: if deposit == 0 { Vec::new() } else { coins(deposit) },
        proposer: address_of(5),
        title: "t".to_owned(),
        summary: "s".to_owned(),
        expedited,
        ..MsgSubmitProposal::default()
    })
}

fn vote(account: usize, option: VoteOption) -> (usize, Any) {
    let (voter, option) = (address_of(account), option.into());
    (account, any(&MsgVote { proposal_id: 1, voter, option, ..MsgVote::default() }))
}

fn deposit(account: usize, amount: u64) -> (usize, Any) {
    let depositor = address_of(account);
    (account, any(&MsgDeposit { proposal_id: 1, depositor, amount: coins(amount) }))
}

use VoteOption::{Abstain, No, NoWithVeto, Yes};

/// Votes, the expected status, and whether the deposit is burned.
type Row<'a> = (&'a [(usize, VoteOption)], ProposalStatus, bool);

#[test]
fn tally_equals_that_of_the_sdk() {
    use ProposalStatus::{Passed, Rejected};
    // The quorum is 0.334, the threshold 0.5, and the veto threshold 0.334. The rows test both sides of each limit.
    let rows: &[Row<'_>] = &[
        (&[], Rejected, false),
        (&[(1, Yes)], Rejected, false),
        (&[(0, Yes)], Passed, false),
        (&[(1, Yes), (3, Abstain)], Passed, false),
        (&[(0, Abstain), (1, Abstain)], Rejected, false),
        (&[(0, Yes), (1, No), (3, No)], Rejected, false),
        (&[(0, Yes), (1, No)], Passed, false),
        (&[(0, No), (1, Yes), (2, Yes)], Passed, false),
        (&[(0, Abstain), (1, Yes), (2, No)], Passed, false),
        (&[(0, Yes), (2, NoWithVeto)], Passed, false),
        (&[(0, Yes), (1, NoWithVeto)], Rejected, true),
        (&[(0, Yes), (1, NoWithVeto), (2, Yes), (3, Yes)], Passed, false),
        (&[(0, NoWithVeto)], Rejected, true),
        // Only the last vote of an account counts.
        (&[(0, No), (0, Yes)], Passed, false),
        (&[(0, Yes), (0, NoWithVeto)], Rejected, true),
    ];
    for (votes, status, burns) in rows {
        let mut chain = Chain::new(&json!({}));
        chain.block(START, vec![(5, submission(MIN_DEPOSIT, false))]);
        assert_eq!(chain.status(1), ProposalStatus::VotingPeriod);
        assert_eq!(chain.locked(), U256::from(MIN_DEPOSIT));
        for (account, option) in *votes {
            let (_, results) = chain.block(START + VOTING - 1, vec![vote(*account, *option)]);
            assert_eq!(results, [Ok(())]);
        }
        assert_eq!(chain.status(1), ProposalStatus::VotingPeriod, "one second is left");
        let (ended, _) = chain.block(START + VOTING, Vec::new());
        assert_eq!(chain.status(1), *status, "{votes:?}");
        assert_eq!(ended.events.len(), 1);
        let burned = if *burns { MIN_DEPOSIT } else { 0 };
        assert_eq!((chain.locked(), chain.burned()), (U256::ZERO, U256::from(burned)), "{votes:?}");
        assert_eq!(chain.bank.of(5), U256::from(FUNDS - burned));
        let state = chain.gov().state().to_message();
        assert!(state.votes.is_empty() && state.deposits.is_empty());
        // The vote has ended: later votes and deposits are refused, and nothing is executed twice.
        let (ended, results) = chain.block(START + 500, vec![vote(0, Yes), deposit(5, 1)]);
        assert!(results.iter().all(|r| r.as_ref().is_err_and(|refusal| refusal.code.number == 3)));
        assert!(ended.events.is_empty() && ended.updates.is_empty());
    }
}

#[test]
fn missed_quorum_burns_deposits_if_configured() {
    let mut chain = Chain::new(&json!({ "burn_vote_quorum": true, "burn_vote_veto": false }));
    chain.block(START, vec![(5, submission(MIN_DEPOSIT, false)), vote(1, Yes)]);
    chain.block(START + VOTING, Vec::new());
    assert_eq!(chain.status(1), ProposalStatus::Rejected);
    assert_eq!(chain.burned(), U256::from(MIN_DEPOSIT));
    // With this setting, a veto does not burn the deposit.
    let mut chain = Chain::new(&json!({ "burn_vote_veto": false }));
    chain.block(START, vec![(5, submission(MIN_DEPOSIT, false)), vote(0, NoWithVeto)]);
    chain.block(START + VOTING, Vec::new());
    assert_eq!(chain.status(1), ProposalStatus::Rejected);
    assert_eq!((chain.locked(), chain.burned()), (U256::ZERO, U256::ZERO));
}

#[test]
fn insufficient_deposit_is_returned_or_burned() {
    for burns in [false, true] {
        let mut chain = Chain::new(&json!({ "burn_proposal_deposit_prevote": burns }));
        let small = MIN_DEPOSIT - 2;
        chain.block(START, vec![(5, submission(small, false)), deposit(6, 1)]);
        assert_eq!(chain.status(1), ProposalStatus::DepositPeriod);
        // Votes are refused before the voting period starts.
        let (_, results) = chain.block(START + DEPOSIT_PERIOD - 1, vec![vote(0, Yes)]);
        assert_eq!(results[0].as_ref().unwrap_err().code.number, 3);
        assert_eq!(chain.locked(), U256::from(small + 1));
        let (ended, _) = chain.block(START + DEPOSIT_PERIOD, Vec::new());
        assert_eq!(ended.events[0].kind, "inactive_proposal");
        assert_eq!(chain.proposal(1), None, "the proposal is deleted, as in the SDK");
        let burned = if burns { small + 1 } else { 0 };
        assert_eq!((chain.locked(), chain.burned()), (U256::ZERO, U256::from(burned)));
        let back = if burns { FUNDS - 1 } else { FUNDS };
        assert_eq!(chain.bank.of(6), U256::from(back));
        // The id of the deleted proposal is not reused.
        chain.block(START + DEPOSIT_PERIOD, vec![(5, submission(MIN_DEPOSIT, false))]);
        assert_eq!(chain.status(2), ProposalStatus::VotingPeriod);
    }
}

#[test]
fn sufficient_deposit_starts_the_vote_and_is_returned() {
    let mut chain = Chain::new(&json!({}));
    chain.block(START, vec![(5, submission(0, false)), deposit(6, MIN_DEPOSIT - 1)]);
    assert_eq!(chain.status(1), ProposalStatus::DepositPeriod);
    chain.block(START + 20, vec![deposit(5, 1), deposit(5, 7)]);
    let proposal = chain.proposal(1).unwrap();
    assert_eq!(proposal.status(), ProposalStatus::VotingPeriod);
    assert_eq!(proposal.voting_end_time.as_ref().unwrap().seconds, (START + 20 + VOTING) as i64);
    assert_eq!(proposal.total_deposit[0].amount, (MIN_DEPOSIT + 7).to_string());
    assert_eq!(chain.gov().state().to_message().deposits.len(), 2, "one entry per account");
    chain.block(START + 20 + VOTING, vec![vote(0, Yes)]);
    assert_eq!(chain.status(1), ProposalStatus::Passed, "a vote in the last block counts");
    assert_eq!(chain.locked(), U256::ZERO);
    assert_eq!((chain.bank.of(5), chain.bank.of(6)), (U256::from(FUNDS), U256::from(FUNDS)));
}

#[test]
fn failed_expedited_proposal_becomes_a_regular_one() {
    // 60 of 100 exceed the regular threshold of 0.5, but not the expedited threshold of 0.667.
    let votes = || vec![vote(0, Yes), vote(2, Yes), vote(1, No), vote(3, No)];
    let mut chain = Chain::new(&json!({}));
    chain.block(START, vec![(5, submission(5 * MIN_DEPOSIT, true))]);
    chain.block(START + 1, votes());
    chain.block(START + 10, Vec::new());
    let proposal = chain.proposal(1).unwrap();
    assert_eq!((proposal.status(), proposal.expedited), (ProposalStatus::VotingPeriod, false));
    assert_eq!(proposal.voting_end_time.as_ref().unwrap().seconds, (START + VOTING) as i64);
    assert_eq!(chain.locked(), U256::from(5 * MIN_DEPOSIT));
    chain.block(START + VOTING, Vec::new());
    assert_eq!(chain.status(1), ProposalStatus::Passed);
    // With the vote of account 3, it passes as expedited. The regular deposit does not start an expedited vote.
    let mut chain = Chain::new(&json!({}));
    chain.block(START, vec![(5, submission(MIN_DEPOSIT, true))]);
    assert_eq!(chain.status(1), ProposalStatus::DepositPeriod);
    let mut txs = vec![deposit(5, 4 * MIN_DEPOSIT)];
    txs.extend(votes());
    txs.push(vote(3, Yes));
    chain.block(START + 1, txs);
    chain.block(START + 11, Vec::new());
    assert_eq!(chain.status(1), ProposalStatus::Passed);
}

#[test]
fn only_validators_can_vote() {
    let mut chain = Chain::new(&json!({}));
    let (_, results) = chain.block(START, vec![(5, submission(MIN_DEPOSIT, false)), vote(5, Yes)]);
    let refusal = results[1].as_ref().unwrap_err();
    assert_eq!((refusal.code.space, refusal.code.number), ("gov", 7));
    assert!(chain.gov().state().to_message().votes.is_empty());
}
