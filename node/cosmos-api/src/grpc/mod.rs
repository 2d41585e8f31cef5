//! gRPC: the queries under the names of the Cosmos interfaces, those of the fee market also under
//! `feemarket.Query` and `feemarket.v1.Query`, with reflection (v1 and v1alpha) and health.
//!
//! Services only take a request apart and give its answer; the answers are made in
//! [`crate::query`]. The metadata `x-cosmos-block-height` chooses the block of a query, and says
//! which it was in the answer.

mod bank;
mod direct;
mod evm;
mod feemarket;
mod gov_v1beta1;
mod mempool;
mod node;
mod services;

use crate::query::{
    Queries,
    proto::{
        self,
        cosmos::{
            auth::v1beta1::query_server as auth,
            bank::v1beta1::query_server as balances,
            base::{
                node::v1beta1::service_server as settings,
                tendermint::v1beta1::service_server as blocks,
            },
            consensus::v1::query_server as consensus,
            evm::{feemarket::v1::query_server as fee_market, vm::v1::query_server as vm},
            gov::{v1::query_server as gov, v1beta1::query_server as old_gov},
            tx::v1beta1::service_server as tx,
        },
        evmd::mempool::v1::query_server as pool,
        feemarket::{query_server as fee_market_short, v1::query_server as fee_market_v1},
    },
};
use budget::Budget;
use config::Grpc;
pub use direct::Direct;
use pipeline::Fault;
use server::listen::MAX_NAME_MESSAGE_BYTES;
use server::listen::{Bounds, Protocol, Server, serve as serve_router};
use services::Service;
use std::sync::Arc;
use tonic::service::Routes;

/// Metadata, and HTTP header, that names the block of a query.
pub const HEIGHT_HEADER: &str = "x-cosmos-block-height";

/// The services, without a socket: REST and CometBFT's RPC call them as well.
pub fn routes(queries: &Queries, most_bytes: usize) -> Routes {
    let service = || Service(queries.clone());
    let limit = most_bytes;
    Routes::new(auth::QueryServer::new(service()).max_decoding_message_size(limit))
        .add_service(balances::QueryServer::new(service()).max_decoding_message_size(limit))
        .add_service(vm::QueryServer::new(service()).max_decoding_message_size(limit))
        .add_service(fee_market::QueryServer::new(service()).max_decoding_message_size(limit))
        .add_service(fee_market_v1::QueryServer::new(service()).max_decoding_message_size(limit))
        .add_service(fee_market_short::QueryServer::new(service()).max_decoding_message_size(limit))
        .add_service(gov::QueryServer::new(service()).max_decoding_message_size(limit))
        .add_service(old_gov::QueryServer::new(service()).max_decoding_message_size(limit))
        .add_service(tx::ServiceServer::new(service()).max_decoding_message_size(limit))
        .add_service(settings::ServiceServer::new(service()).max_decoding_message_size(limit))
        .add_service(blocks::ServiceServer::new(service()).max_decoding_message_size(limit))
        .add_service(consensus::QueryServer::new(service()).max_decoding_message_size(limit))
        .add_service(pool::QueryServer::new(service()).max_decoding_message_size(limit))
}

/// Serves on the configured address until [`Server::stop`].
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(config: &Grpc, budget: &Arc<Budget>, queries: Queries) -> Result<Server, Fault> {
    // Either version of reflection describes both, as both are among what is listed.
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(
                tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
            )
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let v1 = reflection().build_v1().expect("our own descriptors are well-formed");
    let v1alpha = reflection().build_v1alpha().expect("our own descriptors are well-formed");
    // The whole server is healthy while it answers.
    let (_, health) = tonic_health::server::health_reporter();
    let routes = routes(&queries, config.max_request_bytes as usize)
        .add_service(v1.max_decoding_message_size(MAX_NAME_MESSAGE_BYTES))
        .add_service(v1alpha.max_decoding_message_size(MAX_NAME_MESSAGE_BYTES))
        .add_service(health.max_decoding_message_size(MAX_NAME_MESSAGE_BYTES));
    let bounds = Bounds {
        address: config.address,
        connections: Arc::clone(&budget.grpc),
        concurrent: config.max_concurrent,
        body: config.max_request_bytes as usize,
        protocol: Protocol::Grpc,
    };
    serve_router("gRPC", bounds, budget, routes.into_axum_router()).await
}
