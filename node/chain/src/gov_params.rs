//! The parameters of governance in genesis.

use alloy_primitives::{Address, U256};
use feemarket::LegacyDec;
use prost_types::Duration;
use proto::cosmos::{base::v1beta1::Coin, gov::v1::Params};

/// A voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validator {
    /// The account.
    pub address: Address,
    /// The weight of its vote.
    pub power: u64,
}

/// The rules of governance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GovParams {
    /// Deposit that opens the vote, in wei.
    pub min_deposit: U256,
    /// Deposit that opens the vote on an expedited proposal, in wei.
    pub expedited_min_deposit: U256,
    /// Maximum time in which the deposit is collected, in seconds.
    pub max_deposit_period: u64,
    /// Duration of the vote, in seconds.
    pub voting_period: u64,
    /// Duration of the vote on an expedited proposal, in seconds.
    pub expedited_voting_period: u64,
    /// Minimum share of all voting power that votes.
    pub quorum: LegacyDec,
    /// Share of votes for yes that must be exceeded.
    pub threshold: LegacyDec,
    /// Share of votes for yes on an expedited proposal that must be exceeded.
    pub expedited_threshold: LegacyDec,
    /// Share of vetoes from which a proposal is rejected.
    pub veto_threshold: LegacyDec,
    /// Whether deposits are burned if the quorum is not reached.
    pub burn_vote_quorum: bool,
    /// Whether deposits are burned if they were not sufficient in time.
    pub burn_proposal_deposit_prevote: bool,
    /// Whether deposits are burned if the proposal is vetoed.
    pub burn_vote_veto: bool,
    /// Minimum share of the deposit that is paid with the proposal; from version 1 of the rules on.
    pub min_initial_deposit_ratio: LegacyDec,
    /// Share of the deposit that each single deposit must have at least; from version 1 of the rules on. If it is not
    /// zero, no proposal can be made without a deposit, as in the SDK.
    pub min_deposit_ratio: LegacyDec,
    /// What a cancelled proposal costs. Proposals cannot be cancelled here, so it is only shown.
    pub proposal_cancel_ratio: LegacyDec,
    /// The account that receives it; empty to burn it. Only shown, too.
    pub proposal_cancel_dest: String,
    /// The validators, which vote, by address.
    pub validators: Vec<Validator>,
}

impl GovParams {
    /// Deposit that opens the vote, in wei.
    pub const fn required_deposit(&self, expedited: bool) -> U256 {
        if expedited { self.expedited_min_deposit } else { self.min_deposit }
    }

    /// Minimum deposit that is paid with a proposal (SDK: rounded to the nearest).
    pub fn min_initial_deposit(&self, expedited: bool) -> U256 {
        share_of(self.required_deposit(expedited), self.min_initial_deposit_ratio, true)
    }

    /// Minimum of a single deposit (SDK: rounded down).
    pub fn min_single_deposit(&self, expedited: bool) -> U256 {
        share_of(self.required_deposit(expedited), self.min_deposit_ratio, false)
    }

    /// Duration of a vote, in seconds.
    pub const fn voting_seconds(&self, expedited: bool) -> u64 {
        if expedited { self.expedited_voting_period } else { self.voting_period }
    }

    /// The weight of an account's vote, if it has one.
    pub fn power(&self, address: Address) -> Option<u64> {
        let found = self.validators.binary_search_by_key(&address, |validator| validator.address);
        found.ok().map(|at| self.validators[at].power)
    }

    /// As the queries show them.
    pub fn to_proto(&self, denom: &str) -> Params {
        let coin =
            |amount: U256| vec![Coin { denom: denom.to_owned(), amount: amount.to_string() }];
        let period = |seconds: u64| {
            Some(Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 })
        };
        Params {
            min_deposit: coin(self.min_deposit),
            max_deposit_period: period(self.max_deposit_period),
            voting_period: period(self.voting_period),
            quorum: self.quorum.to_string(),
            threshold: self.threshold.to_string(),
            veto_threshold: self.veto_threshold.to_string(),
            min_initial_deposit_ratio: self.min_initial_deposit_ratio.to_string(),
            proposal_cancel_ratio: self.proposal_cancel_ratio.to_string(),
            proposal_cancel_dest: self.proposal_cancel_dest.clone(),
            expedited_voting_period: period(self.expedited_voting_period),
            expedited_threshold: self.expedited_threshold.to_string(),
            expedited_min_deposit: coin(self.expedited_min_deposit),
            burn_vote_quorum: self.burn_vote_quorum,
            burn_proposal_deposit_prevote: self.burn_proposal_deposit_prevote,
            burn_vote_veto: self.burn_vote_veto,
            min_deposit_ratio: self.min_deposit_ratio.to_string(),
        }
    }
}

/// A share, at most 1, of an amount: rounded to the nearest integer, to the even one if both are as near, or down.
fn share_of(amount: U256, share: LegacyDec, rounds: bool) -> U256 {
    let product = share.checked_mul_int(amount).unwrap_or(LegacyDec::MAX);
    let whole = product.truncate_u256().unwrap_or(U256::MAX);
    if !rounds {
        return whole;
    }
    let rest = product.checked_sub(LegacyDec::from(whole)).unwrap_or_default();
    let above = rest.checked_add(rest).unwrap_or_default().cmp(&LegacyDec::ONE);
    let up = above.is_gt() || (above.is_eq() && whole.bit(0));
    whole.saturating_add(U256::from(up))
}
