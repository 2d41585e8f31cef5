//! Defines the fee market's section of a genesis file.

use super::params::{Params, integer};
use serde::{Deserialize, Serialize, Serializer};

/// `app_state.feemarket`: the initial state of the market.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Genesis {
    /// The parameters, which are validated when they are read.
    pub params: Params,
    /// Gas that counts as used by the parent of the first block.
    #[serde(default, serialize_with = "string", deserialize_with = "integer")]
    pub block_gas: u64,
}

/// Writes a 64-bit integer as a string, so that no JSON parser rounds it.
pub(super) fn string<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
