//! `txpool_`: methods that return the transactions in the mempool. As in geth, which has a separate pool for blob
//! transactions, these are counted but not listed.

use crate::method::{Answer, Call, Method, Run, json};
use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, U64};
use pipeline::SenderTxs;
use rpc_types::{error::Error, object::TransactionObject};
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};
use transactions::RecoveredTx;

/// The methods of the namespace.
pub const METHODS: &[Method] = &[
    Method {
        name: "txpool_status",
        parameters: &[],
        help: "The number of executable transactions, and of those that wait for an earlier nonce.",
        run: Run::Waiting(|call| Box::pin(status(call))),
    },
    Method {
        name: "txpool_content",
        parameters: &[],
        help: "All pooled transactions by sender and nonce, except blob transactions.",
        run: Run::Waiting(|call| Box::pin(content(call))),
    },
    Method {
        name: "txpool_contentFrom",
        parameters: &["address"],
        help: "The pooled transactions of one sender, except blob transactions.",
        run: Run::Waiting(|call| Box::pin(content_from(call))),
    },
    Method {
        name: "txpool_inspect",
        parameters: &[],
        help: "Like txpool_content, with one line of text for each transaction.",
        run: Run::Waiting(|call| Box::pin(inspect(call))),
    },
];

/// Minimum length of a transaction in a response in bytes: field names, hashes, addresses and signature.
const MIN_OBJECT_BYTES: usize = 500;
/// Minimum length of a line that summarises a transaction, in bytes.
const MIN_LINE_BYTES: usize = 40;

/// Pending and queued transactions in any format.
#[derive(Serialize)]
struct Content<T> {
    pending: T,
    queued: T,
}

async fn status(call: Call) -> Answer {
    call.no_arguments()?;
    let level = call.context.pool.level().await?;
    json(&Content { pending: U64::from(level.pending), queued: U64::from(level.queued) })
}

type ByNonce<T> = BTreeMap<u64, T>;
type BySender<T> = BTreeMap<String, ByNonce<T>>;

/// Returns the whole pool, in a format with at least `min_tx_bytes` for each transaction. Serialising a full pool takes
/// some tenths of a second, so this runs on a blocking thread, after a check that the response can fit.
async fn whole_pool<T: Serialize>(
    call: Call,
    min_tx_bytes: usize,
    shape: impl Fn(&RecoveredTx) -> T + Send + 'static,
) -> Answer {
    call.no_arguments()?;
    let permit =
        Arc::clone(&call.services.pool_dump_permits).acquire_owned().await.expect("never closed");
    let senders = call.context.pool.content(None).await?;
    let count: usize = senders.iter().map(|txs| txs.pending.len() + txs.queued.len()).sum();
    let limit = call.services.limits.max_response_bytes;
    if count * min_tx_bytes > limit {
        return Err(Error::too_large("response", limit));
    }
    let write = move || {
        // The permit is held until the work ends, even if the caller has disconnected.
        let _permit = permit;
        by_sender(&senders, shape)
    };
    let written = tokio::task::spawn_blocking(write).await;
    written.map_err(Error::internal)?
}

/// Groups transactions by checksummed address and decimal nonce.
fn by_sender<T: Serialize>(senders: &[SenderTxs], shape: impl Fn(&RecoveredTx) -> T) -> Answer {
    let (mut pending, mut queued) = (BySender::new(), BySender::new());
    for txs in senders {
        let sender = txs.sender.to_checksum(None);
        for (senders, txs) in [(&mut pending, &txs.pending), (&mut queued, &txs.queued)] {
            let listed = by_nonce(txs, &shape);
            if !listed.is_empty() {
                senders.insert(sender.clone(), listed);
            }
        }
    }
    json(&Content { pending, queued })
}

fn by_nonce<T>(txs: &[Arc<RecoveredTx>], shape: impl Fn(&RecoveredTx) -> T) -> ByNonce<T> {
    let listed = txs.iter().filter(|tx| tx.blob_gas() == 0);
    listed.map(|tx| (tx.tx.nonce(), shape(tx))).collect()
}

fn object(tx: &RecoveredTx) -> TransactionObject {
    TransactionObject::pooled(tx)
}

async fn content(call: Call) -> Answer {
    whole_pool(call, MIN_OBJECT_BYTES, object).await
}

async fn content_from(call: Call) -> Answer {
    let address: Address = call.arguments()?.required()?;
    let senders = call.context.pool.content(Some(address)).await?;
    let txs = senders.first();
    json(&Content {
        pending: by_nonce(txs.map_or(&[], |txs| &txs.pending), object),
        queued: by_nonce(txs.map_or(&[], |txs| &txs.queued), object),
    })
}

async fn inspect(call: Call) -> Answer {
    whole_pool(call, MIN_LINE_BYTES, line).await
}

fn line(tx: &RecoveredTx) -> String {
    let tx = &tx.tx;
    let to = tx.to().map_or_else(|| "contract creation".to_owned(), |to| to.to_checksum(None));
    format!("{to}: {} wei + {} gas × {} wei", tx.value(), tx.gas_limit(), tx.max_fee_per_gas())
}
