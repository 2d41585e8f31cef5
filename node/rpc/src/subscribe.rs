//! `eth_subscribe`: pushes what happens to WebSocket clients.
//!
//! A subscriber follows the published views and reads each block itself, so it misses none and
//! holds nothing up, however far behind it is. What it pushes counts as owed ([`Flow`]): while its client
//! takes nothing it waits, and keeps nothing of a block that it can make again. A client that takes nothing
//! for too long loses its connection (`slow-client-s`). A subscription that ends on an open connection sends the
//! client a last message.

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
    method::{Answer, put},
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

/// Names a subscription is opened and closed by.
pub(crate) const SUBSCRIBE: &str = "eth_subscribe";
pub(crate) const UNSUBSCRIBE: &str = "eth_unsubscribe";

/// What can be subscribed to, with its parameters and what is pushed.
pub const SUBSCRIPTIONS: &[(&str, &str)] = &[
    ("newHeads", "the header of each new block"),
    ("logs", "with a filter of `address` and `topics`: each new log that matches"),
    (
        "newPendingTransactions",
        "the hash of each transaction the pool takes; whole with `true`. Who is 32,768 behind misses some, and \
         whole ones above 1 KiB that have left the pool",
    ),
    (
        "transactionReceipts",
        "the receipts of each new block that has any, as eth_getBlockReceipts; with an object of \
         `transactionHashes`, at most 200, theirs alone",
    ),
    ("syncing", "`false`, once: what is served is complete"),
    ("newFees", "with a list of percentiles: the fee-history row of each new block"),
];

/// Bytes that jsonrpsee puts around what is pushed.
pub(crate) const NOTIFICATION_BYTES: usize = r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0x00000000000000000000000000000000","result":}}"#.len();

/// Subscription ids as geth has them: 16 bytes in hex that cannot be guessed.
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

/// The kinds of subscriptions.
#[derive(Debug)]
pub(crate) enum Kind {
    Heads,
    Logs(Filter),
    Pending {
        full: bool,
    },
    /// Those of these transactions, or of all where none is named.
    Receipts(HashSet<B256>),
    Syncing,
    Fees(Vec<f64>),
}

