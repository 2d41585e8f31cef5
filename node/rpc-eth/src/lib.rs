//! The JSON-RPC methods that wallets and applications use, and the context in which all methods run.
//!
//! - [`eth`], [`net`], [`web3`], [`txpool`], [`personal`] and [`evmd`] each contain methods and a table of them.
//! - [`method`] defines a call of a method, [`services`] the state that all calls share, and [`Context`] the parts of
//!   the node that they use.
//! - [`CallRunner`] executes calls for other interfaces.
//!
//! A method reads a published view. It never writes the state of the chain itself and never blocks a stage.

mod call_runner;
pub mod development;
pub mod eth;
pub mod evmd;
pub mod filters;
mod inclusions;
pub mod log_query;
pub mod method;
pub mod module_state;
pub mod net;
mod pending_block;
pub mod personal;
pub mod recover;
pub mod services;
mod sync_status;
pub mod txpool;
pub mod web3;

pub use call_runner::{CallLimits, CallRunner, CallRunnerError};
pub use inclusions::Inclusions;
pub use pending_block::PendingBlock;
pub use sync_status::{SyncBlocks, SyncStatus};

use alloy_primitives::Bytes;
use budget::Budget;
use chain::ChainSpec;
use config::Endpoints;
use consensus::MiningControl;
use development::Development;
use evm::ExecutionCaches;
use keys::Signers;
use pipeline::{Monitor, PoolClient};
use rpc_types::{error::Error, text::Json};
use state::Published;
use std::{fmt, pin::Pin, sync::Arc};

/// Forwards calls about the pool and the pending block to another node.
pub trait CallForwarder: fmt::Debug + Send + Sync {
    /// Returns the other node's response to a call. `params` is JSON text.
    fn call(
        &self,
        method: &'static str,
        params: Bytes,
    ) -> Pin<Box<dyn Future<Output = Result<Json, Error>> + Send + '_>>;
}

/// The parts of the node that the methods use.
#[derive(Clone, Debug)]
pub struct Context {
    /// The rules of the chain.
    pub spec: Arc<ChainSpec>,
    /// Publishes the current view.
    pub published: Published,
    /// Submits transactions and queries the mempool.
    pub pool: PoolClient,
    /// The counters of the pipeline.
    pub monitor: Monitor,
    /// The limits of the mempool. Suggested prices are never below its minimum price.
    pub pool_limits: mempool::Limits,
    /// Maximum gas of a call that is executed for a client; 0 for no limit.
    pub gas_cap: u64,
    /// Maximum number of blocks of `eth_feeHistory`.
    pub feehistory_cap: u64,
    /// The addresses of all servers of the node.
    pub endpoints: Endpoints,
    /// The caches that executions share.
    pub caches: Option<Arc<ExecutionCaches>>,
    /// The keys that sign for clients, if the operator has enabled them.
    pub signers: Option<Arc<Signers>>,
    /// Controls when this node produces blocks; `None` if it does not produce blocks.
    pub mining: Option<MiningControl>,
    /// The state of the development methods; `None` on a chain that is not for development.
    pub development: Option<Arc<Development>>,
    /// The calls that wait for the block of a transaction. They are woken only on development chains.
    pub inclusions: Arc<Inclusions>,
    /// Forwards calls about the pool and the pending block; `None` on a node that answers them itself.
    pub forwarder: Option<Arc<dyn CallForwarder>>,
    /// The resources that the clients of all servers share.
    pub budget: Arc<Budget>,
}
