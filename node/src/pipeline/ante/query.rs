//! Questions about the mempool, answered by the stage that owns it.

use crate::{
    execution::RecoveredTx,
    mempool::{Lane, Level, Mempool, Pooled},
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
    /// What a sender has pooled, or everybody has.
    Content(Option<Address>, oneshot::Sender<Vec<SenderTxs>>),
}

/// A sender's pooled transactions, in nonce order.
#[derive(Clone, Debug)]
pub struct SenderTxs {
    /// Whose.
    pub sender: Address,
    /// Those that can run now.
    pub pending: Vec<Arc<RecoveredTx>>,
    /// Those behind a nonce gap.
    pub queued: Vec<Arc<RecoveredTx>>,
}

impl SenderTxs {
    fn of(lane: &Lane) -> Self {
        let tx = |pooled: &Pooled| Arc::clone(&pooled.tx);
        Self {
            sender: lane.sender(),
            pending: lane.pending().iter().map(tx).collect(),
            queued: lane.queued().values().map(tx).collect(),
        }
    }
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
            Self::Content(sender, reply) => {
                let content = match sender {
                    Some(sender) => pool.lane(sender).map(SenderTxs::of).into_iter().collect(),
                    None => pool.lanes().map(SenderTxs::of).collect(),
                };
                let _ = reply.send(content);
            }
        }
    }
}
