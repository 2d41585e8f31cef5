//! Answers to the module's three queries: JSON for REST and the command line through `serde`, text
//! for the command line, protobuf for gRPC.

use super::{
    dec::LegacyDec,
    genesis::string,
    market::Market,
    params::{Params, integer},
    wire::Writer,
};
use serde::{Deserialize, Serialize};

/// Answer to `Query/Params`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParamsResponse {
    /// Parameters, current base fee included.
    pub params: Params,
}

/// Answer to `Query/BaseFee`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseFeeResponse {
    /// The current base fee in the token's base unit, zero where there is none.
    pub base_fee: LegacyDec,
}

/// Answer to `Query/BlockGas`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockGasResponse {
    /// Gas that the last block reported.
    #[serde(serialize_with = "string", deserialize_with = "integer")]
    pub gas: u64,
}

impl ParamsResponse {
    /// The answer of a market.
    pub fn of(market: &Market) -> Self {
        Self { params: market.params().clone() }
    }

    /// YAML.
    pub fn to_text(&self) -> String {
        self.params.to_text()
    }

    /// Protobuf `QueryParamsResponse`.
    pub fn to_proto(&self) -> Vec<u8> {
        Writer::default().bytes(1, &self.params.to_proto()).finish()
    }
}

impl BaseFeeResponse {
    /// The answer of a market.
    pub fn of(market: &Market) -> Self {
        Self { base_fee: market.base_fee().unwrap_or_default() }
    }

    /// YAML.
    pub fn to_text(&self) -> String {
        format!("base_fee: \"{}\"\n", self.base_fee)
    }

    /// Protobuf `QueryBaseFeeResponse`.
    pub fn to_proto(&self) -> Vec<u8> {
        Writer::default().bytes(1, self.base_fee.to_scaled().as_bytes()).finish()
    }
}

impl BlockGasResponse {
    /// The answer of a market.
    pub fn of(market: &Market) -> Self {
        Self { gas: market.block_gas() }
    }

    /// YAML.
    pub fn to_text(&self) -> String {
        format!("gas: \"{}\"\n", self.gas)
    }

    /// Protobuf `QueryBlockGasResponse`.
    pub fn to_proto(&self) -> Vec<u8> {
        Writer::default().number(1, self.gas).finish()
    }
}
