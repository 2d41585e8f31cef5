//! CometBFT's RPC in the shapes of its version 0.38: JSON-RPC in a POST at `/` and over a WebSocket at
//! `/websocket`, and each method as a URI. Cosmos client libraries speak nothing else.
//!
//! No CometBFT is behind it. The table in [`method`] names the methods; [`crate::query`] answers, and the
//! services of [`crate::grpc`] where a client queries a module: here answers only get their shape. Blocks
//! are final at once and nobody signs them, so commits have no signatures, and there are no peers. 64-bit
//! numbers are strings, hashes upper-case hex, bytes base64.

mod abci;
mod arguments;
mod blocks;
mod broadcast;
mod error;
mod info;
mod method;
mod rpc;
mod shape;
mod socket;
mod told;
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
use broadcast::COMMITS_MAX;
use budget::Budget;
use bytes::Bytes;
use config::Comet;
use error::Error;
use pipeline::Fault;
use serde_json::Value;
use server::listen::{self, Access, Bounds, Protocol, Server};
use socket::LOOKS_MAX;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{sync::Semaphore, time::Instant};

/// Longest that a request, a batch as a whole, is worked at: half as long again as the longest that one
/// method waits, which is [`broadcast`]'s for a block.
const REQUEST_TIME: Duration = Duration::from_secs(15);

type Answer = Result<Value, Error>;

/// What methods are answered from.
#[derive(Debug)]
struct Node {
    queries: Queries,
    services: Direct,
    /// Where this is served.
    address: SocketAddr,
    /// Places of those who wait for a block.
    commits: Semaphore,
    /// Most bytes of a message over a WebSocket.
    message_bytes: usize,
    /// Places of calls over WebSockets, as many as requests have.
    calls: Semaphore,
    /// Turns of those who look what of a block their queries match.
    looks: Semaphore,
}

impl Node {
    /// The chain as of its newest block.
    fn newest(&self) -> Result<Snapshot, QueryError> {
        self.queries.at(0)
    }
}

/// Serves on the configured address until [`Server::stop`].
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(
    config: &Comet,
    budget: &Arc<Budget>,
    queries: Queries,
) -> Result<Server, Fault> {
    let access = Access::new(
        ("comet.allowed-hosts", &config.allowed_hosts),
        ("comet.cors-origins", &config.cors_origins),
    );
    let bounds = Bounds {
        address: config.address,
        connections: Arc::clone(&budget.comet),
        concurrent: config.max_concurrent,
        body: config.max_request_bytes as usize,
        protocol: Protocol::Http { access, health: Some("/health") },
    };
    listen::serve("CometBFT RPC", bounds, budget, router(config, queries)).await
}

fn router(config: &Comet, queries: Queries) -> Router {
    let most_bytes = config.max_request_bytes as usize;
    let node = Node {
        services: Direct::new(grpc::routes(&queries, most_bytes)),
        queries,
        address: config.address,
        commits: Semaphore::new(COMMITS_MAX),
        message_bytes: most_bytes,
        calls: Semaphore::new(config.max_concurrent as usize),
        looks: Semaphore::new(LOOKS_MAX),
    };
    Router::new()
        .route("/", get(|| async { rpc::list() }).post(post))
        .route("/websocket", any(socket::open))
        .route("/{method}", get(uri))
        .with_state(Arc::new(node))
        .layer(DefaultBodyLimit::max(most_bytes))
}

/// The methods, and where they run.
#[cfg(test)]
pub fn method_places() -> impl Iterator<Item = (&'static str, &'static str)> {
    method::METHODS.iter().map(|method| (method.name, method.place()))
}

async fn post(State(node): State<Arc<Node>>, body: Result<Bytes, BytesRejection>) -> Response {
    match body {
        Ok(body) if body.is_empty() => rpc::list(),
        Ok(body) => rpc::answer_body(node, &body, Instant::now() + REQUEST_TIME).await,
        Err(error) => rpc::refused(error.status(), &Error::Request(error.body_text())),
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
        Err(error) => rpc::refused(error.status(), &Error::Request(error.body_text())),
    }
}

/// Does what reads blocks apart from the threads that serve sockets.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|cause| {
        tracing::error!(%cause, "a CometBFT request failed");
        Err(Error::Internal)
    })
}
