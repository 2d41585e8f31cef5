//! `eth_subscribe`: sends notifications to WebSocket clients.
//!
//! A subscription follows the published views and reads each block itself. It therefore misses no block and delays
//! nothing, however slow its client is. Its notifications count as pending bytes of the connection ([`Flow`]). While
//! the client reads nothing, the subscription waits, and does not keep notifications that it can create again. A
//! client that reads nothing for too long is disconnected (`slow-client-s`). If a subscription fails on an open
//! connection, it sends a last message with the error.

use crate::{
    dispatch::Dispatcher,
    front::{Client, Flow},
};
use alloy_primitives::{B256, U128, map::HashSet};
use budget::{Account, Held};
use chain::ChainSpec;
use feehistory::{FeeEntry, RowReader};
use jsonrpsee::{
    PendingSubscriptionSink, RpcModule, SubscriptionMessage, SubscriptionSink,
    core::{RegisterMethodError, SubscriptionError, traits::IdProvider},
    types::SubscriptionId,
};
use pipeline::Arrival;
use rpc_eth::{
    eth::block_logs,
    log_query::{Filter, LogQuery},
    method::{Answer, write_json},
};
use rpc_types::{
    error::Error,
    fields::{self, HashField},
    object::{HeaderObject, TransactionObject},
    params::{Arguments, Param},
    text::Json,
};
use serde_json::{json as value, value::RawValue};
use state::View;
use state::stored;
use std::{
    future::{Future, ready},
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::{
    broadcast::{self, error::RecvError},
    oneshot, watch,
};

/// The methods that open and close subscriptions.
pub(crate) const SUBSCRIBE: &str = "eth_subscribe";
pub(crate) const UNSUBSCRIBE: &str = "eth_unsubscribe";

/// The types of subscriptions, each with its parameters and notifications.
pub const SUBSCRIPTIONS: &[(&str, &str)] = &[
    ("newHeads", "the header of each new block"),
    ("logs", "with a filter of `address` and `topics`: each new log that matches"),
    (
        "newPendingTransactions",
        "the hash of each transaction that enters the pool, or the transaction with `true`. A client that is 32,768 \
                 behind misses some, and also transactions above 1 KiB that have left the pool",
    ),
    (
        "transactionReceipts",
        "the receipts of each new block that has any, as in eth_getBlockReceipts; with an object of at most 200 \
                 `transactionHashes`, only their receipts",
    ),
    ("syncing", "`false`, once, because served blocks are complete"),
    ("newFees", "with a list of percentiles: the fee-history row of each new block"),
];

/// Number of bytes that jsonrpsee adds to a notification.
pub(crate) const NOTIFICATION_BYTES: usize = r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0x00000000000000000000000000000000","result":}}"#.len();

/// Creates subscription ids: as in geth, 16 unpredictable bytes in hex.
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
    /// The receipts of these transactions, or of all transactions if it is empty.
    Receipts(HashSet<B256>),
    Syncing,
    Fees(Vec<f64>),
}

impl SubscriptionKind {
    /// Parses the parameters of a call.
    ///
    /// # Errors
    /// Returns an error if they are invalid.
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

/// Starts a subscription that was opened in a batch, after the response of the batch has been written. If this is
/// dropped before, the subscription ends, because the client does not know its id.
#[derive(Debug)]
pub(crate) struct Start(oneshot::Sender<()>);

impl Start {
    /// Creates a pair. The subscription starts when the receiver completes.
    pub(crate) fn new() -> (Self, oneshot::Receiver<()>) {
        let (start, started) = oneshot::channel();
        (Self(start), started)
    }

    /// Starts the subscription.
    pub(crate) fn begin(self) {
        // This fails if the subscription has ended.
        let _ = self.0.send(());
    }
}

/// A subscription that is being opened, with the memory that it holds until it ends.
#[derive(Debug)]
pub(crate) struct NewSubscription {
    kind: SubscriptionKind,
    /// Set for a subscription in a batch, until it starts.
    start: Mutex<Option<oneshot::Receiver<()>>>,
    _memory: Held,
}

/// Accounted memory of each subscription: its task and its table entries.
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

