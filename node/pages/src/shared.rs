//! What all requests for pages share.

use crate::samples::{PoolState, Samples};
use budget::Budget;
use chain::ChainSpec;
use config::Endpoints;
use evm::ExecutionCaches;
use pipeline::{Monitor, PoolClient};
use state::Published;
use std::{sync::Arc, time::Instant};
use storage::IndexDb;
use tokio::sync::{Mutex, Semaphore};

/// Maximum number of transactions that are executed again at a time. Each of them uses a core for
/// some seconds.
const MAX_EXECUTIONS: usize = 1;
/// Maximum number of requests that wait for that.
pub(crate) const MAX_WAITING_EXECUTIONS: usize = 8;

/// What the pages show.
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
    /// The pool as the dashboard shows it, and when it was read.
    pub(crate) pool: Mutex<Option<(Instant, PoolState)>>,
    /// The part of the dashboard that changes, and when it was rendered.
    pub(crate) live: Mutex<Option<(Instant, String)>>,
    pub(crate) running_executions: Semaphore,
    pub(crate) waiting_executions: Semaphore,
}

impl Pages {
    pub(crate) fn new(context: Context, samples: Arc<Samples>) -> Self {
        Self {
            context,
            samples,
            pool: Mutex::default(),
            live: Mutex::default(),
            running_executions: Semaphore::new(MAX_EXECUTIONS),
            waiting_executions: Semaphore::new(MAX_EXECUTIONS + MAX_WAITING_EXECUTIONS),
        }
    }
}
