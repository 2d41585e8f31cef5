//! `txpool_`: what waits in the mempool.

use super::{
    error::Error,
    method::{Answer, Call, Method, Run, json},
    object::TransactionObject,
};
use crate::pipeline::PooledTx;
use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, U64};
use serde::Serialize;
use std::collections::BTreeMap;

pub(super) const METHODS: &[Method] = &[
    Method {
        name: "txpool_status",
        parameters: &[],
        help: "How many transactions can run now, and how many wait behind a gap.",
        run: Run::Waiting(|call| Box::pin(status(call))),
    },
    Method {
        name: "txpool_content",
        parameters: &[],
        help: "All pooled transactions by sender and nonce.",
        run: Run::Waiting(|call| Box::pin(content(call))),
    },
    Method {
        name: "txpool_contentFrom",
        parameters: &["address"],
        help: "The pooled transactions of one sender.",
        run: Run::Waiting(|call| Box::pin(content_from(call))),
    },
    Method {
        name: "txpool_inspect",
        parameters: &[],
        help: "All pooled transactions in a line of text each.",
        run: Run::Waiting(|call| Box::pin(inspect(call))),
    },
];

/// Pending and queued, whatever stands for a transaction.
#[derive(Serialize)]
struct Content<T> {
    pending: T,
    queued: T,
}

async fn status(call: Call) -> Answer {
    call.no_arguments()?;
    let level = call.context.pool.level().await;
    json(&Content { pending: U64::from(level.pending), queued: U64::from(level.queued) })
}

type ByNonce<T> = BTreeMap<u64, T>;
type BySender<T> = BTreeMap<String, ByNonce<T>>;

/// Sorts pooled transactions by sender and nonce, as keys of decimal numbers.
fn by_sender<T: Serialize>(pooled: &[PooledTx], shape: impl Fn(&PooledTx) -> T) -> Answer {
    let (mut pending, mut queued) = (BySender::new(), BySender::new());
    for tx in pooled {
        let place = if tx.pending { &mut pending } else { &mut queued };
        let lane: &mut ByNonce<T> = place.entry(tx.tx.sender.to_checksum(None)).or_default();
        lane.insert(tx.tx.tx.nonce(), shape(tx));
    }
    json(&Content { pending, queued })
}

fn object(pooled: &PooledTx) -> TransactionObject {
    TransactionObject::pending(&pooled.tx.tx, pooled.tx.hash, pooled.tx.sender)
}

async fn content(call: Call) -> Answer {
    call.no_arguments()?;
    by_sender(&pooled(&call, None).await?, object)
}

async fn content_from(call: Call) -> Answer {
    let address: Address = call.arguments()?.required()?;
    let txs = pooled(&call, Some(address)).await?;
    let lane = |pending: bool| -> ByNonce<TransactionObject> {
        let txs = txs.iter().filter(|tx| tx.pending == pending);
        txs.map(|tx| (tx.tx.tx.nonce(), object(tx))).collect()
    };
    json(&Content { pending: lane(true), queued: lane(false) })
}

async fn inspect(call: Call) -> Answer {
    call.no_arguments()?;
    by_sender(&pooled(&call, None).await?, |pooled| {
        let tx = &pooled.tx.tx;
        let to = tx.to().map_or_else(|| "contract creation".to_owned(), |to| to.to_checksum(None));
        format!("{to}: {} wei + {} gas × {} wei", tx.value(), tx.gas_limit(), tx.max_fee_per_gas())
    })
}

/// What is pooled, by everybody or by one sender.
pub(super) async fn pooled(call: &Call, sender: Option<Address>) -> Result<Vec<PooledTx>, Error> {
    Ok(call.context.pool.content(sender).await)
}
