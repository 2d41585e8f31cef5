//! Acts as honest users, and checks that a user is only refused if it offers no more than the attackers paid.

use super::{
    account::Account,
    attack::transfer,
    world::{ETHER, MIN_DEPOSIT, World},
};
use crate::common::signed::{GAS, any, coins, slower_market};
use alloy_primitives::{B256, Bytes, U256};
use proto::cosmos::gov::v1::{MsgDeposit, MsgSubmitProposal};

/// The balance of each honest user, in wei.
const FUNDS: u128 = 100_000 * ETHER;
/// Interval, in steps, at which two proposals are submitted, one of them with only half of its deposit.
const PROPOSAL_STEPS: u64 = 6;
/// Number of steps after which the other half is deposited.
const DEPOSIT_STEPS: u64 = 3;
/// The steps, modulo [`PROPOSAL_STEPS`], in which the users of governance act.
const PROPOSE: u64 = 1;
const PAY_HALF: u64 = 2;
const PAY_REST: u64 = PAY_HALF + DEPOSIT_STEPS;

/// The results of all requests of one kind.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) asked: u64,
    pub(super) refused: u64,
    /// The total that the attackers had paid at the last success of this kind.
    paid_before: U256,
    /// The highest offer that has been refused since then.
    refused_offer: Option<U256>,
    /// The reason for the last refusal.
    reason: String,
    /// Descriptions of refusals while the attackers paid less than the offer.
    pub(super) violations: Vec<String>,
}

impl Record {
    pub(super) fn begin(paid: U256) -> Self {
        Self { paid_before: paid, ..Self::default() }
    }

    /// Records a request. `offer` is the amount that the user offered in fees and deposits, and `paid` the
    /// total that the attackers have paid, both in wei.
    fn note(&mut self, result: Result<(), String>, offer: U256, paid: U256) {
        self.asked += 1;
        match result {
            Ok(()) => {
                self.judge(paid);
                (self.paid_before, self.refused_offer) = (paid, None);
            }
            Err(reason) => {
                self.refused += 1;
                self.refused_offer = self.refused_offer.max(Some(offer));
                self.reason = reason;
            }
        }
    }

    /// Compares the refusals since the last success with the amount that the attackers have paid since then. Attackers
    /// that occupy a slot without ever paying are detected when they release it or when the test ends.
    pub(super) fn judge(&mut self, paid: U256) {
        let paid = paid - self.paid_before;
        if let Some(offer) = self.refused_offer.filter(|offer| paid < *offer) {
            let reason = &self.reason;
            self.violations.push(format!(
                "{offer} wei were refused ({reason}) while attackers paid {paid} wei"
            ));
        }
    }
}

/// The honest users, one for each kind of request.
pub(super) struct Honest {
    transfers: Account,
    /// Submits each transaction before the one with the preceding nonce.
    reordered: Account,
    proposer: Account,
    /// Submits proposals and pays their deposit in two halves.
    saver: Account,
    half_paid: Option<u64>,
    /// The newest proposal.
    newest: u64,
}

/// The kinds of requests.
pub(super) const KINDS: [&str; 4] = ["transfer", "reordered transfer", "proposal", "deposit"];

impl Honest {
    pub(super) fn new() -> Self {
        let [transfers, reordered, proposer, saver] = KINDS.map(Account::new);
        Self { transfers, reordered, proposer, saver, half_paid: None, newest: 0 }
    }

    pub(super) fn accounts(&self) -> impl Iterator<Item = (&Account, u128)> {
        [&self.transfers, &self.reordered, &self.proposer, &self.saver]
            .into_iter()
            .map(|account| (account, FUNDS))
    }

    /// Returns the proposal to attack: one in its deposit period if there is one, otherwise the newest.
    pub(super) fn target(&self) -> u64 {
        self.half_paid.unwrap_or(self.newest)
    }

    /// Performs one step: all users send their requests. `paid` returns the total that the attackers have paid.
    pub(super) async fn act(
        &mut self,
        world: &World,
        step: u64,
        records: &mut [Record; 4],
        paid: impl Fn() -> U256,
    ) {
        let price = world.price().await;
        let transfers = self.transfer(world, price);
        let (plain, reordered) = tokio::join!(transfers, self.reordered_transfer(world, price));
        let offer = U256::from(price * 21_000);
        records[0].note(plain, offer, paid());
        records[1].note(reordered, offer, paid());
        let fee = U256::from(price * u128::from(GAS));
        match step % PROPOSAL_STEPS {
            PROPOSE => {
                let submitted = self.propose(world, price, &self.proposer, MIN_DEPOSIT).await;
                self.newest = submitted.clone().unwrap_or(self.newest);
                records[2].note(submitted.map(drop), fee + U256::from(MIN_DEPOSIT), paid());
            }
            PAY_HALF => {
                let half = MIN_DEPOSIT / 2;
                let submitted = self.propose(world, price, &self.saver, half).await;
                self.half_paid = submitted.clone().ok();
                self.newest = self.half_paid.unwrap_or(self.newest);
                records[2].note(submitted.map(drop), fee + U256::from(half), paid());
            }
            PAY_REST => {
                let Some(proposal) = self.half_paid.take() else { return };
                let paid_in = self.pay_rest(world, price, proposal).await;
                records[3].note(paid_in, fee + U256::from(MIN_DEPOSIT / 2), paid());
            }
            _ => {}
        }
    }

    async fn transfer(&self, world: &World, price: u128) -> Result<(), String> {
        let nonce = world.nonce(&self.transfers).await;
        submit(world, self.transfers.ethereum(transfer(nonce, price))).await
    }

    async fn reordered_transfer(&self, world: &World, price: u128) -> Result<(), String> {
        let nonce = world.nonce(&self.reordered).await;
        let [first, second] =
            [nonce, nonce + 1].map(|nonce| self.reordered.ethereum(transfer(nonce, price)));
        let reordered = world.client.submit(second.clone()).await;
        let first = submit(world, first).await;
        match reordered {
            Ok(hash) => {
                first?;
                world.succeeds(hash).await
            }
            Err(reject) => {
                // The request was refused. The transaction is sent again so that the account has no nonce gap.
                drop(submit(world, second).await);
                Err(reject.to_string())
            }
        }
    }

    /// Submits a proposal. Returns its ID, or the reason for the refusal.
    async fn propose(
        &self,
        world: &World,
        price: u128,
        proposer: &Account,
        deposit: u64,
    ) -> Result<u64, String> {
        let proposal = MsgSubmitProposal {
            initial_deposit: coins(deposit),
            proposer: proposer.bech32(),
            ..slower_market("1000000000000000000000000000")
        };
        let sequence = world.nonce(proposer).await;
        let raw = proposer.cosmos(sequence, price, vec![any(&proposal)]);
        submit(world, raw.clone()).await?;
        Ok(world.proposal_of(&raw).await)
    }

    async fn pay_rest(&self, world: &World, price: u128, proposal: u64) -> Result<(), String> {
        let deposit = MsgDeposit {
            proposal_id: proposal,
            depositor: self.saver.bech32(),
            amount: coins(MIN_DEPOSIT / 2),
        };
        let sequence = world.nonce(&self.saver).await;
        submit(world, self.saver.cosmos(sequence, price, vec![any(&deposit)])).await
    }
}

/// Submits a transaction and waits until it succeeds in a block. The error describes the failure.
async fn submit(world: &World, raw: Bytes) -> Result<(), String> {
    let submitted: Result<B256, _> = world.client.submit(raw).await;
    let hash = submitted.map_err(|reject| reject.to_string())?;
    world.succeeds(hash).await
}
