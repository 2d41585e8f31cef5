//! The methods of JSON-RPC that wallets and applications use, and what a method receives and returns.
//!
//! - [`eth`], [`net`], [`web3`], [`txpool`], [`personal`], [`evmd`]: one module for each namespace, each with its
//!   table of methods.
//! - [`method`]: the call of a method; [`services`]: what all calls share; [`Context`]: what they work on.
//! - [`Trial`]: contract calls of other interfaces.
//!
//! A method reads one view. It never writes state and never blocks a stage.

pub mod eth;
pub mod evmd;
pub mod filters;
pub mod log_query;
pub mod method;
pub mod module_state;
pub mod net;
mod pending_block;
pub mod personal;
pub mod recover;
pub mod services;
mod trial;
pub mod txpool;
pub mod web3;

pub use pending_block::PendingBlock;
pub use trial::{Bounds, Trial, TrialError};

use budget::Budget;
use chain::ChainSpec;
use config::Endpoints;
use evm::ExecutionCaches;
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
    /// The caches that executions share.
    pub caches: Option<Arc<ExecutionCaches>>,
    /// The keys to sign with for clients; none unless the operator has enabled it.
    pub signers: Option<Arc<Signers>>,
    /// What the clients of all servers share.
    pub budget: Arc<Budget>,
}
