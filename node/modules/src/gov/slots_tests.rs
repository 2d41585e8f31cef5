//! Tests which proposal or deposit a new one replaces, with attackers that pay less than honest accounts.

use super::*;
use crate::{
    Modules,
    gov::{Bank, Ended, Rules, Session},
};
use chain::{Genesis, GovParams, Native, RulesVersion};
use proto::cosmos::gov::v1::MsgSubmitProposal;
use std::{collections::BTreeMap, convert::Infallible};
use transactions::cosmos::{Deposit, MessageAccount, Submission};

const START: u64 = 1_000;
/// Voting period and deposit period of the development chain, in seconds.
const PERIOD: u64 = 30;
/// The deposit that starts a voting period on that chain.
const NEEDED: u64 = 10_000_000;

/// The net amount that each account has paid; `None` is the account of burned amounts.
#[derive(Default)]
struct Payments(BTreeMap<Option<Address>, i128>);

impl Bank for Payments {
    type Error = Infallible;

    fn transfer(
        &mut self,
        from: Address,
        to: Option<Address>,
        amount: U256,
    ) -> Result<Result<(), Refusal>, Infallible> {
        let amount: i128 = amount.to();
        *self.0.entry(Some(from)).or_default() += amount;
        *self.0.entry(to).or_default() -= amount;
        Ok(Ok(()))
    }
}

struct Chain {
    native: Native,
    modules: Modules,
    paid: Payments,
    height: u64,
    version: RulesVersion,
}

impl Chain {
    fn new(version: RulesVersion) -> Self {
        let native = Genesis::native_dev(0).spec.native().unwrap().clone();
        let modules = Modules::genesis(&native);
        Self { native, modules, paid: Payments::default(), height: 0, version }
    }

    /// Uses these parameters instead of the development chain's.
    fn with(mut self, change: impl FnOnce(&mut GovParams)) -> Self {
        change(&mut self.native.gov);
        self
    }

    /// Executes a block in which each message is independent: a rejected one changes nothing.
    fn block(&mut self, time: u64, sent: &[Sent]) -> (Ended, Vec<Result<(), Refusal>>) {
        self.height += 1;
        let rules = Rules {
            params: &self.native.gov,
            prefix: "cosmos",
            modules: &self.modules,
            version: self.version,
        };
        let mut session = Session::new(rules, self.height, time);
        let mut done = Vec::new();
        for message in sent {
            let mut tried = session.clone();
            let result = message.run(&mut tried, &mut self.paid);
            if result.is_ok() {
                session = tried;
            }
            done.push(result);
        }
        let Ok(ended) = session.end(&mut self.paid);
        if let Some((gov, _)) = &ended.changed {
            self.modules.gov = gov.clone();
        }
        (ended, done)
    }

    fn ids(&self, status: ProposalStatus) -> Vec<u64> {
        with_status(self.modules.gov.state(), status).map(Entry::id).collect()
    }

    fn paid(&self, account: u64) -> i128 {
        self.paid.0.get(&Some(account_of(account))).copied().unwrap_or_default()
    }
}

fn account_of(number: u64) -> Address {
    Address::left_padding_from(&(number + 1).to_be_bytes())
}

/// A message of an account.
enum Sent {
    Proposal { from: u64, deposit: u64 },
    Deposit { from: u64, proposal: u64, amount: u64 },
}

impl Sent {
    fn run(&self, session: &mut Session<'_>, bank: &mut Payments) -> Result<(), Refusal> {
        let account = |number| MessageAccount::new("cosmos", account_of(number));
        match *self {
            Self::Proposal { from, deposit } => {
                let submission = Submission {
                    proposer: account(from),
                    updates: Vec::new(),
                    deposit: U256::from(deposit),
                    message: MsgSubmitProposal::default(),
                    is_v1beta1: false,
                };
                let Ok(done) = session.submit(bank, &submission);
                done.map(|_| ())
            }
            Self::Deposit { from, proposal, amount } => {
                let deposit = Deposit {
                    proposal,
                    depositor: account(from),
                    coins: Vec::new(),
                    amount: U256::from(amount),
                    is_v1beta1: false,
                };
                let Ok(done) = session.deposit(bank, &deposit);
                done.map(|_| ())
            }
        }
    }
}

