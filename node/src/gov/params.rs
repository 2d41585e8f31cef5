//! The rules of governance, as genesis states them.

use crate::{
    account::parse_address,
    feemarket::LegacyDec,
    proto::cosmos::{base::v1beta1::Coin, gov::v1::Params},
};
use alloy_primitives::{Address, U256};
use prost_types::Duration;
use serde::{Deserialize, Serialize};

/// Two days, the SDK's period for deposits and for votes.
const TWO_DAYS: u64 = 172_800;
/// One day, the SDK's period for urgent votes.
const DAY: u64 = 86_400;
/// The SDK's least deposit.
const MIN_DEPOSIT: u64 = 10_000_000;
/// The SDK's least deposit for an urgent proposal.
const EXPEDITED_MIN_DEPOSIT: u64 = 50_000_000;
/// Longest period, in seconds: 100 years.
const MAX_PERIOD: u64 = 100 * 365 * 86_400;
/// Most validators.
const MAX_VALIDATORS: usize = 1000;

/// Who votes.
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
    /// The same of an urgent proposal.
    pub expedited_min_deposit: U256,
    /// Seconds to gather it.
    pub max_deposit_period: u64,
    /// Seconds to vote.
    pub voting_period: u64,
    /// The same of an urgent proposal.
    pub expedited_voting_period: u64,
    /// Share of all weight that must vote.
    pub quorum: LegacyDec,
    /// Share of yes that must be passed.
    pub threshold: LegacyDec,
    /// The same of an urgent proposal.
    pub expedited_threshold: LegacyDec,
    /// Share of vetoes that rejects.
    pub veto_threshold: LegacyDec,
    /// Deposits are lost when too few vote.
    pub burn_vote_quorum: bool,
    /// Deposits are lost when they did not suffice in time.
    pub burn_proposal_deposit_prevote: bool,
    /// Deposits are lost when a proposal is vetoed.
    pub burn_vote_veto: bool,
    /// Who votes, by address.
    pub validators: Vec<Validator>,
}

