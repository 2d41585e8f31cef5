//! Implements the gRPC service for the distribution of fees.

use super::services::{Answer, Service};
use crate::query::proto::evmd::distribution::v1::{
    QueryParamsRequest, QueryParamsResponse, query_server::Query,
};
use tonic::Request;

#[tonic::async_trait]
impl Query for Service {
    async fn params(&self, request: Request<QueryParamsRequest>) -> Answer<QueryParamsResponse> {
        self.answer_blocking(request, |at, _| at.distribution_params()).await
    }
}
