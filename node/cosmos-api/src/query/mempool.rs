//! Answers the queries of the node's mempool.

use super::{Queries, QueryError, proto::evmd::mempool::v1::QueryPendingSequenceResponse};
use storage::StateRead;

impl Queries {
    /// Returns the sequence of the account's next transaction, after its executable transactions in the pool.
    ///
    /// # Errors
    /// If the address is invalid, or the pool is too busy to respond.
    pub async fn pending_sequence(
        &self,
        address: &str,
    ) -> Result<QueryPendingSequenceResponse, QueryError> {
        let (address, on_chain) = {
            let snapshot = self.at(0)?;
            let address = snapshot.address(address)?;
            (address, snapshot.state()?.account(address)?.unwrap_or_default().nonce)
        };
        let pooled = self.pool.nonce(address).await.map_err(QueryError::of_pool)?;
        let sequence = pooled.unwrap_or_default().max(on_chain);
        Ok(QueryPendingSequenceResponse { sequence })
    }
}
