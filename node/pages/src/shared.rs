//! The state that all requests for pages share.

use crate::{
    samples::{PoolState, Samples},
    workers::Workers,
};
use budget::Budget;
use chain::ChainSpec;
use config::Endpoints;
use evm::ExecutionCaches;
use pipeline::{Monitor, PoolClient};
use state::Published;
use std::{sync::Arc, time::Instant};
use storage::IndexDb;
use tokio::sync::{Mutex, Semaphore};

/// Maximum number of transactions that are executed again at a time. Each of them can use a core for some seconds.
/// Further requests are refused: while they waited, they would count as concurrent requests and delay other pages.
const MAX_EXECUTIONS: usize = 1;

/// The sources of the data that the pages show.
#[derive(Clone, Debug)]
pub struct Context {
    /// The chain's rules.
    pub spec: Arc<ChainSpec>,
    /// The current view.
    pub published: Published,
    /// Queries the mempool.
    pub pool: PoolClient,
    /// Reads the counters of the stages.
    pub monitor: Monitor,
    /// The index environment.
    pub index: IndexDb,
    /// The addresses of the servers.
    pub endpoints: Endpoints,
    /// The caches that executions share.
    pub caches: Option<Arc<ExecutionCaches>>,
    /// The resources that clients share.
    pub budget: Arc<Budget>,
}

/// The state that all requests share.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) context: Context,
    pub(crate) samples: Arc<Samples>,
    /// The pool as the dashboard shows it, and the time when it was read.
    pub(crate) pool: Mutex<Option<(Instant, PoolState)>>,
    /// The part of the dashboard that changes, and the time when its rendering began.
    pub(crate) live: Mutex<Option<(Instant, String)>>,
    /// Runs the work that reads the chain.
    pub(crate) workers: Workers,
    /// Permits to execute a transaction again.
    pub(crate) executions: Arc<Semaphore>,
}

impl Pages {
    pub(crate) fn new(context: Context, samples: Arc<Samples>, max_concurrent: u32) -> Self {
        Self {
            context,
            samples,
            pool: Mutex::default(),
            live: Mutex::default(),
            workers: Workers::new(max_concurrent as usize),
            executions: Arc::new(Semaphore::new(MAX_EXECUTIONS)),
        }
    }
}
