//! Implements the gRPC service of the mempool.

use super::services::{Answer, Service, with_height_header};
use crate::query::proto::evmd::mempool::{v1 as mempool, v1::query_server::Query};
use tonic::Request;

#[tonic::async_trait]
impl Query for Service {
    async fn pending_sequence(
        &self,
        request: Request<mempool::QueryPendingSequenceRequest>,
    ) -> Answer<mempool::QueryPendingSequenceResponse> {
        let snapshot = self.at(request.metadata())?;
        let answer = self.0.pending_sequence(&request.into_inner().address).await?;
        Ok(with_height_header(answer, &snapshot))
    }
}
