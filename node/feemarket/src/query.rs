//! Creates the responses to the module's three queries: JSON for REST and the command line through `serde`, text
//! for the command line, protobuf for gRPC.

use super::{
    dec::LegacyDec,
    genesis::string,
    market::Market,
    params::{Params, integer},
    wire::Writer,
};
use serde::{Deserialize, Serialize};

/// Response to `Query/Params`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParamsResponse {
    /// The parameters, including the current base fee.
    pub params: Params,
}

/// Response to `Query/BaseFee`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseFeeResponse {
    /// The current base fee in the token's base unit; zero if it is turned off.
    pub base_fee: LegacyDec,
}

/// Response to `Query/BlockGas`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockGasResponse {
    /// Gas that the last block reported.
    #[serde(serialize_with = "string", deserialize_with = "integer")]
    pub gas: u64,
}

impl ParamsResponse {
    /// Creates the response from a market.
    pub fn of(market: &Market) -> Self {
        Self { params: market.params().clone() }
    }

    /// Returns the response as YAML for the command line.
    pub fn to_text(&self) -> String {
        self.params.to_text()
    }

    /// Encodes the response as protobuf `QueryParamsResponse`.
    pub fn to_proto(&self) -> Vec<u8> {
        Writer::default().bytes(1, &self.params.to_proto()).finish()
    }
}

impl BaseFeeResponse {
    /// Creates the response from a market.
    pub fn of(market: &Market) -> Self {
        Self { base_fee: market.base_fee().unwrap_or_default() }
    }

    /// Returns the response as YAML for the command line.
    pub fn to_text(&self) -> String {
        format!("base_fee: \"{}\"\n", self.base_fee)
    }

    /// Encodes the response as protobuf `QueryBaseFeeResponse`.
    pub fn to_proto(&self) -> Vec<u8> {
        Writer::default().bytes(1, self.base_fee.to_scaled().as_bytes()).finish()
    }
}

impl BlockGasResponse {
    /// Creates the response from a market.
    pub fn of(market: &Market) -> Self {
        Self { gas: market.block_gas() }
    }

    /// Returns the response as YAML for the command line.
    pub fn to_text(&self) -> String {
        format!("gas: \"{}\"\n", self.gas)
    }

    /// Encodes the response as protobuf `QueryBlockGasResponse`.
    pub fn to_proto(&self) -> Vec<u8> {
        Writer::default().number(1, self.gas).finish()
    }
}
