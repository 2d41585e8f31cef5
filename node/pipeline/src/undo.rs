//! Undo: the return to an earlier block while the pipeline runs.
//!
//! Execute begins an undo when every executed block is durable, and sends an [`Undo`] to the later stages, in
//! sequence with the blocks. Each stage returns its own state to that of the earlier block. Every block that a
//! stage receives after an undo therefore belongs to the new branch.
//!
//! Blocks in the index cannot be undone, because the index does not store the values that they replaced. Flush
//! therefore keeps back the newest `storage.undo-blocks` blocks; see `undo_floor`. To return to an older block, execute
//! first sends a [`Rebuild`]: the stages stop using the index, and flush rebuilds it from the chain.

use alloy_primitives::B256;
use state::{LayerId, View};
use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use storage::IndexDb;
use tokio::sync::oneshot;
use transactions::RecoveredTx;

/// What happens to the transactions of undone blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoneTransactions {
    /// They return to the pool, in their former order, if the rules still accept them.
    Return,
    /// They are dropped, and removed from the journal.
    Drop,
}

/// The reason why a block does not become the head.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum UndoError {
    /// The block is not below the head.
    #[error("cannot return to block {to}: the newest block is {head}")]
    NotBelow {
        /// The block.
        to: u64,
        /// The newest block.
        head: u64,
    },
    /// The index already contains the block after it.
    #[error(
        "cannot return to block {to}: the oldest block that can become the head again is {oldest} \
         (storage.undo-blocks); stop the node and use `evmd rollback`"
    )]
    TooDeep {
        /// The block.
        to: u64,
        /// The oldest possible block.
        oldest: u64,
    },
    /// The block is neither unfinished, nor the head, nor an ancestor that can become the head again.
    #[error("block {0} is unknown: submit it first")]
    Unknown(B256),
    /// Other requests are waiting.
    #[error("too many requests for blocks are waiting, try again")]
    Busy,
    /// The pipeline is ending.
    #[error("the node is stopping")]
    Stopping,
}

/// A request to return to block `to`.
pub(super) struct UndoRequest {
    pub(super) to: u64,
    /// Whether the index may be rebuilt for it.
    pub(super) rebuilds: bool,
    pub(super) transactions: UndoneTransactions,
    pub(super) answer: HeadAnswer,
}

/// A rebuild of the index, as it passes through the stages.
#[derive(Debug)]
pub(super) struct Rebuild {
    /// The block that becomes the head afterwards.
    pub(super) to: u64,
    /// Whether the mempool has stopped reading the state. The index is emptied only then.
    is_paused: AtomicBool,
    rebuilt: OnceLock<Rebuilt>,
}

/// The new index.
#[derive(Debug)]
pub(super) struct Rebuilt {
    pub(super) index: IndexDb,
    /// The number of its newest block.
    pub(super) number: u64,
}

impl Rebuild {
    pub(super) const fn new(to: u64) -> Self {
        Self { to, is_paused: AtomicBool::new(false), rebuilt: OnceLock::new() }
    }

    pub(super) fn set_paused(&self) {
        self.is_paused.store(true, Ordering::Release);
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Acquire)
    }

    pub(super) fn finish(&self, rebuilt: Rebuilt) {
        self.rebuilt.set(rebuilt).expect("flush finishes a rebuild once");
    }

    /// Returns the new index once it is complete.
    pub(super) fn rebuilt(&self) -> Option<&Rebuilt> {
        self.rebuilt.get()
    }
}

/// The channel for the hash of the new head.
pub(super) type HeadAnswer = oneshot::Sender<Result<B256, UndoError>>;

impl fmt::Debug for UndoRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { to, transactions, .. } = self;
        f.debug_struct("UndoRequest").field("to", to).field("transactions", transactions).finish()
    }
}

/// An undo, as it passes through the stages.
#[derive(Debug)]
pub(super) struct Undo {
    /// The view of the block that becomes the head.
    pub(super) view: View,
    pub(super) transactions: UndoneTransactions,
    /// The transactions of the undone blocks, in block order; empty if they are dropped.
    pub(super) returned: Vec<Arc<RecoveredTx>>,
    /// Unfinished blocks that do not descend from the head of `view`, identified by their post-states.
    pub(super) dropped: Vec<LayerId>,
    /// Whether the journal contains what must survive the undo. Blocks are removed from the chain only then.
    is_journalled: AtomicBool,
    /// The channel for the result; `None` if another block becomes the head right after this one.
    answer: Mutex<Option<HeadAnswer>>,
}

impl Undo {
    pub(super) fn new(
        view: View,
        transactions: UndoneTransactions,
        returned: Vec<Arc<RecoveredTx>>,
        dropped: Vec<LayerId>,
        answer: Option<HeadAnswer>,
    ) -> Self {
        let (answer, is_journalled) = (Mutex::new(answer), AtomicBool::new(false));
        Self { view, transactions, returned, dropped, is_journalled, answer }
    }

    /// Returns the number of the block that becomes the head.
    pub(super) fn number(&self) -> u64 {
        self.view.number()
    }

    pub(super) fn set_journalled(&self) {
        self.is_journalled.store(true, Ordering::Release);
    }

    pub(super) fn is_journalled(&self) -> bool {
        self.is_journalled.load(Ordering::Acquire)
    }

    /// Reports that the block is the head.
    pub(super) fn report(&self) {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(answer) = answer {
            // The client may have disconnected.
            let _ = answer.send(Ok(self.view.head.hash));
        }
    }
}