impl Kind {
    /// Reads the parameters of a call.
    ///
    /// # Errors
    /// If they are those of no subscription.
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
                if hashes.len() > HASHES_MAX {
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

impl Kind {
    /// Bytes of memory that its parameters take.
    fn memory_bytes(&self) -> usize {
        match self {
            Self::Logs(filter) => filter.memory_bytes(),
            Self::Receipts(hashes) => hashes.capacity() * size_of::<B256>(),
            Self::Fees(percentiles) => size_of_val(percentiles.as_slice()),
            Self::Heads | Self::Pending { .. } | Self::Syncing => 0,
        }
    }
}

/// Lets a subscription that was opened in a batch begin, once the response of the batch has been written. Dropped
/// before, it ends the subscription, because the client does not know of it.
#[derive(Debug)]
pub(crate) struct Start(oneshot::Sender<()>);

impl Start {
    /// For a subscription that begins when the receiver does.
    pub(crate) fn new() -> (Self, oneshot::Receiver<()>) {
        let (start, started) = oneshot::channel();
        (Self(start), started)
    }

    /// The client knows of the subscription.
    pub(crate) fn begin(self) {
        // An error says that the subscription has ended.
        let _ = self.0.send(());
    }
}

/// A subscription that a client opens, with the memory that it takes until it ends.
#[derive(Debug)]
pub(crate) struct Wanted {
    kind: Kind,
    /// Of a subscription that was opened in a batch, until it begins.
    start: Mutex<Option<oneshot::Receiver<()>>>,
    _memory: Held,
}

/// Accounted for each subscription: its task and its places in tables.
const SUBSCRIPTION_BYTES: usize = 4 * 1024;

impl Wanted {
    /// # Errors
    /// If clients use too much memory.
    pub(crate) fn new(
        kind: Kind,
        start: Option<oneshot::Receiver<()>>,
        account: &Account,
    ) -> Result<Arc<Self>, Error> {
        let memory = account.hold(SUBSCRIPTION_BYTES + kind.memory_bytes());
        let memory = memory.map_err(|refused| Error::client_memory(refused.limit()))?;
        Ok(Arc::new(Self { kind, start: Mutex::new(start), _memory: memory }))
    }

    /// Waits until the client knows of the subscription. Returns whether it does.
    async fn started(&self) -> bool {
        let start = self.start.lock().unwrap_or_else(PoisonError::into_inner).take();
        match start {
            Some(start) => start.await.is_ok(),
            None => true,
        }
    }
}

/// A log filter whose blocks do not count.
#[derive(Default)]
struct LogFilter(Filter);

impl Param for LogFilter {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        LogQuery::read(json, spec).map(|query| Self(query.filter))
    }
}

/// Most transactions that a subscription to receipts may name, and what is said of more, as geth.
const HASHES_MAX: usize = 200;
const TOO_MANY_HASHES: &str =
    "exceed max number of transaction hashes allowed per transactionReceipts subscription";

/// Transactions whose receipts are wanted; none for those of all.
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

/// The module that opens and closes subscriptions.
///
/// # Errors
/// Only if a name were taken twice.
pub(crate) fn module(
    dispatcher: Arc<Dispatcher>,
) -> Result<RpcModule<Arc<Dispatcher>>, RegisterMethodError> {
    let mut module = RpcModule::new(dispatcher);
    module.register_subscription::<Result<(), SubscriptionError>, _, _>(
        SUBSCRIBE,
        "eth_subscription",
        UNSUBSCRIBE,
        |_, pending, dispatcher, extensions| async move {
            let client = extensions.get::<Arc<Client>>().expect("the subscriber names who calls");
            let wanted = extensions.get::<Arc<Wanted>>().expect("the subscriber has read it");
            open(wanted, pending, &dispatcher, &client.flow).await
        },
    )?;
    Ok(module)
}

/// Serves a subscription to its end. What fails in between is the last thing that the client learns of
/// it, as an error.
async fn open(
    wanted: &Wanted,
    pending: PendingSubscriptionSink,
    dispatcher: &Dispatcher,
    flow: &Flow,
) -> Result<(), SubscriptionError> {
    let kind = &wanted.kind;
    // Subscribed before the client knows of it, so that nothing falls in between.
    let mut heads = dispatcher.context.published.heads();
    let arrivals = matches!(kind, Kind::Pending { .. }).then(|| dispatcher.context.pool.arrivals());
    let last = *heads.borrow_and_update();
    let Ok(sink) = pending.accept().await else { return Ok(()) };
    let started = tokio::select! {
        () = sink.closed() => false,
        started = wanted.started() => started,
    };
    if !started {
        return Ok(());
    }
    let outlet = Outlet { sink, flow };
    match serve(kind, &outlet, dispatcher, heads, arrivals, last).await {
        Ok(()) | Err(End::Gone) => Ok(()),
        Err(End::Failed(error)) => Err(SubscriptionError::from(error.to_string())),
    }
}

/// Where messages go.
struct Outlet<'a> {
    sink: SubscriptionSink,
    flow: &'a Flow,
}

impl Outlet<'_> {
    /// Waits until there is room, or the client is gone.
    async fn room(&self) -> Result<(), End> {
        tokio::select! {
            // A client that has gone takes nothing more.
            () = self.sink.closed() => Err(End::Gone),
            () = self.flow.room() => Ok(()),
        }
    }

    /// Sends a message once there is room for it.
    async fn send(&self, message: Answer) -> Result<(), End> {
        let message = message.map_err(End::Failed)?;
        let bytes = NOTIFICATION_BYTES + message.bytes().len();
        // No other message is sent between this and what is owed then.
        self.room().await?;
        let raw = message.to_raw().map_err(End::Failed)?;
        self.flow.owe(bytes);
        let sent = self.sink.send(SubscriptionMessage::from(raw)).await;
        // The connection may live on without this subscription, and never write it.
        sent.inspect_err(|_| self.flow.written(bytes)).map_err(|_| End::Gone)
    }
}

