//! Defines the governance parameters in genesis.

use alloy_primitives::{Address, U256};
use certificates::PublicKey;
use feemarket::LegacyDec;
use keys::validator_address;
use prost_types::Duration;
use proto::cosmos::{base::v1beta1::Coin, gov::v1::Params};

/// A validator, which can vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validator {
    /// The account.
    pub address: Address,
    /// The weight of its vote on proposals.
    pub power: u64,
    /// The key with which the validator takes part in consensus; `None` if one producer makes the blocks. In consensus,
    /// each validator has one vote, independent of its power.
    pub consensus_key: Option<PublicKey>,
}

/// The parameters of governance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GovParams {
    /// Deposit that starts the voting period, in the token's base unit.
    pub min_deposit: U256,
    /// Deposit that starts the voting period of an expedited proposal, in the token's base unit.
    pub expedited_min_deposit: U256,
    /// Maximum time in which the deposit is collected, in seconds.
    pub max_deposit_period: u64,
    /// Duration of the vote, in seconds.
    pub voting_period: u64,
    /// Duration of the vote on an expedited proposal, in seconds.
    pub expedited_voting_period: u64,
    /// Minimum share of the total voting power that must vote.
    pub quorum: LegacyDec,
    /// Share of yes votes that must be exceeded.
    pub threshold: LegacyDec,
    /// Share of yes votes on an expedited proposal that must be exceeded.
    pub expedited_threshold: LegacyDec,
    /// Share of veto votes above which a proposal is rejected.
    pub veto_threshold: LegacyDec,
    /// Whether deposits are burned if the quorum is not reached.
    pub burn_vote_quorum: bool,
    /// Whether deposits are burned if the deposit period ends without the required deposit.
    pub burn_proposal_deposit_prevote: bool,
    /// Whether deposits are burned if the proposal is vetoed.
    pub burn_vote_veto: bool,
    /// Minimum share of the deposit that must be paid with the proposal; since rules version 1.
    pub min_initial_deposit_ratio: LegacyDec,
    /// Minimum share of the required deposit for each single deposit; since rules version 1. If it is not zero,
    /// no proposal can be submitted without a deposit, as in the SDK.
    pub min_deposit_ratio: LegacyDec,
    /// Share of the deposit that cancelling a proposal costs. Proposals cannot be cancelled here, so it is only
    /// returned by queries.
    pub proposal_cancel_ratio: LegacyDec,
    /// The account that receives this share; empty if the share is burned. It is only returned by queries too.
    pub proposal_cancel_dest: String,
    /// The validators, in order of address.
    pub validators: Vec<Validator>,
}

impl GovParams {
    /// Returns the validators that decide about blocks, with their keys; none if one producer makes the blocks.
    pub fn consensus_validators(&self) -> impl Iterator<Item = (Validator, PublicKey)> + '_ {
        self.validators.iter().filter_map(|validator| Some((*validator, validator.consensus_key?)))
    }

    /// Returns the address of the consensus key of the validator with this account, as CometBFT derives it.
    pub fn consensus_address(&self, operator: Address) -> Option<Address> {
        let mut validators = self.consensus_validators();
        let (_, key) = validators.find(|(validator, _)| validator.address == operator)?;
        Some(validator_address(&key.bytes().0))
    }

    /// Returns the account of the validator whose consensus key has this address.
    pub fn operator(&self, consensus_address: Address) -> Option<Address> {
        let address = |key: PublicKey| validator_address(&key.bytes().0);
        let mut validators = self.consensus_validators();
        let (validator, _) = validators.find(|(_, key)| address(*key) == consensus_address)?;
        Some(validator.address)
    }

    /// Returns the keys of [`Self::consensus_validators`], in ascending order of their bytes.
    pub fn consensus_keys(&self) -> Vec<PublicKey> {
        let mut keys: Vec<_> = self.consensus_validators().map(|(_, key)| key).collect();
        keys.sort_unstable_by_key(PublicKey::bytes);
        keys
    }

    /// Returns the deposit that starts the voting period, in the token's base unit.
    pub const fn required_deposit(&self, expedited: bool) -> U256 {
        if expedited { self.expedited_min_deposit } else { self.min_deposit }
    }

    /// Returns the minimum deposit that must be paid with a proposal (SDK: rounded to the nearest).
    pub fn min_initial_deposit(&self, expedited: bool) -> U256 {
        share_of(self.required_deposit(expedited), self.min_initial_deposit_ratio, true)
    }

    /// Returns the minimum of a single deposit (SDK: rounded down).
    pub fn min_single_deposit(&self, expedited: bool) -> U256 {
        share_of(self.required_deposit(expedited), self.min_deposit_ratio, false)
    }

    /// Returns the duration of the voting period, in seconds.
    pub const fn voting_seconds(&self, expedited: bool) -> u64 {
        if expedited { self.expedited_voting_period } else { self.voting_period }
    }

    /// Returns the weight of an account's vote, if it is a validator.
    pub fn power(&self, address: Address) -> Option<u64> {
        let found = self.validators.binary_search_by_key(&address, |validator| validator.address);
        found.ok().map(|at| self.validators[at].power)
    }

    /// Returns the parameters in the form of the queries.
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

/// Returns a share (at most 1) of an amount. The result is rounded to the nearest integer (half to even) if `rounds`
/// is true, and down otherwise.
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
