//! Blocks that a [`BlockClient`](super::BlockClient) gives or requests: their verdicts, and the choice of the head.
//!
//! Such a block is executed and sealed on its parent's state, and then waits as an unfinished block. Several unfinished
//! blocks may share a parent. Choosing one makes it and its unfinished ancestors part of the chain, and drops all
//! unfinished blocks that do not descend from it. If its unfinished branch does not begin at the head, the chain is
//! first undone to the block where the branch begins.

use super::{
    fault::BlockFault,
    received::ReceivedParts,
    undo::{HeadAnswer, Rebuild, UndoRequest, UndoneTransactions},
};
use alloy_primitives::{Address, B256, Bytes};
use chain::block::Block;
use state::LayerId;
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::oneshot;
use transactions::RecoveredTx;

/// Maximum number of unfinished blocks. Each has its changes in memory.
pub(super) const MAX_UNFINISHED_BLOCKS: usize = 64;

/// The reason why a given block is not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GiveError {
    /// The block violates a rule, or the results received with it do not agree with its header.
    #[error(transparent)]
    Invalid(BlockFault),
    /// The parent is neither the head, nor an unfinished block, nor a block that can become the head again.
    #[error("the parent {0} is not known, or cannot become the head again")]
    UnknownParent(B256),
    /// Too many blocks are unfinished, or too many requests are waiting.
    #[error("{0}; try again")]
    Busy(&'static str),
    /// The pipeline is ending.
    #[error("the node is stopping")]
    Stopping,
}

/// The verdict on a given block.
pub(super) type Verdict = Result<(), GiveError>;

/// The channel for the verdict. It is dropped without sending one only if the pipeline is ending.
pub(super) type VerdictAnswer = Answer<Verdict>;

/// A channel for one answer. Further answers are ignored.
#[derive(Debug)]
pub(super) struct Answer<T>(Mutex<Option<oneshot::Sender<T>>>);

impl<T> Answer<T> {
    pub(super) fn new(answer: oneshot::Sender<T>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(answer))))
    }

    pub(super) fn give(&self, value: T) {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(answer) = answer {
            // The client may have disconnected.
            let _ = answer.send(value);
        }
    }
}

/// The transactions of a block with their senders; or the index of the first one that cannot be decoded or whose sender
/// cannot be recovered, and the reason.
pub type RecoveredTxs = Result<Vec<Arc<RecoveredTx>>, (usize, String)>;

/// A block to be executed.
#[derive(Debug)]
pub(super) struct GivenBlock {
    pub(super) block: Block,
    pub(super) txs: RecoveredTxs,
    /// The results received with it, if they are used instead of executing it.
    pub(super) received: Option<Box<ReceivedParts>>,
    /// The certificate to store with it, which is not checked.
    pub(super) certificate: Option<Bytes>,
    pub(super) answer: Arc<VerdictAnswer>,
}

/// The reason why a block is not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The parent is neither the head nor an unfinished block.
    #[error("the parent {0} is neither the head nor an unfinished block")]
    UnknownParent(B256),
    /// Too many blocks are unfinished, or too many requests are waiting.
    #[error("{0}; try again")]
    Busy(&'static str),
    /// The pipeline is ending.
    #[error("the node is stopping")]
    Stopping,
}

/// The channel for a built block. It is dropped without sending one only if the pipeline is ending.
pub(super) type BuiltAnswer = Answer<Result<Block, BuildError>>;

/// A request for a new block.
#[derive(Debug)]
pub(super) struct BuildRequest {
    pub(super) parent: B256,
    /// Timestamp of the block, in seconds.
    pub(super) timestamp: u64,
    /// The fee recipient; `None` uses that of the parent.
    pub(super) beneficiary: Option<Address>,
    /// Candidates, best first.
    pub(super) txs: Vec<Arc<RecoveredTx>>,
    pub(super) answer: Arc<BuiltAnswer>,
}

/// A request to execute.
pub(super) enum BlockRequest {
    /// Return to an earlier block.
    Undo(UndoRequest),
    /// Return to an earlier block once the index has been rebuilt.
    UndoAfter(UndoRequest, Arc<Rebuild>),
    /// Execute and seal a block.
    Give(Box<GivenBlock>),
    /// Build a block.
    Build(Box<BuildRequest>),
    /// Make an unfinished block, or an ancestor of the head, the head.
    Choose { hash: B256, transactions: UndoneTransactions, answer: HeadAnswer },
    /// Drop an unfinished block and its descendants.
    Abandon(B256),
}

impl fmt::Debug for BlockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undo(request) | Self::UndoAfter(request, _) => request.fmt(f),
            Self::Give(given) => given.fmt(f),
            Self::Build(build) => build.fmt(f),
            Self::Choose { hash, .. } => f.debug_tuple("Choose").field(hash).finish(),
            Self::Abandon(hash) => f.debug_tuple("Abandon").field(hash).finish(),
        }
    }
}

/// A choice of the head, as it passes through the stages.
#[derive(Debug)]
pub(super) struct Choice {
    /// The hash of the block that becomes the head.
    head: B256,
    /// The blocks that become part of the chain, oldest first, identified by their post-states.
    pub(super) chosen: Vec<LayerId>,
    /// The unfinished blocks that do not descend from the new head, identified by their post-states.
    pub(super) dropped: Vec<LayerId>,
    answer: Mutex<Option<HeadAnswer>>,
}

impl Choice {
    pub(super) fn new(
        head: B256,
        chosen: Vec<LayerId>,
        dropped: Vec<LayerId>,
        answer: HeadAnswer,
    ) -> Self {
        Self { head, chosen, dropped, answer: Mutex::new(Some(answer)) }
    }

    /// Reports that the chosen block is the head.
    pub(super) fn report(&self) {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(answer) = answer {
            // The client may have disconnected.
            let _ = answer.send(Ok(self.head));
        }
    }
}
