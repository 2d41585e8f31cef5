//! Returns the settings and the status of the node in the format that Cosmos tools expect.

use super::{
    QueryError, Snapshot,
    node::time,
    proto::cosmos::base::node::v1beta1::{ConfigResponse, StatusResponse},
};
use feemarket::LegacyDec;

/// The SDK's settings for a node that prunes nothing.
const NO_PRUNING: &str = "0";

impl Snapshot {
    /// Returns the minimum gas price of Cosmos transactions in the pool. The other settings state that nothing is
    /// pruned, and that the node does not halt at a height.
    pub fn node_config(&self) -> ConfigResponse {
        let token = self.token();
        let limit = token.unit.price_from_wei(LegacyDec::from(self.facts.price_limit));
        let price = limit.max(self.facts.minimum_gas_price);
        ConfigResponse {
            minimum_gas_price: format!("{price}{}", token.denom),
            pruning_keep_recent: NO_PRUNING.to_owned(),
            pruning_interval: NO_PRUNING.to_owned(),
            halt_height: 0,
        }
    }

    /// Returns this snapshot's block, and the first block whose state is stored.
    ///
    /// # Errors
    /// If the header cannot be read.
    pub fn node_status(&self) -> Result<StatusResponse, QueryError> {
        let (_, header) = self.header(self.number)?;
        Ok(StatusResponse {
            earliest_store_height: 0,
            height: self.number,
            timestamp: Some(time(header.timestamp)),
            app_hash: header.state_root.to_vec(),
            validator_hash: Vec::new(),
        })
    }
}
