//! Questions about the mempool, answered by the stage that owns it.

use crate::{
    execution::RecoveredTx,
    mempool::{Level, Mempool},
};
use alloy_primitives::{Address, B256};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A transaction as the pool holds it.
#[derive(Clone, Debug)]
pub struct PooledTx {
    /// The transaction.
    pub tx: Arc<RecoveredTx>,
    /// It can run now: no nonce before it is missing.
    pub pending: bool,
}

/// A question with the place for its answer. An asker that has gone is ignored.
#[derive(Debug)]
pub enum PoolQuery {
    /// The sender's next nonce, counting what it has pooled without a gap; `None` without any.
    Nonce(Address, oneshot::Sender<Option<u64>>),
    /// The pooled transaction with this hash.
    Transaction(B256, oneshot::Sender<Option<Arc<RecoveredTx>>>),
    /// Every pooled transaction, or those of one sender.
    Content(Option<Address>, oneshot::Sender<Vec<PooledTx>>),
    /// How full the pool is.
    Level(oneshot::Sender<Level>),
}

impl PoolQuery {
    pub(super) fn answer(self, pool: &Mempool) {
        match self {
            Self::Nonce(sender, reply) => {
                let _ = reply.send(pool.lane(sender).map(|lane| lane.next_nonce()));
            }
            Self::Transaction(hash, reply) => {
                let _ = reply.send(pool.get(hash).map(|pooled| Arc::clone(&pooled.tx)));
            }
            Self::Content(sender, reply) => {
                let _ = reply.send(content(pool, sender));
            }
            Self::Level(reply) => {
                let _ = reply.send(pool.level());
            }
        }
    }
}

fn content(pool: &Mempool, sender: Option<Address>) -> Vec<PooledTx> {
    let lanes = pool.lanes().filter(|(owner, _)| sender.is_none_or(|sender| sender == **owner));
    let mut found = Vec::new();
    for (_, lane) in lanes {
        let executable = lane.executable().count();
        let pooled = lane.txs.values().enumerate();
        found.extend(pooled.map(|(position, pooled)| PooledTx {
            tx: Arc::clone(&pooled.tx),
            pending: position < executable,
        }));
    }
    found
}
