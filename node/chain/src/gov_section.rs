//! Reads the section `gov` of a genesis file: the SDK's parameters, and the validators.

use super::{GovParams, Validator};
use crate::RulesVersion;
use alloy_primitives::{Address, U256};
use certificates::{MAX_SIGNERS, PublicKey};
use feemarket::LegacyDec;
use keys::{is_module_account, parse_address};
use serde::{Deserialize, Serialize};

/// Two days in seconds, the SDK's deposit period and voting period.
const TWO_DAYS: u64 = 172_800;
/// One day in seconds, the SDK's voting period of expedited proposals.
const DAY: u64 = 86_400;
/// The SDK's minimum deposit, in the token's base unit.
const MIN_DEPOSIT: u64 = 10_000_000;
/// The SDK's minimum deposit of an expedited proposal, in the token's base unit.
const EXPEDITED_MIN_DEPOSIT: u64 = 50_000_000;
/// Maximum period, in seconds: 100 years.
const MAX_PERIOD: u64 = 100 * 365 * 86_400;
/// Maximum number of validators.
const MAX_VALIDATORS: usize = 1000;
/// Maximum number of validators that decide about blocks, which is the maximum number of signers of a certificate. Each
/// of these validators sends its votes and blocks to all others.
pub const MAX_CONSENSUS_VALIDATORS: usize = MAX_SIGNERS;

/// The section `gov` of genesis: the SDK's parameters, and the validators.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct GovSection {
    params: ParamsJson,
    validators: Vec<ValidatorJson>,
}

/// The parameters in the SDK's JSON. Parameters that were added later are written only if they are set, so that
/// the development genesis keeps its form.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    min_initial_deposit_ratio: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_deposit_ratio: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proposal_cancel_ratio: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proposal_cancel_dest: Option<String>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    consensus_key: Option<PublicKey>,
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
            min_initial_deposit_ratio: None,
            min_deposit_ratio: None,
            proposal_cancel_ratio: None,
            proposal_cancel_dest: None,
        }
    }
}

impl GovSection {
    /// Returns the section of a development chain: one validator, and periods of these numbers of seconds.
    pub fn development(validator: Address, seconds: u64, expedited_seconds: u64) -> Self {
        Self {
            params: ParamsJson {
                max_deposit_period: format!("{seconds}s"),
                voting_period: format!("{seconds}s"),
                expedited_voting_period: format!("{expedited_seconds}s"),
                ..ParamsJson::default()
            },
            validators: vec![ValidatorJson {
                address: validator.to_string(),
                power: "1".to_owned(),
                consensus_key: None,
            }],
        }
    }

    /// Returns the section with these validators instead of its own.
    pub(crate) fn with_validators(self, validators: &[Validator]) -> Self {
        let validators = validators.iter().map(|validator| ValidatorJson {
            address: validator.address.to_string(),
            power: validator.power.to_string(),
            consensus_key: validator.consensus_key,
        });
        Self { validators: validators.collect(), ..self }
    }

    /// Reads the section of a chain with this prefix and token, whose block 0 has these rules. The parameters of
    /// a chain that starts with version 0 are not compared with each other, because such a chain may already
    /// exist.
    pub fn read(
        &self,
        prefix: &str,
        denom: &str,
        version: RulesVersion,
    ) -> Result<GovParams, String> {
        let json = &self.params;
        let ratio = |name: &str, text: &Option<String>| {
            text.as_ref().map_or(Ok(LegacyDec::ZERO), |text| share(name, text))
        };
        let deposit = |name: &str, coins: &[CoinJson], default: u64| {
            deposit(coins, denom, default).map_err(|reason| format!("params.{name}: {reason}"))
        };
        let dest = json.proposal_cancel_dest.clone().unwrap_or_default();
        if !dest.is_empty() {
            parse_address(&dest, prefix)
                .map_err(|error| format!("params.proposal_cancel_dest: {dest}: {error}"))?;
        }
        let params = GovParams {
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
            min_initial_deposit_ratio: ratio(
                "min_initial_deposit_ratio",
                &json.min_initial_deposit_ratio,
            )?,
            min_deposit_ratio: ratio("min_deposit_ratio", &json.min_deposit_ratio)?,
            proposal_cancel_ratio: ratio("proposal_cancel_ratio", &json.proposal_cancel_ratio)?,
            proposal_cancel_dest: dest,
            validators: self.validators(prefix)?,
        };
        if version >= RulesVersion::V1 {
            self.check_amounts()?;
            params.check()?;
        }
        Ok(params)
    }