/// `gov` of the genesis section: the SDK's parameters, and the voters.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct GovSection {
    params: ParamsJson,
    validators: Vec<ValidatorJson>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct ParamsJson {
    min_deposit: Vec<CoinJson>,
    max_deposit_period: String,
    voting_period: String,
    quorum: String,
    threshold: String,
    veto_threshold: String,
    expedited_voting_period: String,
    expedited_threshold: String,
    expedited_min_deposit: Vec<CoinJson>,
    burn_vote_quorum: bool,
    burn_proposal_deposit_prevote: bool,
    burn_vote_veto: bool,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct CoinJson {
    denom: String,
    amount: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ValidatorJson {
    address: String,
    power: String,
}

impl Default for ParamsJson {
    fn default() -> Self {
        Self {
            min_deposit: Vec::new(),
            max_deposit_period: format!("{TWO_DAYS}s"),
            voting_period: format!("{TWO_DAYS}s"),
            quorum: "0.334".to_owned(),
            threshold: "0.5".to_owned(),
            veto_threshold: "0.334".to_owned(),
            expedited_voting_period: format!("{DAY}s"),
            expedited_threshold: "0.667".to_owned(),
            expedited_min_deposit: Vec::new(),
            burn_vote_quorum: false,
            burn_proposal_deposit_prevote: false,
            burn_vote_veto: true,
        }
    }
}

impl GovSection {
    /// That of a development chain: a single validator, and seconds for periods.
    pub(crate) fn development(validator: Address, seconds: u64, urgent: u64) -> Self {
        Self {
            params: ParamsJson {
                max_deposit_period: format!("{seconds}s"),
                voting_period: format!("{seconds}s"),
                expedited_voting_period: format!("{urgent}s"),
                ..ParamsJson::default()
            },
            validators: vec![ValidatorJson {
                address: validator.to_string(),
                power: "1".to_owned(),
            }],
        }
    }

    /// Checks the section of a chain with this prefix and token.
    pub(crate) fn read(&self, prefix: &str, denom: &str) -> Result<GovParams, String> {
        let json = &self.params;
        let share = |name: &str, text: &str| {
            let value = text.parse().map_err(|error| format!("params.{name}: {error}"))?;
            let inside = (LegacyDec::ZERO..=LegacyDec::ONE).contains(&value);
            if inside { Ok(value) } else { Err(format!("params.{name}: {text} is not 0 to 1")) }
        };
        let period = |name: &str, text: &str| {
            let seconds = text.strip_suffix('s').and_then(|digits| digits.parse().ok());
            seconds
                .filter(|seconds| (1..=MAX_PERIOD).contains(seconds))
                .ok_or_else(|| format!("params.{name}: {text:?} is no period such as \"30s\""))
        };
        let deposit = |name: &str, coins: &[CoinJson], default: u64| match coins {
            [] => Ok(U256::from(default)),
            [coin] if coin.denom == denom => {
                coin.amount.parse().map_err(|_| format!("params.{name}: {:?}", coin.amount))
            }
            _ => Err(format!("params.{name}: one amount of {denom} is wanted")),
        };
        Ok(GovParams {
            min_deposit: deposit("min_deposit", &json.min_deposit, MIN_DEPOSIT)?,
            expedited_min_deposit: deposit(
                "expedited_min_deposit",
                &json.expedited_min_deposit,
                EXPEDITED_MIN_DEPOSIT,
            )?,
            max_deposit_period: period("max_deposit_period", &json.max_deposit_period)?,
            voting_period: period("voting_period", &json.voting_period)?,
            expedited_voting_period: period(
                "expedited_voting_period",
                &json.expedited_voting_period,
            )?,
            quorum: share("quorum", &json.quorum)?,
            threshold: share("threshold", &json.threshold)?,
            expedited_threshold: share("expedited_threshold", &json.expedited_threshold)?,
            veto_threshold: share("veto_threshold", &json.veto_threshold)?,
            burn_vote_quorum: json.burn_vote_quorum,
            burn_proposal_deposit_prevote: json.burn_proposal_deposit_prevote,
            burn_vote_veto: json.burn_vote_veto,
            validators: self.validators(prefix)?,
        })
    }

    fn validators(&self, prefix: &str) -> Result<Vec<Validator>, String> {
        if self.validators.len() > MAX_VALIDATORS {
            return Err(format!("validators: at most {MAX_VALIDATORS}"));
        }
        let read = |json: &ValidatorJson| {
            let address = parse_address(&json.address, prefix)
                .map_err(|error| format!("validators: {}: {error}", json.address))?;
            let power = json.power.parse().ok().filter(|power| (1..1 << 40).contains(power));
            let power = power
                .ok_or_else(|| format!("validators: power {:?} is not 1 to 2^40", json.power))?;
            Ok(Validator { address, power })
        };
        let mut validators =
            self.validators.iter().map(read).collect::<Result<Vec<_>, String>>()?;
        validators.sort_unstable_by_key(|validator| validator.address);
        match validators.windows(2).find(|pair| pair[0].address == pair[1].address) {
            Some(pair) => Err(format!("validators: {} is there twice", pair[0].address)),
            None => Ok(validators),
        }
    }
}

impl GovParams {
    /// Deposit that opens the vote, in wei.
    pub const fn needed_deposit(&self, expedited: bool) -> U256 {
        if expedited { self.expedited_min_deposit } else { self.min_deposit }
    }

    /// Seconds to vote.
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
        let none = LegacyDec::ZERO.to_string();
        Params {
            min_deposit: coin(self.min_deposit),
            max_deposit_period: period(self.max_deposit_period),
            voting_period: period(self.voting_period),
            quorum: self.quorum.to_string(),
            threshold: self.threshold.to_string(),
            veto_threshold: self.veto_threshold.to_string(),
            min_initial_deposit_ratio: none.clone(),
            proposal_cancel_ratio: none.clone(),
            proposal_cancel_dest: String::new(),
            expedited_voting_period: period(self.expedited_voting_period),
            expedited_threshold: self.expedited_threshold.to_string(),
            expedited_min_deposit: coin(self.expedited_min_deposit),
            burn_vote_quorum: self.burn_vote_quorum,
            burn_proposal_deposit_prevote: self.burn_proposal_deposit_prevote,
            burn_vote_veto: self.burn_vote_veto,
            min_deposit_ratio: none,
        }
    }
}