    /// Waits until the subscription starts, and returns whether it does.
    async fn started(&self) -> bool {
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

/// As in geth: the maximum number of transactions in a subscription to receipts, and the error for more.
const MAX_HASHES: usize = 200;
const TOO_MANY_HASHES: &str =
    "exceed max number of transaction hashes allowed per transactionReceipts subscription";

/// The transactions whose receipts are requested, or none for those of all transactions.
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

/// Returns the module that opens and closes subscriptions.
///
/// # Errors
/// Returns an error only if a name is registered twice.
pub(crate) fn module(
    dispatcher: Arc<Dispatcher>,
) -> Result<RpcModule<Arc<Dispatcher>>, RegisterMethodError> {
    let mut module = RpcModule::new(dispatcher);
    module.register_subscription::<Result<(), SubscriptionError>, _, _>(
        SUBSCRIBE,
        "eth_subscription",
        UNSUBSCRIBE,
        |_, pending, dispatcher, extensions| async move {
            let client = extensions.get::<Arc<Client>>().expect("the subscriber sets the client");
            let subscription = extensions
                .get::<Arc<NewSubscription>>()
                .expect("the subscriber sets the subscription");
            open(subscription, pending, &dispatcher, &client.flow).await
        },
    )?;
    Ok(module)
}

/// Serves a subscription until it ends. An error is sent to the client as the last message.
async fn open(
    subscription: &NewSubscription,
    pending: PendingSubscriptionSink,
    dispatcher: &Dispatcher,
    flow: &Flow,
) -> Result<(), SubscriptionError> {
    let kind = &subscription.kind;
    // The receivers are created before the client knows the id, so that no event is missed.
    let mut heads = dispatcher.context.published.heads();
    let arrivals = matches!(kind, SubscriptionKind::Pending { .. })
        .then(|| dispatcher.context.pool.arrivals());
    let last = *heads.borrow_and_update();
    let Ok(sink) = pending.accept().await else { return Ok(()) };
    let started = tokio::select! {
        () = sink.closed() => false,
        started = subscription.started() => started,
    };
    if !started {
        return Ok(());
    }
    let notifier = Notifier { sink, flow };
    match serve(kind, &notifier, dispatcher, heads, arrivals, last).await {
        Ok(()) | Err(End::Disconnected) => Ok(()),
        Err(End::Failed(error)) => Err(SubscriptionError::from(error.to_string())),
    }
}

/// The destination of notifications.
struct Notifier<'a> {
    sink: SubscriptionSink,
    flow: &'a Flow,
}

impl Notifier<'_> {
    /// Waits until there is space, or the client has disconnected.
    async fn room(&self) -> Result<(), End> {
        tokio::select! {
            // A client that has disconnected never frees space.
            () = self.sink.closed() => Err(End::Disconnected),
            () = self.flow.room() => Ok(()),
        }
    }

    /// Sends a notification when there is space for it.
    async fn send(&self, message: Answer) -> Result<(), End> {
        let message = message.map_err(End::Failed)?;
        let bytes = NOTIFICATION_BYTES + message.bytes().len();
        // No other notification is sent between this check and the accounting below.
        self.room().await?;
        let raw = message.to_raw().map_err(End::Failed)?;
        self.flow.owe(bytes);
        let sent = self.sink.send(SubscriptionMessage::from(raw)).await;
        // The notification will not be written. The connection may stay open, so its bytes must be released.
        sent.inspect_err(|_| self.flow.written(bytes)).map_err(|_| End::Disconnected)
    }
}

async fn serve(
    kind: &SubscriptionKind,
    notifier: &Notifier<'_>,
    dispatcher: &Dispatcher,
    heads: watch::Receiver<u64>,
    arrivals: Option<broadcast::Receiver<Arrival>>,
    last: u64,
) -> Result<(), End> {
    match kind {
        SubscriptionKind::Syncing => {
            notifier.send(write_json(&false)).await?;
            // There are no further events, and only the client ends the subscription.
            notifier.sink.closed().await;
            Ok(())
        }
        SubscriptionKind::Pending { full } => {
            push_pending(notifier, arrivals.expect("opened for this kind"), *full).await
        }
        SubscriptionKind::Heads => {
            follow(notifier, dispatcher, heads, last, |view, n| ready(head(&view, n))).await
        }
        SubscriptionKind::Logs(filter) => {
            let logs = |view: Arc<View>, n| ready(block_logs(&view, filter, n));
            follow(notifier, dispatcher, heads, last, logs).await
        }
        SubscriptionKind::Receipts(hashes) => {
            let receipts = |view, n| dispatcher.receipts.requested(view, n, hashes);
            follow(notifier, dispatcher, heads, last, receipts).await
        }
        SubscriptionKind::Fees(percentiles) => {
            let fees = |view: Arc<View>, n| ready(fees(&view, percentiles, n));
            follow(notifier, dispatcher, heads, last, fees).await
        }
    }
}

