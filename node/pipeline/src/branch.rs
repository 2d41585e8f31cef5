//! Blocks given from outside, on any parent: their verdicts, and the choice of the head.
//!
//! A given block is executed and sealed on the state of its parent, and then waits as an unfinished block. Several of
//! them may have one parent. Choosing one makes it and its unfinished ancestors part of the chain, and drops all
//! unfinished blocks that do not descend from it. If its oldest unfinished ancestor does not follow the head, the head
//! is undone first.

use super::{
    fault::BlockFault,
    received::ReceivedParts,
    undo::{HeadAnswer, Rebuild, UndoRequest, UndoneTransactions},
};
use alloy_primitives::{B256, Bytes};
use chain::block::Block;
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::oneshot;
use transactions::RecoveredTx;

/// Maximum number of unfinished blocks. Each has its changes in memory.
pub(super) const MAX_UNFINISHED_BLOCKS: usize = 64;

/// Why a given block is not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GiveError {
    /// The block violates a rule, or what was received of it does not agree with its header.
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
    pub(super) fn new(answer: oneshot::Sender<Verdict>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(answer))))
    }

    pub(super) fn give(&self, verdict: Verdict) {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(answer) = answer {
            // The client may have disconnected.
            let _ = answer.send(verdict);
        }
    }
}

/// The transactions of a block with their senders, or the index of the first one that has none, and the reason.
pub type RecoveredTxs = Result<Vec<Arc<RecoveredTx>>, (usize, String)>;

/// A block to be executed.
#[derive(Debug)]
pub(super) struct GivenBlock {
    pub(super) block: Block,
    pub(super) txs: RecoveredTxs,
    /// What was received of it, if its execution is not to be repeated.
    pub(super) received: Option<Box<ReceivedParts>>,
    /// The certificate to store with it, which is not checked.
    pub(super) certificate: Option<Bytes>,
    pub(super) answer: Arc<VerdictAnswer>,
}

/// A request to execute.
pub(super) enum BlockRequest {
    /// Return to an earlier block.
    Undo(UndoRequest),
    /// Return to an earlier block when the index has been rebuilt.
    UndoAfter(UndoRequest, Arc<Rebuild>),
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
            Self::Undo(request) | Self::UndoAfter(request, _) => request.fmt(f),
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
