//! Holds the state that the methods of all connections share in addition to the chain: limits, the fee history of
//! recent blocks, prices at the head, cached responses, and the filters of clients.

use crate::filters::Filters;
use alloy_primitives::B256;
use arc_swap::ArcSwapOption;
use budget::Budget;
use config::JsonRpc;
use feehistory::{FeeColumns, FeeEntry, RECENT_BLOCKS, RowReader};
use quick_cache::{Weighter, sync::Cache};
use rpc_types::{error::Error, text::Json};
use state::View;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Semaphore;

/// The state that all calls share.
#[derive(Debug)]
pub struct Services {
    /// Limits on the time and size of calls.
    pub limits: Limits,
    /// The fee history of recent blocks.
    pub fees: RecentFees,
    /// The prices at the last head for which they were computed.
    pub prices: ArcSwapOption<Prices>,
    /// Cached responses about blocks.
    pub responses: ResponseCache,
    /// The filters that clients poll.
    pub filters: Filters,
    /// Permits for serialising the contents of the whole pool.
    pub pool_dump_permits: Arc<Semaphore>,
}

/// Maximum number of concurrent responses with the contents of the whole pool. Each uses tens of megabytes of memory
/// and a blocking thread for some tenths of a second.
const CONCURRENT_POOL_DUMPS: usize = 1;

/// Limits of single calls.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum duration of an execution.
    pub call_timeout: Duration,
    /// Maximum duration of a trace.
    pub trace_timeout: Duration,
    /// Maximum duration of a search for logs.
    pub logs_timeout: Duration,
    /// Maximum number of logs in a response.
    pub max_logs: usize,
    /// Maximum length of a response in bytes.
    pub max_response_bytes: usize,
}

impl Limits {
    fn new(config: &JsonRpc) -> Self {
        Self {
            call_timeout: Duration::from_millis(config.call_timeout_ms),
            trace_timeout: Duration::from_millis(config.trace_timeout_ms),
            logs_timeout: Duration::from_millis(config.logs_timeout_ms),
            max_logs: config.logs_cap,
            max_response_bytes: config.max_response_bytes as usize,
        }
    }

    /// Returns the maximum duration of a single call, which is also the maximum for a batch.
    pub fn max_duration(&self) -> Duration {
        self.call_timeout.max(self.trace_timeout).max(self.logs_timeout)
    }
}

impl Services {
    /// Creates the state from the settings.
    pub fn new(config: &JsonRpc, budget: &Budget) -> Self {
        Self {
            limits: Limits::new(config),
            fees: RecentFees::default(),
            prices: ArcSwapOption::empty(),
            responses: ResponseCache::new(config.answer_cache_bytes()),
            filters: Filters::new(config, budget),
            pool_dump_permits: Arc::new(Semaphore::new(CONCURRENT_POOL_DUMPS)),
        }
    }

    /// Returns the prices at the head of a view, which `find` computes if they are not stored.
    pub fn prices(
        &self,
        view: &View,
        find: impl FnOnce() -> Result<Prices, Error>,
    ) -> Result<Arc<Prices>, Error> {
        let known = self.prices.load();
        if let Some(known) = known.as_ref().filter(|known| known.head == view.head.hash) {
            return Ok(Arc::clone(known));
        }
        let found = Arc::new(find()?);
        self.prices.store(Some(Arc::clone(&found)));
        Ok(found)
    }
}

/// The gas prices computed from recent blocks.
#[derive(Clone, Copy, Debug)]
pub struct Prices {
    /// The hash of the block at which they were computed.
    pub head: B256,
    /// The suggested priority fee in wei.
    pub tip: u128,
    /// The gas price in wei if the chain has no base fee.
    pub median: u128,
}

/// The key of a cached response. The blocks of one branch are final, so the response never changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResponseKey {
    /// [`View::undone`]: after an undo, another block may have the same number.
    branch: u64,
    subject: ResponseSubject,
}

impl ResponseKey {
    /// Creates the key of a response from this view.
    pub fn new(view: &View, subject: ResponseSubject) -> Self {
        Self { branch: view.undone, subject }
    }
}

/// The subject of a cached response.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ResponseSubject {
    /// A block, and whether its transactions are objects.
    Block(u64, bool),
    /// The receipts of a block.
    Receipts(u64),
    /// A transaction, by block number and index.
    Transaction(u64, u32),
    /// The receipt of a transaction, by block number and index.
    Receipt(u64, u32),
    /// A fee history.
    Fees {
        /// The last block.
        newest: u64,
        /// The number of blocks.
        count: u64,
        /// The bits of the percentiles.
        percentiles: Vec<u64>,
    },
}

/// Memory of a cache entry in addition to the response and the percentiles, in bytes.
const ENTRY_BYTES: u64 = 128;
/// Approximate length of a cached response in bytes, from which the number of entries is estimated.
const TYPICAL_RESPONSE_BYTES: u64 = 16 * 1024;

#[derive(Clone, Debug)]
struct Weight;

impl Weighter<ResponseKey, Json> for Weight {
    fn weight(&self, key: &ResponseKey, answer: &Json) -> u64 {
        let list = match &key.subject {
            ResponseSubject::Fees { percentiles, .. } => 8 * percentiles.len() as u64,
            _ => 0,
        };
        ENTRY_BYTES + list + answer.bytes().len() as u64
    }
}

/// A cache of responses with a limit in bytes.
#[derive(Debug)]
pub struct ResponseCache(Cache<ResponseKey, Json, Weight>);

impl ResponseCache {
    fn new(bytes: u64) -> Self {
        let items = usize::try_from(bytes / TYPICAL_RESPONSE_BYTES).unwrap_or(usize::MAX).max(1);
        Self(Cache::with_weighter(items, bytes, Weight))
    }

    /// Returns the cached response.
    pub fn get(&self, key: &ResponseKey) -> Option<Json> {
        self.0.get(key)
    }

    /// Stores a response and returns it.
    pub fn insert(&self, key: ResponseKey, response: Json) -> Json {
        self.0.insert(key, response.clone());
        response
    }
}

/// The fee history of recent blocks.
#[derive(Debug, Default)]
pub struct RecentFees {
    /// The rows of recent blocks.
    pub columns: FeeColumns,
    /// Held by the thread that fills the columns. Other threads use the rows that exist.
    filling: Mutex<()>,
}

impl RecentFees {
    /// Returns the number of rows that the columns lack up to the head of a view.
    pub fn missing_rows(&self, view: &View) -> u64 {
        let next = self.columns.next(view.undone).unwrap_or_default();
        (view.number() + 1).saturating_sub(next).min(RECENT_BLOCKS as u64)
    }

    /// Fills the columns up to the head of a view, unless another thread is filling them.
    pub fn update(&self, view: &View) -> Result<(), Error> {
        let head = view.number();
        if self.columns.next(view.undone).is_some_and(|next| next > head) {
            return Ok(());
        }
        let Ok(_filling) = self.filling.try_lock() else { return Ok(()) };
        let first = head.saturating_sub(RECENT_BLOCKS as u64 - 1);
        let first = self.columns.next(view.undone).map_or(first, |next| next.max(first));
        view.blocks()?.each_fee_row(first..=head, |number, bytes| {
            let row = RowReader::new(bytes).map_err(Error::internal)?;
            self.columns.push(view.undone, number, FeeEntry::new(&row).map_err(Error::internal)?);
            Ok(())
        })
    }
}
