//! What the node tells about itself over HTTP: `/metrics` for Prometheus, `/health` for balancers,
//! `/status` for people and `evmd status`.
//!
//! Reads counters and the published view; never makes a stage wait for more than one question to
//! the mempool.

mod metrics;
mod status;

pub use metrics::{Kind, METRICS, Metric};

use crate::{
    chain::ChainSpec,
    config::Config,
    pipeline::{Fault, Monitor, PoolClient},
    rpc::CallMeter,
    view::Published,
};
use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use storage::IndexDb;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};
use verify::Backend;

/// Longest wait at the end for answers in flight.
const STOP_WAIT: Duration = Duration::from_secs(2);
/// The text format of Prometheus.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What there is to tell about.
#[derive(Clone, Debug)]
pub struct Context {
    /// The chain's rules.
    pub spec: Arc<ChainSpec>,
    /// Where the current view is published.
    pub published: Published,
    /// Asks about the mempool.
    pub pool: PoolClient,
    /// Reads the counters of the stages.
    pub monitor: Monitor,
    /// The counters of RPC calls.
    pub calls: Arc<CallMeter>,
    /// The index environment.
    pub index: IndexDb,
    /// The settings in force.
    pub config: Config,
    /// The recovery backend in use.
    pub backend: Backend,
}

/// The running server.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

/// Serves on `address` until [`Server::stop`].
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(address: SocketAddr, context: Context) -> Result<Server, Fault> {
    let fault = |source| Fault::Socket { what: format!("metrics on {address}"), source };
    let listener = TcpListener::bind(address).await.map_err(fault)?;
    let address = listener.local_addr().map_err(fault)?;
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .route("/status", get(status))
        .with_state(Arc::new(context));
    let (stop, stopped) = oneshot::channel();
    let until = async {
        // An error means that the sender is gone: an end as well.
        let _ = stopped.await;
    };
    let serving = axum::serve(listener, router).with_graceful_shutdown(until).into_future();
    Ok(Server { address, stop, task: tokio::spawn(serving) })
}

impl Server {
    /// Ends the server; answers in flight are finished for a while.
    pub async fn stop(self) {
        let Self { stop, mut task, .. } = self;
        // An error says that the server has ended already.
        let _ = stop.send(());
        if tokio::time::timeout(STOP_WAIT, &mut task).await.is_err() {
            task.abort();
        }
    }
}

type Shared = State<Arc<Context>>;

async fn metrics(State(context): Shared) -> impl IntoResponse {
    let snapshot = metrics::Snapshot::take(&context).await;
    ([(header::CONTENT_TYPE, METRICS_TYPE)], metrics::render(&snapshot))
}

async fn health(State(context): Shared) -> impl IntoResponse {
    let health = status::Health::take(&context);
    let code = if health.healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(health))
}

async fn status(State(context): Shared) -> impl IntoResponse {
    Json(status::Status::take(&context).await)
}
