//! Defines the types of subscriptions, parses their parameters and creates their ids.

use alloy_primitives::{B256, map::HashSet};
use budget::{Account, Held};
use chain::ChainSpec;
use jsonrpsee::{core::traits::IdProvider, types::SubscriptionId};
use rpc_eth::log_query::{Filter, LogQuery};
use rpc_types::{
    error::Error,
    fields::{self, HashField},
    params::{Arguments, Param},
};
use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::oneshot;

/// The methods that open and close subscriptions.
pub(crate) const SUBSCRIBE: &str = "eth_subscribe";
pub(crate) const UNSUBSCRIBE: &str = "eth_unsubscribe";

/// The types of subscriptions, each with its parameters and notifications.
pub const SUBSCRIPTIONS: &[(&str, &str)] = &[
    ("newHeads", "the header of each new block"),
    ("logs", "with a filter of `address` and `topics`: each new log that matches"),
    (
        "newPendingTransactions",
        "the hash of each transaction that enters the pool, or the transaction with `true`. A client that is more \
                 than 32,768 transactions behind misses some. With `true`, it also misses transactions above 1 KiB that have left the mempool",
    ),
    (
        "transactionReceipts",
        "the receipts of each new block that has any, as in eth_getBlockReceipts; with an object of at most 200 \
                 `transactionHashes`, only their receipts",
    ),
    (
        "syncing",
        "`false`, or the blocks of eth_syncing in `status` if the node follows others and is behind them; then each change",
    ),
    ("newFees", "with a list of percentiles: the fee-history row of each new block"),
];

/// Number of bytes that jsonrpsee adds to a notification.
pub(crate) const NOTIFICATION_BYTES: usize = r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0x00000000000000000000000000000000","result":}}"#.len();

/// Creates subscription ids. As in geth, an id is 16 unpredictable bytes in hex.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    state: RandomState,
    next: AtomicU64,
}

impl IdProvider for Ids {
    fn next_id(&self) -> SubscriptionId<'static> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (low, high) = (self.state.hash_one(number), self.state.hash_one((number, "high")));
        SubscriptionId::Str(format!("0x{high:016x}{low:016x}").into())
    }
}

/// The type of a subscription.
#[derive(Debug)]
pub(crate) enum SubscriptionKind {
    Heads,
    Logs(Filter),
    Pending {
        full: bool,
    },
    /// The receipts of these transactions, or of all transactions if the set is empty.
    Receipts(HashSet<B256>),
    Syncing,
    Fees(Vec<f64>),
}

impl SubscriptionKind {
    /// Parses the parameters of a call.
    ///
    /// # Errors
    /// Returns an error if the parameters are invalid.
    pub(crate) fn read(params: &[u8], spec: &ChainSpec) -> Result<Self, Error> {
        let params = if params.is_empty() { b"[]".as_slice() } else { params };
        let mut arguments = Arguments::new(params, 2, spec)?;
        let kind: String = arguments.required()?;
        match kind.as_str() {
            "newHeads" => Ok(Self::Heads),
            "logs" => {
                let LogFilter(filter) = arguments.optional()?.unwrap_or_default();
                Ok(Self::Logs(filter))
            }
            "newPendingTransactions" => {
                Ok(Self::Pending { full: arguments.optional()?.unwrap_or(false) })
            }
            "transactionReceipts" => {
                let ReceiptFilter(hashes) = arguments.optional()?.unwrap_or_default();
                if hashes.len() > MAX_HASHES {
                    return Err(Error::server(TOO_MANY_HASHES));
                }
                Ok(Self::Receipts(hashes.into_iter().collect()))
            }
            "syncing" => Ok(Self::Syncing),
            "newFees" => {
                let percentiles: Vec<f64> = arguments.optional()?.unwrap_or_default();
                rpc_eth::eth::check_percentiles(&percentiles)?;
                Ok(Self::Fees(percentiles))
            }
            other => {
                let shown: String = other.chars().take(64).collect();
                Err(Error::unknown_subscription(&shown))
            }
        }
    }
}

impl SubscriptionKind {
    /// Returns the memory that the parameters use.
    fn memory_bytes(&self) -> usize {
        match self {
            Self::Logs(filter) => filter.memory_bytes(),
            Self::Receipts(hashes) => hashes.capacity() * size_of::<B256>(),
            Self::Fees(percentiles) => size_of_val(percentiles.as_slice()),
            Self::Heads | Self::Pending { .. } | Self::Syncing => 0,
        }
    }
}

/// Starts a subscription that was opened in a batch, once the response to the batch has been written. If this is
/// dropped before that, the subscription ends, because the client does not know its id.
#[derive(Debug)]
pub(crate) struct Start(oneshot::Sender<()>);

impl Start {
    /// Creates a pair. The subscription starts when the receiver completes.
    pub(crate) fn new() -> (Self, oneshot::Receiver<()>) {
        let (start, started) = oneshot::channel();
        (Self(start), started)
    }

    pub(crate) fn begin(self) {
        // This fails if the subscription has ended.
        let _ = self.0.send(());
    }
}

/// A subscription that is being opened, with the memory that it holds until it ends.
#[derive(Debug)]
pub(crate) struct NewSubscription {
    kind: SubscriptionKind,
    /// Completes when a subscription of a batch may start. `None` for other subscriptions.
    start: Mutex<Option<oneshot::Receiver<()>>>,
    _memory: Held,
}

/// Memory that is accounted for the task and the table entries of a subscription, in bytes.
const SUBSCRIPTION_BYTES: usize = 4 * 1024;

impl NewSubscription {
    /// # Errors
    /// Returns an error if the clients use too much memory.
    pub(crate) fn new(
        kind: SubscriptionKind,
        start: Option<oneshot::Receiver<()>>,
        account: &Account,
    ) -> Result<Arc<Self>, Error> {
        let memory = account.hold(SUBSCRIPTION_BYTES + kind.memory_bytes());
        let memory = memory.map_err(|refused| Error::client_memory(refused.limit()))?;
        Ok(Arc::new(Self { kind, start: Mutex::new(start), _memory: memory }))
    }

    pub(crate) const fn kind(&self) -> &SubscriptionKind {
        &self.kind
    }

    /// Waits until the subscription may start. Returns `false` if it must end instead.
    pub(crate) async fn started(&self) -> bool {
        let start = self.start.lock().unwrap_or_else(PoisonError::into_inner).take();
        match start {
            Some(start) => start.await.is_ok(),
            None => true,
        }
    }
}

/// A log filter whose block range is ignored.
#[derive(Default)]
struct LogFilter(Filter);

impl Param for LogFilter {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        LogQuery::read(json, spec).map(|query| Self(query.filter))
    }
}

/// Maximum number of transactions in a subscription to receipts, and the error for more, as in geth.
const MAX_HASHES: usize = 200;
const TOO_MANY_HASHES: &str =
    "exceed max number of transaction hashes allowed per transactionReceipts subscription";

/// The transactions whose receipts are requested. An empty list requests those of all transactions.
#[derive(Default)]
struct ReceiptFilter(Vec<B256>);

impl Param for ReceiptFilter {
    fn read(json: &str, _: &ChainSpec) -> Result<Self, String> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Object {
            transaction_hashes: Option<Vec<HashField>>,
        }
        let Object { transaction_hashes } = fields::read(json)?;
        let hashes = transaction_hashes.unwrap_or_default();
        Ok(Self(hashes.into_iter().map(|HashField(hash)| hash).collect()))
    }
}
