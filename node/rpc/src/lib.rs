//! Ethereum JSON-RPC over HTTP and WebSocket, answered from the published view.
//!
//! One module a namespace ([`eth`], [`evmd`], `net`, `web3`), each with its table of methods; errors are made
//! in `error`, answers are shaped in `object`. A request, or a whole batch, sees one view.
//! Never writes state and never blocks a stage: transactions go in through the pipeline's client,
//! reads of microseconds run where the socket is served, those that may take long stand in `lines`.
//! HTTP and WebSockets are served by `front`, which asks `dispatch`; jsonrpsee keeps subscriptions.

mod block_id;
pub mod costs;
mod debug;
mod discover;
mod dispatch;
mod envelope;
mod error;
mod eth;
mod evmd;
mod fields;
mod filters;
mod front;
mod go_duration;
mod lines;
mod meter;
mod method;
mod net;
mod object;
mod ots;
mod params;
mod pending;
mod personal;
mod pushed;
mod rates;
mod recover;
mod replay;
mod serve;
mod services;
mod subscribe;
mod testing;
mod text;
mod trace;
mod trace_time;
mod trial;
mod txpool;
mod web3;

pub use error::{Error, Suggested};
pub use front::Seats;
pub use lines::Line;
pub use meter::{CallMeter, CallReading, LATENCY_BOUNDS_US};
pub use method::{Method, Run, methods, namespaces};
pub use serve::{Servers, serve};
pub use subscribe::SUBSCRIPTIONS;
pub use trial::{Bounds, Trial, TrialError};

use budget::Budget;
use chain::ChainSpec;
use config::Endpoints;
use keys::Signers;
use pipeline::{Monitor, PoolClient};
use state::Published;
use std::sync::Arc;

/// What the methods answer from.
#[derive(Clone, Debug)]
pub struct Context {
    /// The chain's rules.
    pub spec: Arc<ChainSpec>,
    /// Where the current view is published.
    pub published: Published,
    /// Submits transactions and asks about the mempool.
    pub pool: PoolClient,
    /// What the pipeline has done.
    pub monitor: Monitor,
    /// What the mempool asks of a transaction, so that no price is shown that it would refuse.
    pub pool_limits: mempool::Limits,
    /// Most gas of an `eth_call` or `eth_estimateGas`.
    pub gas_cap: u64,
    /// Most blocks an `eth_feeHistory` answers for.
    pub feehistory_cap: u64,
    /// Where the node serves what.
    pub endpoints: Endpoints,
    /// The keys to sign with for clients; none unless the operator has enabled it.
    pub signers: Option<Arc<Signers>>,
    /// What the clients of all servers share.
    pub budget: Arc<Budget>,
}
