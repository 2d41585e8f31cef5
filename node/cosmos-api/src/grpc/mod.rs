//! Serves the query services of the Cosmos modules over gRPC, with reflection (v1 and v1alpha) and health checks. The
//! fee market is also served as `feemarket.Query` and `feemarket.v1.Query`.
//!
//! The services only convert requests and responses; [`crate::query`] answers the queries. The metadata
//! `x-cosmos-block-height` selects the block of a query, and names the queried block in the response.

mod bank;
mod direct;
mod distribution;
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
        evmd::{
            distribution::v1::query_server as distributions, mempool::v1::query_server as pool,
        },
        feemarket::{query_server as fee_market_short, v1::query_server as fee_market_v1},
    },
};
use budget::Budget;
use config::Grpc;
pub use direct::Direct;
use server::heights::Heights;
use server::listen::MAX_NAME_MESSAGE_BYTES;
use server::listen::{Bounds, Protocol, Server, serve as serve_router};
use server::listener::Listener;
use services::Service;
use std::sync::Arc;
use tonic::service::Routes;

/// The metadata key and HTTP header that selects the block of a query.
pub const HEIGHT_HEADER: &str = "x-cosmos-block-height";

/// Returns the gRPC services, which REST and CometBFT's RPC also call. A request may have up to `max_message_bytes`.
pub fn routes(queries: &Queries, max_message_bytes: usize) -> Routes {
    let service = || Service(queries.clone());
    let limit = max_message_bytes;
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
        .add_service(distributions::QueryServer::new(service()).max_decoding_message_size(limit))
}

/// Serves the address of `listener` until [`Server::stop`].
///
/// # Panics
/// Outside a Tokio runtime.
pub fn serve(config: &Grpc, listener: Listener, budget: &Arc<Budget>, queries: Queries) -> Server {
    // Each version of the reflection service lists both versions, so it must describe both.
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(
                tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
            )
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let v1 = reflection().build_v1().expect("the built-in descriptors are well-formed");
    let v1alpha = reflection().build_v1alpha().expect("the built-in descriptors are well-formed");
    // The whole server counts as healthy as long as it responds.
    let (_, health) = tonic_health::server::health_reporter();
    let routes = routes(&queries, config.max_request_bytes as usize)
        .add_service(v1.max_decoding_message_size(MAX_NAME_MESSAGE_BYTES))
        .add_service(v1alpha.max_decoding_message_size(MAX_NAME_MESSAGE_BYTES))
        .add_service(health.max_decoding_message_size(MAX_NAME_MESSAGE_BYTES));
    let bounds = Bounds {
        heights: Some(Heights::of(&queries.published)),
        connections: Arc::clone(&budget.grpc),
        concurrent: config.max_concurrent,
        body: config.max_request_bytes as usize,
        protocol: Protocol::Grpc { tls: None },
    };
    serve_router(listener, bounds, budget, routes.into_axum_router())
}