/// The reason why a subscription ends.
enum End {
    /// The client has disconnected or unsubscribed.
    Disconnected,
    /// The notification cannot be created.
    Failed(Error),
}

/// Sends the notifications that `messages` returns for each new block, until the client or the node stops.
async fn follow<M>(
    notifier: &Notifier<'_>,
    dispatcher: &Dispatcher,
    mut heads: watch::Receiver<u64>,
    mut last: u64,
    messages: impl Fn(Arc<View>, u64) -> M,
) -> Result<(), End>
where
    M: Future<Output = Result<Vec<Json>, Error>>,
{
    loop {
        tokio::select! {
            () = notifier.sink.closed() => return Err(End::Disconnected),
            changed = heads.changed() => changed.map_err(|_| End::Disconnected)?,
        }
        heads.borrow_and_update();
        let newest = dispatcher.context.published.load().number();
        while last < newest {
            last += 1;
            // The view is loaded again for each block and not kept while waiting for the client, because a view keeps
            // the layers in memory that it was created from.
            let of_block = || messages(dispatcher.context.published.load(), last);
            push(notifier, of_block).await?;
            if last < newest {
                // Many blocks may be processed without waiting, so other tasks must get a turn.
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Sends the notifications of a block. Those for which there is no space are dropped and created again later, because
/// hundreds of subscriptions that each kept those of a block would fill the memory.
async fn push<M>(notifier: &Notifier<'_>, messages: impl Fn() -> M) -> Result<(), End>
where
    M: Future<Output = Result<Vec<Json>, Error>>,
{
    let mut sent = 0;
    loop {
        let created = messages().await.map_err(End::Failed)?;
        let mut rest = created.into_iter().skip(sent).peekable();
        while notifier.flow.has_room()
            && let Some(message) = rest.next()
        {
            notifier.send(Ok(message)).await?;
            sent += 1;
        }
        if rest.peek().is_none() {
            return Ok(());
        }
        drop(rest);
        notifier.room().await?;
    }
}

fn head(view: &View, number: u64) -> Result<Vec<Json>, Error> {
    let (hash, header) = stored::header(&view.blocks()?, number)?;
    Ok(vec![Json::write(&HeaderObject::new(hash, &header))])
}

fn fees(view: &View, percentiles: &[f64], number: u64) -> Result<Vec<Json>, Error> {
    let bytes = view.blocks()?.fees(number)?;
    let bytes = bytes.ok_or_else(|| Error::internal(format_args!("block {number} has no row")))?;
    let reader = RowReader::new(&bytes).map_err(Error::internal)?;
    let row = FeeEntry::new(&reader).map_err(Error::internal)?;
    let text = |text: &str| RawValue::from_string(text.to_owned()).map_err(Error::internal);
    let rewards = percentiles.iter().map(|percentile| U128::from(row.reward(*percentile)));
    let row = value!({
        "number": alloy_primitives::U64::from(number),
        "baseFeePerGas": text(&row.base_fee)?,
        "nextBaseFeePerGas": text(&row.next_base_fee)?,
        "gasUsedRatio": text(&row.gas_used_ratio)?,
        "baseFeePerBlobGas": text(&row.blob_base_fee)?,
        "blobGasUsedRatio": text(&row.blob_gas_used_ratio)?,
        "reward": rewards.collect::<Vec<_>>(),
    });
    Ok(vec![Json::of(&row)?])
}

async fn push_pending(
    notifier: &Notifier<'_>,
    mut arrivals: broadcast::Receiver<Arrival>,
    full: bool,
) -> Result<(), End> {
    loop {
        let arrival = tokio::select! {
            () = notifier.sink.closed() => return Err(End::Disconnected),
            arrival = arrivals.recv() => arrival,
        };
        let arrival = match arrival {
            Ok(arrival) => arrival,
            // The client is too slow for the pool and continues with the newest transactions.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return Err(End::Disconnected),
        };
        let message = if full {
            let Some(tx) = arrival.tx() else { continue };
            write_json(&TransactionObject::pooled(&tx))
        } else {
            write_json(&arrival.hash)
        };
        notifier.send(message).await?;
    }
}
