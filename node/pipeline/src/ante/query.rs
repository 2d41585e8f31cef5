//! Queries about the mempool, answered by the stage that owns it.

use crate::{
    batch::NextBlockParent,
    development::{Develop, DevelopReply},
};
use alloy_primitives::{Address, B256, map::B256HashSet};
use mempool::{Lane, Level, Mempool, Pooled, PriceBand};
use std::sync::Arc;
use storage::{ReadError, StateRead};
use tokio::sync::oneshot;
use transactions::RecoveredTx;

/// A query with the channel for its result. The result is discarded if the caller no longer waits for it.
#[derive(Debug)]
pub enum PoolQuery {
    /// The sender's next nonce, including its pooled transactions up to the first gap.
    Nonce(Address, oneshot::Sender<u64>),
    /// The pooled transaction with this hash.
    Transaction(B256, oneshot::Sender<Found>),
    /// The pooled transactions with these hashes.
    Known(Vec<B256>, oneshot::Sender<KnownTransactions>),
    /// How full the pool is.
    Level(oneshot::Sender<Level>),
    /// The executable transactions, grouped by price.
    Prices(oneshot::Sender<Vec<PriceBand>>),
    /// The best transactions for a part of the next block.
    Candidates(BlockPart, TakenTransactions, oneshot::Sender<Candidates>),
    /// A request from a client of a development chain.
    Develop(Develop, DevelopReply),
    /// The pooled transactions of one sender, or of all.
    Content(Option<Address>, oneshot::Sender<Vec<SenderTxs>>),
}

/// The part of a block for which candidates are chosen.
#[derive(Clone, Copy, Debug)]
pub struct BlockPart {
    /// Gas available to the part, capped at the gas limit of the block.
    pub gas: u64,
    /// Maximum number of candidates.
    pub txs: usize,
}

impl BlockPart {
    /// A whole block.
    pub const WHOLE: Self = Self { gas: u64::MAX, txs: usize::MAX };
}

/// The pooled transactions with the hashes of a list, in the order of the list.
pub type KnownTransactions = Vec<Option<Arc<RecoveredTx>>>;

/// The hashes of the transactions in each block that precedes the next one and is not part of the chain yet.
pub type TakenTransactions = Vec<Arc<B256HashSet>>;

/// Transactions for the next block.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// Number of the newest executed block, which may not be published yet.
    pub after: u64,
    /// The transactions, in execution order.
    pub txs: Vec<Arc<RecoveredTx>>,
}

/// What the pool knows about a hash.
#[derive(Clone, Debug)]
pub enum Found {
    /// The transaction.
    Pooled(Arc<RecoveredTx>),
    /// It is not pooled. It may be in a block up to number `built`, which may not be published yet.
    NotPooled {
        /// Number of the newest executed block.
        built: u64,
    },
}

/// A sender's pooled transactions, in nonce order.
#[derive(Clone, Debug)]
pub struct SenderTxs {
    /// Address of the sender.
    pub sender: Address,
    /// Transactions that can be executed now.
    pub pending: Vec<Arc<RecoveredTx>>,
    /// Transactions behind a nonce gap.
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
    /// Answers the query from the pool and the newest executed block. The transactions of that block have left the
    /// pool, but become visible in the chain only when the block is durable. `choose` selects transactions for a
    /// part of the next block.
    pub(super) fn answer(
        self,
        pool: &mut Mempool,
        parent: &NextBlockParent,
        choose: impl FnOnce(&mut Mempool, &BlockPart, &TakenTransactions) -> Vec<Arc<RecoveredTx>>,
    ) -> Result<(), ReadError> {
        match self {
            Self::Nonce(sender, reply) => {
                let next = match pool.lane(sender) {
                    Some(lane) => lane.next_nonce(),
                    None => parent.state.reader()?.account(sender)?.unwrap_or_default().nonce,
                };
                let _ = reply.send(next);
            }
            Self::Transaction(hash, reply) => {
                let _ = reply.send(match pool.get(hash) {
                    Some(pooled) => Found::Pooled(Arc::clone(&pooled.tx)),
                    None => Found::NotPooled { built: parent.header.number },
                });
            }
            Self::Known(hashes, reply) => {
                let known = |hash: &B256| pool.get(*hash).map(|pooled| Arc::clone(&pooled.tx));
                let _ = reply.send(hashes.iter().map(known).collect());
            }
            Self::Level(reply) => {
                let _ = reply.send(pool.level());
            }
            Self::Develop(..) => unreachable!("the stage answers these itself"),
            // The pool is not walked for a caller that has disconnected.
            Self::Content(None, reply) if reply.is_closed() => {}
            Self::Prices(reply) if reply.is_closed() => {}
            Self::Prices(reply) => {
                let _ = reply.send(pool.price_bands());
            }
            Self::Candidates(_, _, reply) if reply.is_closed() => {}
            Self::Candidates(part, taken, reply) => {
                let txs = choose(pool, &part, &taken);
                let _ = reply.send(Candidates { after: parent.header.number, txs });
            }
            Self::Content(sender, reply) => {
                let content = match sender {
                    Some(sender) => pool.lane(sender).map(SenderTxs::of).into_iter().collect(),
                    None => pool.lanes().map(SenderTxs::of).collect(),
                };
                let _ = reply.send(content);
            }
        }
        Ok(())
    }

    /// Returns whether the query may take milliseconds, because it walks all of the pool or a block's worth of it,
    /// looks up a list of hashes, or writes the journal.
    pub(super) const fn is_large(&self) -> bool {
        matches!(
            self,
            Self::Content(None, _)
                | Self::Known(..)
                | Self::Prices(_)
                | Self::Candidates(..)
                | Self::Develop(..)
        )
    }
}