fn proposals(count: usize, deposit: u64) -> Vec<Sent> {
    (0..count).map(|_| Sent::Proposal { from: 0, deposit }).collect()
}

use ProposalStatus::{DepositPeriod, VotingPeriod};
use RulesVersion::{V0, V1};

#[test]
fn proposals_without_deposit_do_not_keep_others_from_proposing() {
    let mut chain = Chain::new(V1);
    let (_, done) = chain.block(START, &proposals(MAX_WAITING, 0));
    assert!(done.iter().all(Result::is_ok));
    // A proposal with the whole deposit needs no slot, and a small deposit is enough for a slot.
    let honest =
        [Sent::Proposal { from: 1, deposit: NEEDED }, Sent::Proposal { from: 1, deposit: 1 }];
    let (ended, done) = chain.block(START + 1, &honest);
    assert_eq!(done, [Ok(()), Ok(())]);
    assert_eq!(chain.ids(VotingPeriod), [MAX_WAITING as u64 + 1]);
    let waiting = chain.ids(DepositPeriod);
    assert_eq!(waiting.len(), MAX_WAITING);
    assert!(!waiting.contains(&(MAX_WAITING as u64)), "the newest of the smallest is removed");
    assert_eq!(ended.events.len(), 1, "its removal is an event: {:?}", ended.events);
    assert_eq!(ended.events[0].kind, "inactive_proposal");
    // A deposit of zero does not replace another one, and the error states the limit.
    let (_, done) = chain.block(START + 2, &proposals(1, 0));
    let refusal = done[0].as_ref().unwrap_err().to_string();
    assert!(
        refusal.contains("64 proposals wait for deposits") && refusal.contains("0"),
        "{refusal}"
    );
    // In version 0, other accounts cannot propose any more.
    let mut chain = Chain::new(V0);
    chain.block(START, &proposals(MAX_WAITING, 0));
    let (_, done) = chain.block(START + 1, &[Sent::Proposal { from: 1, deposit: NEEDED }]);
    assert_eq!(
        done[0].as_ref().unwrap_err().to_string(),
        "64 proposals are open, which is the most there may be: invalid proposal"
    );
}

#[test]
fn replaced_proposal_has_a_smaller_deposit_which_is_returned() {
    let mut chain = Chain::new(V1);
    chain.block(START, &proposals(MAX_WAITING, 7));
    assert_eq!(chain.paid(0), 7 * MAX_WAITING as i128);
    let (_, done) = chain.block(START + 1, &[Sent::Proposal { from: 1, deposit: 7 }]);
    assert!(done[0].is_err());
    let (_, done) = chain.block(START + 1, &[Sent::Proposal { from: 1, deposit: 8 }]);
    assert_eq!(done, [Ok(())]);
    assert_eq!((chain.paid(0), chain.paid(1)), (7 * (MAX_WAITING as i128 - 1), 8));
    // All deposits are returned in the end.
    chain.block(START + 1 + PERIOD, &[]);
    assert!(chain.ids(DepositPeriod).is_empty());
    assert_eq!((chain.paid(0), chain.paid(1)), (0, 0));
}

#[test]
fn full_set_of_small_deposits_does_not_keep_others_from_depositing() {
    let mut sent = proposals(1, 0);
    sent.extend((1..=100).map(|from| Sent::Deposit { from, proposal: 1, amount: 1 }));
    let larger = [Sent::Deposit { from: 200, proposal: 1, amount: NEEDED - 99 }];
    let mut chain = Chain::new(V1);
    let (_, done) = chain.block(START, &sent);
    assert!(done.iter().all(Result::is_ok));
    let equal = [Sent::Deposit { from: 201, proposal: 1, amount: 1 }];
    let (_, done) = chain.block(START, &equal);
    assert!(done[0].as_ref().unwrap_err().to_string().contains("100 deposits"), "{done:?}");
    let (ended, done) = chain.block(START, &larger);
    assert_eq!(done, [Ok(())]);
    assert_eq!(ended.events[0].kind, "deposit_returned");
    let entry = chain.modules.gov.state().entry(1).unwrap();
    assert_eq!(amount_of(&entry.head.total_deposit), U256::from(NEEDED));
    assert_eq!(entry.status(), VotingPeriod, "with the 99 others, the deposit is sufficient");
    assert_eq!(chain.paid(1), 0, "the first deposit is returned");
    // An account with a deposit adds to it.
    let (_, done) = chain.block(START, &[Sent::Deposit { from: 2, proposal: 1, amount: 1 }]);
    assert_eq!(done, [Ok(())]);
    let mut chain = Chain::new(V0);
    chain.block(START, &sent);
    let (_, done) = chain.block(START, &larger);
    assert!(done[0].as_ref().unwrap_err().to_string().contains("100 accounts"), "{done:?}");
}

