//! `txpool_`: what waits in the mempool. As in geth, whose blob pool is another one, blob transactions
//! are counted and not shown.

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
        help: "How many transactions can run now, and how many wait behind a gap.",
        run: Run::Waiting(|call| Box::pin(status(call))),
    },
    Method {
        name: "txpool_content",
        parameters: &[],
        help: "All pooled transactions by sender and nonce, but for blob transactions.",
        run: Run::Waiting(|call| Box::pin(content(call))),
    },
    Method {
        name: "txpool_contentFrom",
        parameters: &["address"],
        help: "The pooled transactions of one sender, but for blob transactions.",
        run: Run::Waiting(|call| Box::pin(content_from(call))),
    },
    Method {
        name: "txpool_inspect",
        parameters: &[],
        help: "What txpool_content has, in a line of text each.",
        run: Run::Waiting(|call| Box::pin(inspect(call))),
    },
];

/// Fewest bytes of a transaction in an answer: its members' names, hashes, addresses and signature.
const MIN_OBJECT_BYTES: usize = 500;
/// Fewest bytes of the line that tells of one.
const MIN_LINE_BYTES: usize = 40;

/// Pending and queued, whatever stands for a transaction.
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

/// What everybody has pooled, each transaction in a shape of at least `least` bytes. A full pool takes
/// tenths of a second to write: on a thread that may block, unless it cannot be answered anyway.
async fn everything<T: Serialize>(
    call: Call,
    least: usize,
    shape: impl Fn(&RecoveredTx) -> T + Send + 'static,
) -> Answer {
    call.no_arguments()?;
    let turn = Arc::clone(&call.services.pool_text).acquire_owned().await.expect("never closed");
    let senders = call.context.pool.content(None).await?;
    let count: usize = senders.iter().map(|txs| txs.pending.len() + txs.queued.len()).sum();
    let limit = call.services.limits.bytes;
    if count * least > limit {
        return Err(Error::too_large("response", limit));
    }
    let write = move || {
        // It goes on when its caller has gone.
        let _until_the_end = turn;
        by_sender(&senders, shape)
    };
    let written = tokio::task::spawn_blocking(write).await;
    written.map_err(Error::internal)?
}

/// As text keys: checksummed address, then decimal nonce.
fn by_sender<T: Serialize>(senders: &[SenderTxs], shape: impl Fn(&RecoveredTx) -> T) -> Answer {
    let (mut pending, mut queued) = (BySender::new(), BySender::new());
    for txs in senders {
        let sender = txs.sender.to_checksum(None);
        for (of_all, of_one) in [(&mut pending, &txs.pending), (&mut queued, &txs.queued)] {
            let shown = by_nonce(of_one, &shape);
            if !shown.is_empty() {
                of_all.insert(sender.clone(), shown);
            }
        }
    }
    json(&Content { pending, queued })
}

fn by_nonce<T>(txs: &[Arc<RecoveredTx>], shape: impl Fn(&RecoveredTx) -> T) -> ByNonce<T> {
    let shown = txs.iter().filter(|tx| tx.blob_gas() == 0);
    shown.map(|tx| (tx.tx.nonce(), shape(tx))).collect()
}

fn object(tx: &RecoveredTx) -> TransactionObject {
    TransactionObject::pooled(tx)
}

async fn content(call: Call) -> Answer {
    everything(call, MIN_OBJECT_BYTES, object).await
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
    everything(call, MIN_LINE_BYTES, line).await
}

fn line(tx: &RecoveredTx) -> String {
    let tx = &tx.tx;
    let to = tx.to().map_or_else(|| "contract creation".to_owned(), |to| to.to_checksum(None));
    format!("{to}: {} wei + {} gas × {} wei", tx.value(), tx.gas_limit(), tx.max_fee_per_gas())
}
