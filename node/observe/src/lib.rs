//! Implements the HTTP server for monitoring: `/metrics` for Prometheus, `/health` for supervisors that restart the
//! node, `/ready` for load balancers, `/status` for people and `evmd status`.
//!
//! The server reads counters and the published view. A request causes at most one query to the mempool, and no other
//! work for a stage.

mod head;
mod metrics;
mod progress;
mod status;

pub use metrics::{Kind, METRICS, Metric};

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use budget::Budget;
use certificates::PublicKey;
use chain::ChainSpec;
use config::Config;
use head::HeadCheck;
use pipeline::{Fault, MiningControl, Monitor, PoolClient};
use progress::Progress;
use rpc::{CallMeter, ConnectionsPerThread};
use server::{
    access::{Access, PageRules},
    front_page,
    listen::{self, Bounds, Protocol, Server},
    listener::Listener,
};
use state::Published;
use std::{
    ops::Deref,
    sync::{Arc, atomic::AtomicU64},
    time::SystemTime,
};
use storage::IndexDb;
use verify::Backend;

/// Maximum number of concurrent requests. Each queries the mempool at most once, and one core is enough for that.
const MAX_CONCURRENT_REQUESTS: u32 = 8;
/// The text format of Prometheus.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The sources of the data.
#[derive(Clone, Debug)]
pub struct Context {
    /// The chain's rules.
    pub spec: Arc<ChainSpec>,
    /// Where the current view is published.
    pub published: Published,
    /// Queries the mempool.
    pub pool: PoolClient,
    /// Reads the counters of the stages.
    pub monitor: Monitor,
    /// The counters of RPC calls.
    pub calls: Arc<CallMeter>,
    /// The connections of JSON-RPC, by thread.
    pub connections_per_thread: ConnectionsPerThread,
    /// The resources that clients share.
    pub budget: Arc<Budget>,
    /// The index environment.
    pub index: IndexDb,
    /// The settings in force.
    pub config: Config,
    /// The recovery backend in use.
    pub backend: Backend,
    /// The name of this run of the node, which differs after each start.
    pub run: String,
    /// The public key with which this node signs its blocks, and the producer term, if it signs any.
    pub producer: Option<(PublicKey, u64)>,
    /// When blocks are produced, if the node produces any.
    pub mining: Option<MiningControl>,
    /// The counters of scheduled snapshots.
    pub snapshots: Arc<SnapshotCounters>,
}

/// Counters of scheduled snapshots, which another thread makes.
#[derive(Debug, Default)]
pub struct SnapshotCounters {
    /// The block of the newest snapshot; 0 if there is none.
    pub newest: AtomicU64,
    /// Snapshots that failed since the start.
    pub failed: AtomicU64,
}

/// The state that all requests share.
#[derive(Debug)]
struct Observed {
    context: Context,
    head: HeadCheck,
    progress: Progress,
    started: SystemTime,
}

impl Deref for Observed {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

/// Serves the address of `listener` until [`Server::stop`].
///
/// # Errors
/// If the thread of health checks cannot be started.
///
/// # Panics
/// Outside a Tokio runtime.
pub fn serve(listener: Listener, context: Context) -> Result<Server, Fault> {
    let budget = Arc::clone(&context.budget);
    let config = &context.config.metrics;
    let access = Access::new(
        PageRules::QUERIES,
        ("metrics.allowed-hosts", &config.allowed_hosts),
        ("metrics.cors-origins", &config.cors_origins),
    );
    let thread = |source| Fault::Socket { what: "the thread of health checks".to_owned(), source };
    let head = HeadCheck::start(context.published.clone()).map_err(thread)?;
    let (mining, empty_blocks) = (context.mining.clone(), context.config.engine.empty_blocks);
    let (published, pool) = (context.published.clone(), context.pool.clone());
    let progress = Progress::watch(mining, empty_blocks, published, pool);
    let pages = context.config.pages.address.address();
    let started = SystemTime::now();
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/status", get(status))
        .with_state(Arc::new(Observed { context, head, progress, started }));
    let router = front_page::with_link(router, "the metrics server", pages);
    let bounds = Bounds {
        heights: None,
        connections: Arc::clone(&budget.metrics),
        concurrent: MAX_CONCURRENT_REQUESTS,
        // Requests have no body.
        body: 0,
        protocol: Protocol::Http { access, health: &["/health", "/ready"] },
    };
    Ok(listen::serve(listener, bounds, &budget, router))
}

type Shared = State<Arc<Observed>>;

async fn metrics(State(context): Shared) -> impl IntoResponse {
    let snapshot = metrics::Snapshot::take(&context).await;
    ([(header::CONTENT_TYPE, METRICS_TYPE)], metrics::render(&snapshot))
}

async fn health(State(context): Shared) -> impl IntoResponse {
    let health = status::Health::take(&context);
    let code = if health.healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(health))
}

async fn ready(State(context): Shared) -> impl IntoResponse {
    let ready = status::Ready::take(&context);
    let code = if ready.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(ready))
}

async fn status(State(context): Shared) -> impl IntoResponse {
    Json(status::Status::take(&context).await)
}
