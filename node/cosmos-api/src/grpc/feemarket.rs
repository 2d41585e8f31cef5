//! Implements the gRPC service of the fee market under its three names. The messages of all three share Rust types,
//! because their encoding is the same.

use super::services::{Answer, Service};
use crate::query::proto::{
    cosmos::evm::feemarket::v1::{
        QueryBaseFeeRequest, QueryBaseFeeResponse, QueryBlockGasRequest, QueryBlockGasResponse,
        QueryParamsRequest, QueryParamsResponse, query_server as of_cosmos,
    },
    feemarket::{query_server as short, v1::query_server as of_v1},
};
use tonic::Request;

/// Implements the generated trait for one of the names.
macro_rules! serve_fee_market {
    ($module:ident) => {
        #[tonic::async_trait]
        impl $module::Query for Service {
            async fn params(
                &self,
                request: Request<QueryParamsRequest>,
            ) -> Answer<QueryParamsResponse> {
                self.answer_blocking(request, |at, _| at.feemarket_params()).await
            }

            async fn base_fee(
                &self,
                request: Request<QueryBaseFeeRequest>,
            ) -> Answer<QueryBaseFeeResponse> {
                self.answer_blocking(request, |at, _| at.feemarket_base_fee()).await
            }

            async fn block_gas(
                &self,
                request: Request<QueryBlockGasRequest>,
            ) -> Answer<QueryBlockGasResponse> {
                self.answer_blocking(request, |at, _| at.feemarket_block_gas()).await
            }
        }
    };
}

serve_fee_market!(of_cosmos);
serve_fee_market!(short);
serve_fee_market!(of_v1);