#[test]
fn funded_proposals_wait_for_a_vote_to_end() {
    let mut chain = Chain::new(V1);
    let (_, done) = chain.block(START, &proposals(MAX_VOTING, NEEDED));
    assert!(done.iter().all(Result::is_ok));
    assert_eq!(chain.ids(VotingPeriod).len(), MAX_VOTING);
    let first = MAX_VOTING as u64 + 1;
    let more = [
        Sent::Proposal { from: 1, deposit: NEEDED },
        Sent::Proposal { from: 2, deposit: 3 * NEEDED },
        Sent::Proposal { from: 3, deposit: NEEDED - 1 },
    ];
    // A funded proposal is not removed when its deposit period ends, but the one that lacks one unit is.
    chain.block(START + 1, &more);
    assert_eq!(chain.ids(DepositPeriod), [first, first + 1, first + 2]);
    // All voting periods end at the same time, and those of the waiting proposals start.
    let (ended, _) = chain.block(START + PERIOD, &[]);
    assert_eq!(chain.ids(VotingPeriod), [first, first + 1]);
    let opened = ended.events.iter().filter(|event| event.kind == "proposal_deposit");
    let order: Vec<_> = opened.map(|event| event.attributes[0].value.clone()).collect();
    assert_eq!(order, [(first + 1).to_string(), first.to_string()], "the largest deposit first");
    chain.block(START + 1 + PERIOD, &[]);
    assert!(chain.ids(DepositPeriod).is_empty());
    assert_eq!(chain.ids(VotingPeriod), [first, first + 1]);
}

#[test]
fn funded_proposal_outlives_its_deposit_period() {
    let mut chain = Chain::new(V1).with(|params| params.max_deposit_period = 5);
    chain.block(START, &proposals(MAX_VOTING, NEEDED));
    chain.block(START + 1, &[Sent::Proposal { from: 1, deposit: NEEDED }]);
    chain.block(START + 10, &[]);
    assert_eq!(chain.ids(DepositPeriod), [MAX_VOTING as u64 + 1]);
    chain.block(START + PERIOD, &[]);
    assert_eq!(chain.ids(VotingPeriod), [MAX_VOTING as u64 + 1]);
}

#[test]
fn minimum_ratios_of_deposits_apply_since_version_1() {
    let half = || "0.5".parse().unwrap();
    let sent = |deposit| [Sent::Proposal { from: 1, deposit }];
    let mut chain = Chain::new(V1).with(|params| params.min_initial_deposit_ratio = half());
    let (_, done) = chain.block(START, &sent(NEEDED / 2 - 1));
    let refusal = done[0].as_ref().unwrap_err();
    assert_eq!((refusal.code.space, refusal.code.number), ("gov", 16));
    assert_eq!(
        refusal.to_string(),
        "was (4999999atest), need (5000000atest): minimum deposit is too small"
    );
    assert_eq!(chain.block(START, &sent(NEEDED / 2)).1, [Ok(())]);
    let (_, done) = chain.block(START, &[Sent::Deposit { from: 2, proposal: 1, amount: 1 }]);
    assert_eq!(done, [Ok(())], "this ratio applies only to the initial deposit");
    let mut chain = Chain::new(V1).with(|params| params.min_deposit_ratio = half());
    let (_, done) = chain.block(START, &sent(NEEDED / 2));
    assert_eq!(done, [Ok(())]);
    let (_, done) = chain.block(START, &[Sent::Deposit { from: 2, proposal: 1, amount: 1 }]);
    assert_eq!(
        done[0].as_ref().unwrap_err().to_string(),
        "received 1atest but need at least one of the following: 5000000atest: minimum deposit is too small"
    );
    assert!(chain.block(START, &sent(0)).1[0].is_err(), "as in the SDK");
    let mut chain = Chain::new(V0).with(|params| params.min_deposit_ratio = half());
    assert_eq!(chain.block(START, &sent(0)).1, [Ok(())]);
}
