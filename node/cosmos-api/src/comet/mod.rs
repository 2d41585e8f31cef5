//! Serves CometBFT's RPC in the format of version 0.38: JSON-RPC over POST at `/` and over a WebSocket at
//! `/websocket`, and as a URI for each method. Some Cosmos client libraries use only this interface.
//!
//! The node does not run CometBFT. The table in [`method`] lists the methods. This module converts the results of
//! [`crate::query`], and passes ABCI queries to the services of [`crate::grpc`]. If validators produce the blocks,
//! commits contain their signatures. 64-bit numbers are strings, hashes are upper-case hex, and bytes are base64.

mod abci;
mod arguments;
mod block_search;
mod blocks;
mod broadcast;
mod error;
mod info;
mod method;
mod rpc;
mod shape;
mod socket;
mod subscription_events;
mod txs;

use crate::{
    grpc::{self, Direct},
    query::{Queries, QueryError, Snapshot},
};
use axum::{
    Router,
    extract::{
        DefaultBodyLimit, Path, Query, State,
        rejection::{BytesRejection, QueryRejection},
    },
    response::Response,
    routing::{any, get},
};
use broadcast::MAX_WAITING_COMMITS;
use budget::Budget;
use bytes::Bytes;
use config::Comet;
use error::Error;
use serde_json::Value;
use server::{
    access::{Access, PageRules},
    front_page,
    heights::Heights,
    listen::{self, Bounds, Protocol, Server},
    listener::Listener,
};
use socket::MAX_CONCURRENT_MATCHES;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{sync::Semaphore, time::Instant};

/// Maximum time for a request, including all calls of a batch: 1.5 times the longest wait of a single method, the
/// one in [`broadcast`] for a block.
const REQUEST_TIME: Duration = Duration::from_secs(15);

type Answer = Result<Value, Error>;

/// The state that all methods share.
#[derive(Debug)]
struct Node {
    queries: Queries,
    services: Direct,
    /// The address of this server.
    address: SocketAddr,
    /// Permits for calls that wait for a block.
    commits: Semaphore,
    /// Maximum bytes of a WebSocket message.
    message_bytes: usize,
    /// Permits for calls over WebSockets: `comet.max-concurrent`, as many as for requests.
    calls: Semaphore,
    /// Permits for tasks that match a block against the queries of subscribers.
    matches: Semaphore,
}

impl Node {
    /// Returns the chain at its newest block.
    fn newest(&self) -> Result<Snapshot, QueryError> {
        self.queries.at(0)
    }
}

/// Serves the address of `listener` until [`Server::stop`].
///
/// # Panics
/// Outside a Tokio runtime.
pub fn serve(config: &Comet, listener: Listener, budget: &Arc<Budget>, queries: Queries) -> Server {
    let access = Access::new(
        PageRules::QUERIES,
        ("comet.allowed-hosts", &config.allowed_hosts),
        ("comet.cors-origins", &config.cors_origins),
    );
    let bounds = Bounds {
        heights: Some(Heights::of(&queries.published)),
        connections: Arc::clone(&budget.comet),
        concurrent: config.max_concurrent,
        body: config.max_request_bytes as usize,
        protocol: Protocol::Http { access, health: &["/health"] },
    };
    let pages = queries.pages();
    let router = router(config, listener.address, queries);
    let router = front_page::with_link(router, "CometBFT RPC", pages);
    listen::serve(listener, bounds, budget, router)
}

fn router(config: &Comet, address: SocketAddr, queries: Queries) -> Router {
    let max_request_bytes = config.max_request_bytes as usize;
    let node = Node {
        services: Direct::new(grpc::routes(&queries, max_request_bytes)),
        queries,
        address,
        commits: Semaphore::new(MAX_WAITING_COMMITS),
        message_bytes: max_request_bytes,
        calls: Semaphore::new(config.max_concurrent as usize),
        matches: Semaphore::new(MAX_CONCURRENT_MATCHES),
    };
    Router::new()
        .route("/", get(|| async { rpc::list() }).post(post))
        .route("/websocket", any(socket::open))
        .route("/{method}", get(uri))
        .with_state(Arc::new(node))
        .layer(DefaultBodyLimit::max(max_request_bytes))
}

/// Returns the methods, each with its class in the table of costs.
#[cfg(test)]
pub fn method_threads() -> impl Iterator<Item = (&'static str, &'static str)> {
    method::METHODS.iter().map(|method| (method.name, method.place()))
}

async fn post(State(node): State<Arc<Node>>, body: Result<Bytes, BytesRejection>) -> Response {
    match body {
        Ok(body) if body.is_empty() => rpc::list(),
        Ok(body) => rpc::answer_body(node, &body, Instant::now() + REQUEST_TIME).await,
        Err(error) => rpc::error_response(error.status(), &Error::Request(error.body_text())),
    }
}

async fn uri(
    State(node): State<Arc<Node>>,
    Path(method): Path<String>,
    pairs: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Response {
    match pairs {
        Ok(Query(pairs)) => {
            rpc::answer_uri(node, &method, pairs, Instant::now() + REQUEST_TIME).await
        }
        Err(error) => rpc::error_response(error.status(), &Error::Request(error.body_text())),
    }
}

/// Runs work on a blocking thread, so that it does not delay the threads that serve sockets.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|cause| {
        tracing::error!(%cause, "a CometBFT request failed");
        Err(Error::Internal)
    })
}
