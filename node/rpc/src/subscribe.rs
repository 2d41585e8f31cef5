//! `eth_subscribe`: sends notifications to WebSocket clients.
//!
//! A subscription to blocks or logs follows the published views and reads each block itself. It therefore misses no
//! block and delays nothing, however slow its client is. Its notifications count as pending bytes of the connection
//! ([`Flow`]). While the client reads nothing, the subscription waits, and does not hold notifications that it can
//! create again. A client that reads nothing for too long is disconnected (`slow-client-s`). If a subscription fails
//! on an open connection, it sends a last message with the error.

use crate::{
    client::Client,
    dispatch::Dispatcher,
    flow::Flow,
    subscription::{NOTIFICATION_BYTES, NewSubscription, SUBSCRIBE, SubscriptionKind, UNSUBSCRIBE},
};
use alloy_primitives::U128;
use feehistory::{FeeEntry, RowReader};
use jsonrpsee::{
    PendingSubscriptionSink, RpcModule, SubscriptionMessage, SubscriptionSink,
    core::{RegisterMethodError, SubscriptionError},
};
use pipeline::Arrival;
use rpc_eth::{
    SyncStatus,
    eth::{block_logs, removed_logs},
    method::{Answer, json, write_json},
};
use rpc_types::{
    error::Error,
    object::{HeaderObject, TransactionObject},
    text::Json,
};
use serde_json::{json as value, value::RawValue};
use state::{Published, UndoneBlock, View, stored};
use std::{
    future::{Future, ready},
    sync::Arc,
    time::Duration,
};
use tokio::sync::{
    broadcast::{self, error::RecvError},
    watch,
};

/// Interval at which a subscription to `syncing` checks the status.
const SYNC_STATUS_PERIOD: Duration = Duration::from_secs(1);

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
    let kind = subscription.kind();
    // The receivers are created before the client knows the id, so that no event is missed.
    let mut heads = dispatcher.context.published.heads();
    let arrivals = matches!(kind, SubscriptionKind::Pending { .. })
        .then(|| dispatcher.context.pool.arrivals());
    heads.borrow_and_update();
    let position = Position::at(&dispatcher.context.published.load());
    let Ok(sink) = pending.accept().await else { return Ok(()) };
    let started = tokio::select! {
        () = sink.closed() => false,
        started = subscription.started() => started,
    };
    if !started {
        return Ok(());
    }
    let notifier = Notifier { sink, flow };
    match serve(kind, &notifier, dispatcher, heads, arrivals, position).await {
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
    /// Waits until there is space, and returns an error if the client has disconnected.
    async fn wait_for_space(&self) -> Result<(), End> {
        tokio::select! {
            // A client that has disconnected never frees space.
            () = self.sink.closed() => Err(End::Disconnected),
            () = self.flow.until_writable() => Ok(()),
        }
    }

    /// Sends a notification when there is space for it.
    async fn send(&self, message: Answer) -> Result<(), End> {
        let message = message.map_err(End::Failed)?;
        let bytes = NOTIFICATION_BYTES + message.bytes().len();
        // No other subscription of the connection runs between this check and the accounting below.
        self.wait_for_space().await?;
        let raw = message.to_raw().map_err(End::Failed)?;
        self.flow.add_pending(bytes);
        let sent = self.sink.send(SubscriptionMessage::from(raw)).await;
        // After an error the notification will not be written, but the connection may stay open, so release its bytes.
        sent.inspect_err(|_| self.flow.written(bytes)).map_err(|_| End::Disconnected)
    }
}

/// Sends the status now and after each change, until the client disconnects or unsubscribes.
async fn push_sync_status(notifier: &Notifier<'_>, published: &Published) -> Result<(), End> {
    let mut last = None;
    loop {
        let status = SyncStatus::of(published);
        let is_behind = matches!(status, SyncStatus::Behind(_));
        if last != Some(is_behind) {
            // This is geth's format.
            notifier
                .send(json(&match status {
                    SyncStatus::Synced => value!(false),
                    SyncStatus::Behind(blocks) => value!({ "syncing": true, "status": blocks }),
                }))
                .await?;
            last = Some(is_behind);
        }
        tokio::select! {
            () = notifier.sink.closed() => return Ok(()),
            () = tokio::time::sleep(SYNC_STATUS_PERIOD), if published.following().is_some() => {}
        }
    }
}

