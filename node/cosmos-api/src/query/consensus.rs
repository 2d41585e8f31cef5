//! Returns consensus parameters in the format of Cosmos tools. Evidence and vote extension parameters do not apply.

use super::{
    QueryError, Snapshot,
    node::signed,
    proto::{
        cosmos::consensus::v1::QueryParamsResponse,
        tendermint::types::{
            AbciParams, BlockParams, ConsensusParams, EvidenceParams, ValidatorParams,
            VersionParams,
        },
    },
};
use prost_types::Duration;

/// There is no maximum number of bytes, because the gas limit also limits the size of a block.
const UNBOUNDED: i64 = -1;
/// The type of validator keys.
const KEY_KIND: &str = "ed25519";

impl Snapshot {
    /// Returns the consensus parameters of this snapshot's block.
    ///
    /// # Errors
    /// If the header cannot be read.
    pub fn consensus_params(&self) -> Result<QueryParamsResponse, QueryError> {
        Ok(QueryParamsResponse { params: Some(self.consensus_params_of(self.number)?) })
    }

    /// Returns the consensus parameters of a block, which must not be above the block of this snapshot.
    ///
    /// # Errors
    /// If the header cannot be read.
    pub fn consensus_params_of(&self, number: u64) -> Result<ConsensusParams, QueryError> {
        let max_gas = signed(self.header(number)?.1.gas_limit);
        let evidence = EvidenceParams {
            max_age_duration: Some(Duration::default()),
            ..EvidenceParams::default()
        };
        Ok(ConsensusParams {
            block: Some(BlockParams { max_bytes: UNBOUNDED, max_gas }),
            evidence: Some(evidence),
            validator: Some(ValidatorParams { pub_key_types: vec![KEY_KIND.to_owned()] }),
            version: Some(VersionParams::default()),
            abci: Some(AbciParams::default()),
        })
    }
}
