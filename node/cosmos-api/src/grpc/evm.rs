//! Implements the gRPC service of the module `vm`.

use super::services::{Answer, Service};
use crate::query::proto::cosmos::evm::vm::{v1 as evm, v1::query_server::Query};
use tonic::Request;

#[tonic::async_trait]
impl Query for Service {
    async fn account(
        &self,
        request: Request<evm::QueryAccountRequest>,
    ) -> Answer<evm::QueryAccountResponse> {
        self.answer(request, |at, query| at.evm_account(&query.address))
    }

    async fn cosmos_account(
        &self,
        request: Request<evm::QueryCosmosAccountRequest>,
    ) -> Answer<evm::QueryCosmosAccountResponse> {
        self.answer(request, |at, query| at.evm_cosmos_account(&query.address))
    }

    async fn validator_account(
        &self,
        request: Request<evm::QueryValidatorAccountRequest>,
    ) -> Answer<evm::QueryValidatorAccountResponse> {
        self.answer(request, |at, query| at.evm_validator_account(&query.cons_address))
    }

    async fn balance(
        &self,
        request: Request<evm::QueryBalanceRequest>,
    ) -> Answer<evm::QueryBalanceResponse> {
        self.answer(request, |at, query| at.evm_balance(&query.address))
    }

    async fn storage(
        &self,
        request: Request<evm::QueryStorageRequest>,
    ) -> Answer<evm::QueryStorageResponse> {
        self.answer(request, |at, query| at.evm_storage(&query.address, &query.key))
    }

    async fn code(
        &self,
        request: Request<evm::QueryCodeRequest>,
    ) -> Answer<evm::QueryCodeResponse> {
        self.answer(request, |at, query| at.evm_code(&query.address))
    }

    async fn params(
        &self,
        request: Request<evm::QueryParamsRequest>,
    ) -> Answer<evm::QueryParamsResponse> {
        self.answer_blocking(request, |at, _| at.evm_params()).await
    }

    async fn base_fee(
        &self,
        request: Request<evm::QueryBaseFeeRequest>,
    ) -> Answer<evm::QueryBaseFeeResponse> {
        self.answer(request, |at, _| at.evm_base_fee())
    }

    async fn config(
        &self,
        request: Request<evm::QueryConfigRequest>,
    ) -> Answer<evm::QueryConfigResponse> {
        self.answer(request, |at, _| Ok(at.evm_config()))
    }

    async fn eth_call(
        &self,
        request: Request<evm::EthCallRequest>,
    ) -> Answer<evm::MsgEthereumTxResponse> {
        let permit = self.0.call_permit().await?;
        self.answer_limited(permit, request, |at, query, stop| at.eth_call(&query, stop)).await
    }

    async fn estimate_gas(
        &self,
        request: Request<evm::EthCallRequest>,
    ) -> Answer<evm::EstimateGasResponse> {
        let permit = self.0.call_permit().await?;
        self.answer_limited(permit, request, |at, query, stop| at.estimate_gas(&query, stop)).await
    }

    async fn global_min_gas_price(
        &self,
        request: Request<evm::QueryGlobalMinGasPriceRequest>,
    ) -> Answer<evm::QueryGlobalMinGasPriceResponse> {
        self.answer_blocking(request, |at, _| at.min_gas_price()).await
    }
}
