//! What the methods of all connections share in addition to the chain: limits, the fee history of recent
//! blocks, prices at the head, answers that are asked for again, and clients' filters.

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

/// See the module.
#[derive(Debug)]
pub struct Services {
    /// Times and sizes.
    pub limits: Limits,
    /// Fee history.
    pub fees: Fees,
    /// Prices at the newest block.
    pub prices: ArcSwapOption<Prices>,
    /// Answers about blocks.
    pub answers: Answers,
    /// Filters that clients poll.
    pub filters: Filters,
    /// Leave to write down all that is pooled.
    pub pool_text: Arc<Semaphore>,
}

/// Answers with all that is pooled in the making at once. Each holds a list of the whole pool, tens of
/// megabytes, and a thread that may block for tenths of a second.
const POOL_TEXTS: usize = 1;

/// Limits of single calls.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest an execution may take.
    pub call_time: Duration,
    /// Longest tracing may take.
    pub trace_time: Duration,
    /// Longest a search for logs may take.
    pub logs_time: Duration,
    /// Most logs of an answer.
    pub logs: usize,
    /// Most bytes of an answer.
    pub bytes: usize,
}

impl Limits {
    fn new(config: &JsonRpc) -> Self {
        Self {
            call_time: Duration::from_millis(config.call_timeout_ms),
            trace_time: Duration::from_millis(config.trace_timeout_ms),
            logs_time: Duration::from_millis(config.logs_timeout_ms),
            logs: config.logs_cap,
            bytes: config.max_response_bytes as usize,
        }
    }

    /// The longest that a single call may take. A whole batch may take no longer.
    pub fn longest(&self) -> Duration {
        self.call_time.max(self.trace_time).max(self.logs_time)
    }
}

impl Services {
    /// As the settings say.
    pub fn new(config: &JsonRpc, budget: &Budget) -> Self {
        Self {
            limits: Limits::new(config),
            fees: Fees::default(),
            prices: ArcSwapOption::empty(),
            answers: Answers::new(config.answer_cache_bytes()),
            filters: Filters::new(config, budget),
            pool_text: Arc::new(Semaphore::new(POOL_TEXTS)),
        }
    }

    /// Prices at the head of a view, worked out by `find` once a block.
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

/// What follows from recent blocks for the price of the next transaction.
#[derive(Clone, Copy, Debug)]
pub struct Prices {
    /// The newest block they are about.
    pub head: B256,
    /// The suggested tip.
    pub tip: u128,
    /// The price where there is no base fee.
    pub median: u128,
}

/// A question about blocks. Blocks are final, so its answer never changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// A block, with whole transactions or not.
    Block(u64, bool),
    /// The receipts of a block.
    Receipts(u64),
    /// A transaction, by its place.
    Transaction(u64, u32),
    /// Its receipt.
    Receipt(u64, u32),
    /// A fee history.
    Fees {
        /// Last block.
        newest: u64,
        /// How many.
        count: u64,
        /// Bits of the percentiles.
        percentiles: Vec<u64>,
    },
}

/// Bytes of a cached answer in addition to its text.
const ENTRY_BYTES: u64 = 128;
/// About how large kept answers are: sizes the tables of the cache.
const ANSWER_BYTES: u64 = 16 * 1024;

#[derive(Clone, Debug)]
struct Weight;

impl Weighter<Question, Json> for Weight {
    fn weight(&self, question: &Question, answer: &Json) -> u64 {
        let list = match question {
            Question::Fees { percentiles, .. } => 8 * percentiles.len() as u64,
            _ => 0,
        };
        ENTRY_BYTES + list + answer.bytes().len() as u64
    }
}

/// Answers kept, within a bound of bytes. Those not asked for again make room.
#[derive(Debug)]
pub struct Answers(Cache<Question, Json, Weight>);

impl Answers {
    fn new(bytes: u64) -> Self {
        let items = usize::try_from(bytes / ANSWER_BYTES).unwrap_or(usize::MAX).max(1);
        Self(Cache::with_weighter(items, bytes, Weight))
    }

    /// The answer, if it is kept.
    pub fn get(&self, question: &Question) -> Option<Json> {
        self.0.get(question)
    }

    /// Keeps an answer, and gives it back.
    pub fn keep(&self, question: Question, answer: Json) -> Json {
        self.0.insert(question, answer.clone());
        answer
    }
}

/// The fee history of recent blocks.
#[derive(Debug, Default)]
pub struct Fees {
    /// The rows of recent blocks.
    pub columns: FeeColumns,
    /// One thread at a time fills the columns; the others read what there is.
    filling: Mutex<()>,
}

impl Fees {
    /// Rows the columns lack up to the head of a view.
    pub fn behind(&self, view: &View) -> u64 {
        let next = self.columns.next().unwrap_or_default();
        (view.number() + 1).saturating_sub(next).min(RECENT_BLOCKS as u64)
    }

    /// Brings the columns up to the head of a view, unless another thread is about it.
    pub fn follow(&self, view: &View) -> Result<(), Error> {
        let head = view.number();
        if self.columns.next().is_some_and(|next| next > head) {
            return Ok(());
        }
        let Ok(_filling) = self.filling.try_lock() else { return Ok(()) };
        let first = head.saturating_sub(RECENT_BLOCKS as u64 - 1);
        let first = self.columns.next().map_or(first, |next| next.max(first));
        view.blocks()?.each_fee_row(first..=head, |number, bytes| {
            let row = RowReader::new(bytes).map_err(Error::internal)?;
            self.columns.push(number, FeeEntry::new(&row).map_err(Error::internal)?);
            Ok(())
        })
    }
}
