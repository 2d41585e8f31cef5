//! Implements the gRPC services that describe the node, its blocks and their limits.

use super::services::{Answer, Service};
use crate::query::proto::cosmos::{
    base::{
        node::{v1beta1 as settings, v1beta1::service_server::Service as SettingsService},
        tendermint::{v1beta1 as node, v1beta1::service_server::Service as NodeService},
    },
    consensus::{v1 as consensus, v1::query_server::Query as ConsensusQuery},
};
use tonic::Request;

#[tonic::async_trait]
impl NodeService for Service {
    async fn get_node_info(
        &self,
        request: Request<node::GetNodeInfoRequest>,
    ) -> Answer<node::GetNodeInfoResponse> {
        self.answer(request, |at, _| Ok(at.node_info()))
    }

    async fn get_syncing(
        &self,
        request: Request<node::GetSyncingRequest>,
    ) -> Answer<node::GetSyncingResponse> {
        self.answer(request, |at, _| Ok(at.syncing()))
    }

    async fn get_latest_block(
        &self,
        request: Request<node::GetLatestBlockRequest>,
    ) -> Answer<node::GetLatestBlockResponse> {
        self.answer_read(request, |at, _| at.latest_block()).await
    }

    async fn get_block_by_height(
        &self,
        request: Request<node::GetBlockByHeightRequest>,
    ) -> Answer<node::GetBlockByHeightResponse> {
        self.answer_read(request, |at, query| at.block_by_height(query.height)).await
    }

    async fn get_latest_validator_set(
        &self,
        request: Request<node::GetLatestValidatorSetRequest>,
    ) -> Answer<node::GetLatestValidatorSetResponse> {
        self.answer(request, |at, query| at.latest_validators(query.pagination))
    }

    async fn get_validator_set_by_height(
        &self,
        request: Request<node::GetValidatorSetByHeightRequest>,
    ) -> Answer<node::GetValidatorSetByHeightResponse> {
        self.answer(request, |at, query| at.validators_by_height(query.height, query.pagination))
    }
}

#[tonic::async_trait]
impl SettingsService for Service {
    async fn config(
        &self,
        request: Request<settings::ConfigRequest>,
    ) -> Answer<settings::ConfigResponse> {
        self.answer(request, |at, _| Ok(at.node_config()))
    }

    async fn status(
        &self,
        request: Request<settings::StatusRequest>,
    ) -> Answer<settings::StatusResponse> {
        self.answer(request, |at, _| at.node_status())
    }
}

#[tonic::async_trait]
impl ConsensusQuery for Service {
    async fn params(
        &self,
        request: Request<consensus::QueryParamsRequest>,
    ) -> Answer<consensus::QueryParamsResponse> {
        self.answer(request, |at, _| at.consensus_params())
    }
}