async fn serve(
    kind: &Kind,
    outlet: &Outlet<'_>,
    dispatcher: &Dispatcher,
    heads: watch::Receiver<u64>,
    arrivals: Option<broadcast::Receiver<Arrival>>,
    last: u64,
) -> Result<(), End> {
    match kind {
        Kind::Syncing => {
            outlet.send(put(&false)).await?;
            // Nothing more will come, and it is the client that ends it.
            outlet.sink.closed().await;
            Ok(())
        }
        Kind::Pending { full } => {
            push_pending(outlet, arrivals.expect("opened for this kind"), *full).await
        }
        Kind::Heads => {
            follow(outlet, dispatcher, heads, last, |view, n| ready(head(&view, n))).await
        }
        Kind::Logs(filter) => {
            let logs = |view: Arc<View>, n| ready(block_logs(&view, filter, n));
            follow(outlet, dispatcher, heads, last, logs).await
        }
        Kind::Receipts(hashes) => {
            let receipts = |view, n| dispatcher.receipts.wanted(view, n, hashes);
            follow(outlet, dispatcher, heads, last, receipts).await
        }
        Kind::Fees(percentiles) => {
            let fees = |view: Arc<View>, n| ready(fees(&view, percentiles, n));
            follow(outlet, dispatcher, heads, last, fees).await
        }
    }
}

/// Why a subscription ends.
enum End {
    /// The client has gone, or wants no more.
    Gone,
    /// What it asks for cannot be sent.
    Failed(Error),
}

/// Sends what `messages` gives for each new block, until the client or the node ends.
async fn follow<M>(
    outlet: &Outlet<'_>,
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
            () = outlet.sink.closed() => return Err(End::Gone),
            changed = heads.changed() => changed.map_err(|_| End::Gone)?,
        }
        heads.borrow_and_update();
        let newest = dispatcher.context.published.load().number();
        while last < newest {
            last += 1;
            // Not kept while the client is waited for: a view holds on to what it was made from.
            let of_block = || messages(dispatcher.context.published.load(), last);
            push(outlet, of_block).await?;
            if last < newest {
                // Many blocks at once, perhaps with nothing to tell: others have their turn.
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Sends the messages of a block. Those that there is no room for are made again when there is: hundreds of
/// subscribers that each kept a block's would fill the memory.
async fn push<M>(outlet: &Outlet<'_>, messages: impl Fn() -> M) -> Result<(), End>
where
    M: Future<Output = Result<Vec<Json>, Error>>,
{
    let mut sent = 0;
    loop {
        let made = messages().await.map_err(End::Failed)?;
        let mut rest = made.into_iter().skip(sent).peekable();
        while outlet.flow.has_room()
            && let Some(message) = rest.next()
        {
            outlet.send(Ok(message)).await?;
            sent += 1;
        }
        if rest.peek().is_none() {
            return Ok(());
        }
        drop(rest);
        outlet.room().await?;
    }
}

fn head(view: &View, number: u64) -> Result<Vec<Json>, Error> {
    let (hash, header) = stored::header(&view.blocks()?, number)?;
    Ok(vec![Json::put(&HeaderObject::new(hash, &header))])
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
    outlet: &Outlet<'_>,
    mut arrivals: broadcast::Receiver<Arrival>,
    full: bool,
) -> Result<(), End> {
    loop {
        let arrival = tokio::select! {
            () = outlet.sink.closed() => return Err(End::Gone),
            arrival = arrivals.recv() => arrival,
        };
        let arrival = match arrival {
            Ok(arrival) => arrival,
            // The client could not keep up with the pool: it goes on with the newest.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return Err(End::Gone),
        };
        let message = if full {
            let Some(tx) = arrival.tx() else { continue };
            put(&TransactionObject::pooled(&tx))
        } else {
            put(&arrival.hash)
        };
        outlet.send(message).await?;
    }
}
