//! Implements the gRPC service of the module `bank`.

use super::services::{Answer, Service};
use crate::query::{
    Snapshot,
    proto::cosmos::bank::{v1beta1 as bank, v1beta1::query_server::Query},
};
use tonic::Request;

#[tonic::async_trait]
impl Query for Service {
    async fn balance(
        &self,
        request: Request<bank::QueryBalanceRequest>,
    ) -> Answer<bank::QueryBalanceResponse> {
        self.answer(request, |at, query| at.bank_balance(&query.address, &query.denom))
    }

    async fn all_balances(
        &self,
        request: Request<bank::QueryAllBalancesRequest>,
    ) -> Answer<bank::QueryAllBalancesResponse> {
        self.answer(request, |at, query| {
            at.bank_balances(&query.address, query.pagination, query.resolve_denom)
        })
    }

    async fn spendable_balances(
        &self,
        request: Request<bank::QuerySpendableBalancesRequest>,
    ) -> Answer<bank::QuerySpendableBalancesResponse> {
        self.answer(request, |at, query| {
            at.bank_spendable_balances(&query.address, query.pagination)
        })
    }

    async fn spendable_balance_by_denom(
        &self,
        request: Request<bank::QuerySpendableBalanceByDenomRequest>,
    ) -> Answer<bank::QuerySpendableBalanceByDenomResponse> {
        self.answer(request, |at, query| at.bank_spendable_balance(&query.address, &query.denom))
    }

    async fn total_supply(
        &self,
        request: Request<bank::QueryTotalSupplyRequest>,
    ) -> Answer<bank::QueryTotalSupplyResponse> {
        self.answer_blocking(request, |at, query| at.bank_supply(query.pagination)).await
    }

    async fn supply_of(
        &self,
        request: Request<bank::QuerySupplyOfRequest>,
    ) -> Answer<bank::QuerySupplyOfResponse> {
        self.answer_blocking(request, |at, query| at.bank_supply_of(&query.denom)).await
    }

    async fn params(
        &self,
        request: Request<bank::QueryParamsRequest>,
    ) -> Answer<bank::QueryParamsResponse> {
        self.answer(request, |at, _| Ok(at.bank_params()))
    }

    async fn denom_metadata(
        &self,
        request: Request<bank::QueryDenomMetadataRequest>,
    ) -> Answer<bank::QueryDenomMetadataResponse> {
        self.answer(request, |at, query| {
            let metadata = Some(at.bank_metadata(&query.denom)?);
            Ok(bank::QueryDenomMetadataResponse { metadata })
        })
    }

    async fn denom_metadata_by_query_string(
        &self,
        request: Request<bank::QueryDenomMetadataByQueryStringRequest>,
    ) -> Answer<bank::QueryDenomMetadataByQueryStringResponse> {
        self.answer(request, |at, query| {
            let metadata = Some(at.bank_metadata(&query.denom)?);
            Ok(bank::QueryDenomMetadataByQueryStringResponse { metadata })
        })
    }

    async fn denoms_metadata(
        &self,
        request: Request<bank::QueryDenomsMetadataRequest>,
    ) -> Answer<bank::QueryDenomsMetadataResponse> {
        self.answer(request, |at, query| at.bank_all_metadata(query.pagination))
    }

    async fn send_enabled(
        &self,
        request: Request<bank::QuerySendEnabledRequest>,
    ) -> Answer<bank::QuerySendEnabledResponse> {
        self.answer(request, Snapshot::bank_send_enabled)
    }
}
