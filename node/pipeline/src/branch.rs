//! Blocks given from outside, on any parent: their verdicts, and the choice of the head.
//!
//! A given block is executed and sealed on the state of its parent, and then waits as an unfinished block. Several of
//! them may have one parent. Choosing one makes it and its unfinished ancestors part of the chain, and drops all
//! unfinished blocks that do not descend from it. If its oldest unfinished ancestor does not follow the head, the head
//! is undone first.

use super::{
    fault::BlockFault,
    ring::Outbox,
    undo::{HeadAnswer, UndoError, UndoRequest, UndoneTransactions},
};
use alloy_primitives::B256;
use chain::block::Block;
use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::oneshot;
use transactions::{RecoveredTx, Senders};
use verify::{Backend, Recoverer};

/// Maximum number of unfinished blocks. Each has its changes in memory.
pub(super) const MAX_UNFINISHED_BLOCKS: usize = 64;

/// Why a given block is not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GiveError {
    /// The block violates a rule.
    #[error(transparent)]
    Invalid(BlockFault),
    /// The parent is neither the head, nor an unfinished block, nor a block that can become the head again.
    #[error("the parent {0} is not known, or cannot become the head again")]
    UnknownParent(B256),
    /// Too many blocks are unfinished, or requests are waiting.
    #[error("{0}; try again")]
    Busy(&'static str),
    /// The pipeline is ending.
    #[error("the node is stopping")]
    Stopping,
}

/// The result for a given block.
pub(super) type Verdict = Result<(), GiveError>;

/// Receives the verdict. If it is dropped, the pipeline is ending.
#[derive(Debug)]
pub(super) struct VerdictAnswer(Mutex<Option<oneshot::Sender<Verdict>>>);

impl VerdictAnswer {
    pub(super) fn give(&self, verdict: Verdict) {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(answer) = answer {
            // The client may have disconnected.
            let _ = answer.send(verdict);
        }
    }
}

/// The transactions of a block with their senders, or the index of the first one that has none, and the reason.
pub(super) type RecoveredTxs = Result<Vec<Arc<RecoveredTx>>, (usize, String)>;

/// A block to be executed.
#[derive(Debug)]
pub(super) struct GivenBlock {
    pub(super) block: Block,
    pub(super) txs: RecoveredTxs,
    pub(super) answer: Arc<VerdictAnswer>,
}

/// A request to execute.
pub(super) enum BlockRequest {
    /// Return to an earlier block.
    Undo(UndoRequest),
    /// Execute and seal a block.
    Give(Box<GivenBlock>),
    /// Make an unfinished block the head.
    Choose { hash: B256, transactions: UndoneTransactions, answer: HeadAnswer },
    /// Drop an unfinished block and its descendants.
    Abandon(B256),
}

impl fmt::Debug for BlockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undo(request) => request.fmt(f),
            Self::Give(given) => given.fmt(f),
            Self::Choose { hash, .. } => f.debug_tuple("Choose").field(hash).finish(),
            Self::Abandon(hash) => f.debug_tuple("Abandon").field(hash).finish(),
        }
    }
}

/// A choice on its way through the stages.
#[derive(Debug)]
pub(super) struct Choice {
    /// The blocks that become part of the chain, oldest first.
    pub(super) chosen: Vec<B256>,
    /// The unfinished blocks that do not descend from the last of them.
    pub(super) dropped: Vec<B256>,
    answer: Mutex<Option<HeadAnswer>>,
}

impl Choice {
    pub(super) fn new(chosen: Vec<B256>, dropped: Vec<B256>, answer: Option<HeadAnswer>) -> Self {
        Self { chosen, dropped, answer: Mutex::new(answer) }
    }

    /// Reports that the last block is the head.
    pub(super) fn report(&self) {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((answer, head)) = answer.zip(self.chosen.last()) {
            // The client may have disconnected.
            let _ = answer.send(Ok(*head));
        }
    }
}

/// Gives blocks, and chooses the head, from any thread.
#[derive(Clone)]
pub struct BlockClient {
    requests: Outbox<BlockRequest>,
    backend: Backend,
    chain_id: u64,
    stop: Arc<AtomicBool>,
}

impl BlockClient {
    pub(super) const fn new(
        requests: Outbox<BlockRequest>,
        backend: Backend,
        chain_id: u64,
        stop: Arc<AtomicBool>,
    ) -> Self {
        Self { requests, backend, chain_id, stop }
    }

    /// Executes and seals a block on its parent. A valid block waits until it is chosen or dropped.
    ///
    /// # Errors
    /// [`GiveError`]; the chain is unchanged in any case.
    pub async fn give(&self, block: Block) -> Result<(), GiveError> {
        let (backend, chain_id) = (self.backend, self.chain_id);
        let recover = move || {
            let mut senders = Senders::of_chain(Recoverer::new(backend), chain_id);
            let txs = super::recover::recover_body(&mut senders, &block);
            (block, txs)
        };
        let recovered = tokio::task::spawn_blocking(recover).await;
        let (block, txs) = recovered.map_err(|_| GiveError::Stopping)?;
        let (answer, answered) = oneshot::channel();
        let answer = Arc::new(VerdictAnswer(Mutex::new(Some(answer))));
        let given = BlockRequest::Give(Box::new(GivenBlock { block, txs, answer }));
        match self.send(given) {
            Ok(()) => answered.await.unwrap_or(Err(GiveError::Stopping)),
            Err(UndoError::Busy) => {
                Err(GiveError::Busy("too many requests for blocks are waiting"))
            }
            Err(_) => Err(GiveError::Stopping),
        }
    }

    /// Makes an unfinished block the head, and waits until it is published. `transactions` is what happens to the
    /// transactions of blocks that are undone for it. Returns its hash.
    ///
    /// # Errors
    /// [`UndoError`]; the chain is unchanged then.
    pub async fn choose(
        &self,
        hash: B256,
        transactions: UndoneTransactions,
    ) -> Result<B256, UndoError> {
        self.ask(|answer| BlockRequest::Choose { hash, transactions, answer }).await
    }

    /// Drops an unfinished block and its descendants.
    ///
    /// # Errors
    /// If too many requests are waiting, or the pipeline is ending.
    pub fn abandon(&self, hash: B256) -> Result<(), UndoError> {
        self.send(BlockRequest::Abandon(hash))
    }

    /// Makes block `to` the head again, and waits until it is published. Returns its hash.
    ///
    /// # Errors
    /// [`UndoError`]; the chain is unchanged then.
    pub async fn undo(&self, to: u64, transactions: UndoneTransactions) -> Result<B256, UndoError> {
        self.ask(|answer| BlockRequest::Undo(UndoRequest { to, transactions, answer })).await
    }

    async fn ask(
        &self,
        request: impl FnOnce(HeadAnswer) -> BlockRequest,
    ) -> Result<B256, UndoError> {
        let (answer, answered) = oneshot::channel();
        self.send(request(answer))?;
        answered.await.unwrap_or(Err(UndoError::Stopping))
    }

    fn send(&self, request: BlockRequest) -> Result<(), UndoError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(UndoError::Stopping);
        }
        match self.requests.offer(request) {
            Ok(()) => Ok(()),
            Err(_) if self.requests.is_abandoned() => Err(UndoError::Stopping),
            Err(_) => Err(UndoError::Busy),
        }
    }
}

impl fmt::Debug for BlockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockClient").finish_non_exhaustive()
    }
}
