//! Defines the recipient of the fees of a native chain, which is the parameter of the module `distribution`.

use alloy_primitives::Address;
use proto::evmd::distribution::v1 as proto;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

pub use proto::FeeRecipient;

/// Parameters of the distribution of fees, from rules version 2 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistributionParams {
    /// The recipient of the fees of a block.
    #[serde(serialize_with = "write_name", deserialize_with = "read_name")]
    pub fee_recipient: FeeRecipient,
}

/// A number that is not a [`FeeRecipient`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "fee_recipient is {0}, allowed 1 (FEE_RECIPIENT_FEE_COLLECTOR) and 2 (FEE_RECIPIENT_PROPOSER)"
)]
pub struct UnknownFeeRecipient(i32);

impl Default for DistributionParams {
    /// Returns the parameters of a chain whose genesis does not state them.
    fn default() -> Self {
        Self { fee_recipient: FeeRecipient::FeeCollector }
    }
}

impl DistributionParams {
    /// Returns the account to which the fees of a block with this miner move at its end; `None` if `fee_collector`
    /// keeps them. It also keeps them if the miner is the zero address, to which no key belongs.
    pub fn paid_account(self, miner: Address) -> Option<Address> {
        let is_paid = self.fee_recipient == FeeRecipient::Proposer && !miner.is_zero();
        is_paid.then_some(miner)
    }
}

impl From<DistributionParams> for proto::Params {
    fn from(params: DistributionParams) -> Self {
        Self { fee_recipient: params.fee_recipient.into() }
    }
}

impl TryFrom<proto::Params> for DistributionParams {
    type Error = UnknownFeeRecipient;

    fn try_from(params: proto::Params) -> Result<Self, UnknownFeeRecipient> {
        match FeeRecipient::try_from(params.fee_recipient) {
            Ok(FeeRecipient::Unspecified) | Err(_) => {
                Err(UnknownFeeRecipient(params.fee_recipient))
            }
            Ok(fee_recipient) => Ok(Self { fee_recipient }),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn write_name<S: Serializer>(recipient: &FeeRecipient, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(recipient.as_str_name())
}

fn read_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FeeRecipient, D::Error> {
    let name = String::deserialize(deserializer)?;
    let known = FeeRecipient::from_str_name(&name);
    known.filter(|found| *found != FeeRecipient::Unspecified).ok_or_else(|| {
        let [first, second] = [FeeRecipient::FeeCollector, FeeRecipient::Proposer];
        let (first, second) = (first.as_str_name(), second.as_str_name());
        D::Error::custom(format!("fee_recipient is {name:?}, allowed {first:?} and {second:?}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Genesis, Native,
        module_row::{distribution_pair, distribution_params, genesis_root},
    };
    use feemarket::store::Pairs;
    use serde_json::{Value, json};

    /// Reads the native section of a genesis with this value of the field.
    fn native(field: Option<Value>, version: u32) -> Result<Native, String> {
        let mut file: Value = serde_json::from_str(&Genesis::native_dev(0).to_json()).unwrap();
        file["coinbase"] = json!(Address::repeat_byte(1));
        let section = &mut file["config"]["evmd"];
        section["rules"] = json!([{ "version": version, "height": 0 }]);
        if let Some(field) = field {
            section["distribution"] = field;
        }
        let genesis = Genesis::from_json(&file.to_string()).map_err(|error| error.to_string())?;
        Ok(genesis.spec.native().unwrap().clone())
    }

    fn stated(name: &str) -> Option<Value> {
        Some(json!({ "params": { "fee_recipient": name } }))
    }

    #[test]
    fn genesis_states_the_recipient_from_version_2_on() {
        let names = ["FEE_RECIPIENT_FEE_COLLECTOR", "FEE_RECIPIENT_PROPOSER"];
        let recipients = [FeeRecipient::FeeCollector, FeeRecipient::Proposer];
        let silent = native(None, 2).unwrap();
        assert_eq!(silent.distribution, None);
        let mut seen = vec![(silent.config_hash, genesis_root(&silent))];
        for (name, fee_recipient) in names.into_iter().zip(recipients) {
            let stating = native(stated(name), 2).unwrap();
            assert_eq!(stating.distribution, Some(DistributionParams { fee_recipient }));
            // Block 0 commits to the recipient in the hash of the configuration and in the row.
            let commitments = (stating.config_hash, genesis_root(&stating));
            assert!(seen.iter().all(|old| old.0 != commitments.0 && old.1 != commitments.1));
            seen.push(commitments);
            let error = native(stated(name), 1).unwrap_err();
            assert!(error.contains("distribution") && error.contains("version 2"), "{error}");
        }
        let mut without = serde_json::from_str::<Value>(&Genesis::native_dev(0).to_json()).unwrap();
        without["config"]["evmd"]["distribution"] = stated("FEE_RECIPIENT_PROPOSER").unwrap();
        let error = Genesis::from_json(&without.to_string()).unwrap_err().to_string();
        assert!(error.contains("coinbase"), "{error}");
        for wrong in [
            json!({}),
            json!({ "params": {} }),
            stated("PROPOSER").unwrap(),
            stated("FEE_RECIPIENT_UNSPECIFIED").unwrap(),
        ] {
            let error = native(Some(wrong.clone()), 2).unwrap_err();
            assert!(
                error.contains("fee_recipient") || error.contains("params"),
                "{wrong}: {error}"
            );
        }
    }

    #[test]
    fn recipient_in_the_row_replaces_that_of_genesis() {
        let silent = native(None, 2).unwrap();
        assert_eq!(distribution_params(&Pairs::new(), &silent), Ok(None));
        let stating = native(stated("FEE_RECIPIENT_PROPOSER"), 2).unwrap();
        assert_eq!(distribution_params(&Pairs::new(), &stating), Ok(stating.distribution));
        for fee_recipient in [FeeRecipient::FeeCollector, FeeRecipient::Proposer] {
            let params = DistributionParams { fee_recipient };
            let pairs = Pairs::from([distribution_pair(params)]);
            assert_eq!(distribution_params(&pairs, &silent), Ok(Some(params)));
        }
        let (key, _) = distribution_pair(stating.distribution.unwrap());
        let pairs = Pairs::from([(key, vec![8, 3].into())]);
        let error = distribution_params(&pairs, &silent).unwrap_err().to_string();
        assert!(error.contains("fee_recipient is 3"), "{error}");
    }
}