async fn serve(
    kind: &SubscriptionKind,
    notifier: &Notifier<'_>,
    dispatcher: &Dispatcher,
    heads: watch::Receiver<u64>,
    arrivals: Option<broadcast::Receiver<Arrival>>,
    position: Position,
) -> Result<(), End> {
    match kind {
        SubscriptionKind::Syncing => {
            push_sync_status(notifier, &dispatcher.context.published).await
        }
        SubscriptionKind::Pending { full } => {
            push_pending(notifier, arrivals.expect("opened for this kind"), *full).await
        }
        SubscriptionKind::Heads => {
            let heads_of = |view: Arc<View>, n| ready(head(&view, n));
            follow(notifier, dispatcher, heads, position, heads_of, no_messages).await
        }
        SubscriptionKind::Logs(filter) => {
            let logs = |view: Arc<View>, n| ready(block_logs(&view, filter, n));
            let removed = |block: &UndoneBlock| removed_logs(block, filter);
            follow(notifier, dispatcher, heads, position, logs, removed).await
        }
        SubscriptionKind::Receipts(hashes) => {
            let receipts = |view, n| dispatcher.receipts.requested(view, n, hashes);
            follow(notifier, dispatcher, heads, position, receipts, no_messages).await
        }
        SubscriptionKind::Fees(percentiles) => {
            let fees = |view: Arc<View>, n| ready(fees(&view, percentiles, n));
            follow(notifier, dispatcher, heads, position, fees, no_messages).await
        }
    }
}

/// The reason why a subscription ends.
enum End {
    /// The client has disconnected or unsubscribed, or the node is stopping.
    Disconnected,
    /// The notification cannot be created.
    Failed(Error),
}

/// The position in the chain up to which a subscription has sent notifications.
#[derive(Clone, Copy)]
struct Position {
    /// The number of the last block.
    last: u64,
    /// The number of undone branches, see [`View::undone`].
    undone: u64,
}

impl Position {
    fn at(view: &View) -> Self {
        Self { last: view.number(), undone: view.undone }
    }
}

/// Returns no messages, for subscriptions without notifications about undone blocks.
const fn no_messages(_: &UndoneBlock) -> Vec<Json> {
    Vec::new()
}

/// Sends the notifications that `messages` returns for each new block and `removed` for each undone one that the client
/// knows, until the client or the node stops.
async fn follow<M>(
    notifier: &Notifier<'_>,
    dispatcher: &Dispatcher,
    mut heads: watch::Receiver<u64>,
    position: Position,
    messages: impl Fn(Arc<View>, u64) -> M,
    removed: impl Fn(&UndoneBlock) -> Vec<Json>,
) -> Result<(), End>
where
    M: Future<Output = Result<Vec<Json>, Error>>,
{
    let published = &dispatcher.context.published;
    let Position { mut last, mut undone } = position;
    loop {
        tokio::select! {
            () = notifier.sink.closed() => return Err(End::Disconnected),
            changed = heads.changed() => changed.map_err(|_| End::Disconnected)?,
        }
        heads.borrow_and_update();
        loop {
            // Load the view again for each block instead of holding it while waiting for the client, because a view
            // keeps the layers from which it was created in memory.
            let view = published.load();
            let branches = published.undone(undone, &view);
            undone = view.undone;
            let newest = view.number();
            drop(view);
            for branch in branches {
                for block in branch.blocks.iter().filter(|block| block.number <= last) {
                    push(notifier, || ready(Ok(removed(block)))).await?;
                }
                last = last.min(branch.ancestor);
            }
            if last >= newest {
                break;
            }
            // If no block has a notification, nothing else here notices a disconnect, and this loop may never end.
            if notifier.sink.is_closed() {
                return Err(End::Disconnected);
            }
            let of_block = || async {
                let view = published.load();
                if view.undone != undone {
                    return Err(Error::server("the block was undone"));
                }
                messages(view, last + 1).await
            };
            match push(notifier, of_block).await {
                Ok(()) => last += 1,
                // The block was undone in the meantime.
                Err(_) if published.load().undone != undone => {}
                Err(end) => return Err(end),
            }
            // Many blocks may be processed without waiting, so other tasks must be able to run.
            tokio::task::yield_now().await;
        }
    }
}

/// Sends the notifications of a block. Those for which there is no space are dropped and created again later, because
/// hundreds of subscriptions that each kept the notifications of a block would fill the memory.
async fn push<M>(notifier: &Notifier<'_>, messages: impl Fn() -> M) -> Result<(), End>
where
    M: Future<Output = Result<Vec<Json>, Error>>,
{
    let mut sent = 0;
    loop {
        let created = messages().await.map_err(End::Failed)?;
        let mut rest = created.into_iter().skip(sent).peekable();
        while notifier.flow.is_writable()
            && let Some(message) = rest.next()
        {
            notifier.send(Ok(message)).await?;
            sent += 1;
        }
        if rest.peek().is_none() {
            return Ok(());
        }
        drop(rest);
        notifier.wait_for_space().await?;
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
            // The client is too slow and misses the oldest arrivals. It continues with those that are still buffered.
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
