//! The fee market's section of a genesis file.

use super::params::{Params, integer};
use serde::{Deserialize, Serialize, Serializer};

/// `app_state.feemarket`: what the market starts from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Genesis {
    /// Parameters, valid once read.
    pub params: Params,
    /// Gas that counts as used before block 1.
    #[serde(default, serialize_with = "string", deserialize_with = "integer")]
    pub block_gas: u64,
}

/// 64-bit integers are strings, so that no reader rounds them.
pub(super) fn string<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