    /// Checks that amounts are decimal digits, as in the SDK. Version 0 also accepts other notations of
    /// integers.
    fn check_amounts(&self) -> Result<(), String> {
        let json = &self.params;
        let lists = [
            ("min_deposit", &json.min_deposit),
            ("expedited_min_deposit", &json.expedited_min_deposit),
        ];
        for (name, coin) in
            lists.into_iter().flat_map(|(name, coins)| coins.iter().map(move |c| (name, c)))
        {
            if coin.amount.is_empty() || !coin.amount.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(format!(
                    "params.{name}: {:?} must be a number in decimal digits",
                    coin.amount
                ));
            }
        }
        Ok(())
    }

    fn validators(&self, prefix: &str) -> Result<Vec<Validator>, String> {
        if self.validators.len() > MAX_VALIDATORS {
            return Err(format!("validators: at most {MAX_VALIDATORS}"));
        }
        let read = |json: &ValidatorJson| {
            let address = parse_address(&json.address, prefix)
                .map_err(|error| format!("validators: {}: {error}", json.address))?;
            let power = json.power.parse().ok().filter(|power| (1..1 << 40).contains(power));
            let power = power.ok_or_else(|| {
                format!("validators: power must be between 1 and 2^40 - 1, got {:?}", json.power)
            })?;
            Ok(Validator { address, power, consensus_key: json.consensus_key })
        };
        let mut validators =
            self.validators.iter().map(read).collect::<Result<Vec<_>, String>>()?;
        validators.sort_unstable_by_key(|validator| validator.address);
        match validators.windows(2).find(|pair| pair[0].address == pair[1].address) {
            Some(pair) => Err(format!("validators: {} is listed twice", pair[0].address)),
            None => check_consensus_keys(&validators).map(|()| validators),
        }
    }
}

/// Checks that all validators or none have a consensus key, that the keys differ and are not too many, and that a key
/// belongs to each account, so that fees are not lost.
fn check_consensus_keys(validators: &[Validator]) -> Result<(), String> {
    let mut keys: Vec<_> =
        validators.iter().filter_map(|v| Some(v.consensus_key?.bytes())).collect();
    if keys.is_empty() {
        return Ok(());
    }
    if let Some(without) = validators.iter().find(|validator| validator.consensus_key.is_none()) {
        return Err(format!(
            "validators: {} has no consensus_key: all validators need one, or none of them",
            without.address
        ));
    }
    let has_no_key = |address: Address| address.is_zero() || is_module_account(address);
    if let Some(without) = validators.iter().find(|validator| has_no_key(validator.address)) {
        return Err(format!(
            "validators: no key belongs to the account {}, which would receive fees",
            without.address
        ));
    }
    if keys.len() > MAX_CONSENSUS_VALIDATORS {
        let count = keys.len();
        return Err(format!(
            "validators: {count} have a consensus_key, and at most {MAX_CONSENSUS_VALIDATORS} can decide about blocks"
        ));
    }
    keys.sort_unstable();
    match keys.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("validators: the consensus_key {} is listed twice", pair[0])),
        None => Ok(()),
    }
}

fn share(name: &str, text: &str) -> Result<LegacyDec, String> {
    let value = text.parse().map_err(|error| format!("params.{name}: {error}"))?;
    let inside = (LegacyDec::ZERO..=LegacyDec::ONE).contains(&value);
    if inside { Ok(value) } else { Err(format!("params.{name}: {text} is not 0 to 1")) }
}

fn period(name: &str, text: &str) -> Result<u64, String> {
    let seconds = text.strip_suffix('s').and_then(|digits| digits.parse().ok());
    seconds
        .filter(|seconds| (1..=MAX_PERIOD).contains(seconds))
        .ok_or_else(|| format!("params.{name}: must be a duration such as \"30s\", got {text:?}"))
}

fn deposit(coins: &[CoinJson], denom: &str, default: u64) -> Result<U256, String> {
    match coins {
        [] => Ok(U256::from(default)),
        [coin] if coin.denom == denom => {
            coin.amount.parse().map_err(|_| format!("{:?} is not an amount", coin.amount))
        }
        _ => Err(format!("must be exactly one amount of {denom}")),
    }
}

impl GovParams {
    /// Checks minimums, and compares the parameters with each other (SDK: `Params.ValidateBasic`).
    fn check(&self) -> Result<(), String> {
        let refuse = |name: &str, reason: String| Err(format!("params.{name}: {reason}"));
        if self.min_deposit.is_zero() {
            return refuse("min_deposit", "must be above 0".to_owned());
        }
        if self.expedited_min_deposit <= self.min_deposit {
            return refuse(
                "expedited_min_deposit",
                format!(
                    "must be above min_deposit, which is {}, got {}",
                    self.min_deposit, self.expedited_min_deposit
                ),
            );
        }
        for (name, share) in [
            ("threshold", self.threshold),
            ("expedited_threshold", self.expedited_threshold),
            ("veto_threshold", self.veto_threshold),
        ] {
            if share == LegacyDec::ZERO {
                return refuse(name, "must be above 0".to_owned());
            }
        }
        if self.expedited_threshold <= self.threshold {
            return refuse(
                "expedited_threshold",
                format!(
                    "must be above threshold, which is {}, got {}",
                    self.threshold, self.expedited_threshold
                ),
            );
        }
        if self.expedited_voting_period >= self.voting_period {
            return refuse(
                "expedited_voting_period",
                format!(
                    "must be below voting_period, which is {}s, got {}s",
                    self.voting_period, self.expedited_voting_period
                ),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "gov_section_tests.rs"]
mod tests;
