//! Questions about the mempool, answered by the stage that owns it.

use crate::{
    execution::RecoveredTx,
    mempool::{Level, Mempool},
};
use alloy_primitives::{Address, B256};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A question with the place for its answer. An asker that has gone is ignored.
#[derive(Debug)]
pub enum PoolQuery {
    /// The sender's next nonce, counting what it has pooled without a gap; `None` without any.
    Nonce(Address, oneshot::Sender<Option<u64>>),
    /// The pooled transaction with this hash.
    Transaction(B256, oneshot::Sender<Option<Arc<RecoveredTx>>>),
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
            Self::Level(reply) => {
                let _ = reply.send(pool.level());
            }
        }
    }
}
