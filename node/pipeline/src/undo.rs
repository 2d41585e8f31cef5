//! Undo: the return to an earlier block while the pipeline runs.
//!
//! Execute begins an undo when every executed block is durable, and sends an [`Undo`] to the stages behind it, in
//! the order of blocks. Each stage returns its own state to that of the earlier block. So what a stage receives
//! after an undo belongs to the new branch, and nothing of the undone blocks is on the way any more.
//!
//! The index only has blocks that cannot be undone: flush keeps the newest `storage.undo-blocks` blocks back, see
//! [`UndoFloor`].

use alloy_primitives::B256;
use state::View;
use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use tokio::sync::oneshot;
use transactions::RecoveredTx;

/// What happens to the transactions of undone blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoneTransactions {
    /// They return to the pool, in their former order, if the rules still accept them.
    Return,
    /// They are forgotten, also by the journal.
    Drop,
}

/// Why a block does not become the head.
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
    /// The index already has the block after it.
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
    /// The block is neither an unfinished one nor the head.
    #[error("block {0} is not known: give it first")]
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
    pub(super) transactions: UndoneTransactions,
    pub(super) answer: HeadAnswer,
}

/// Receives the hash of the new head.
pub(super) type HeadAnswer = oneshot::Sender<Result<B256, UndoError>>;

impl fmt::Debug for UndoRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { to, transactions, .. } = self;
        f.debug_struct("UndoRequest").field("to", to).field("transactions", transactions).finish()
    }
}

/// An undo on its way through the stages.
#[derive(Debug)]
pub(super) struct Undo {
    /// The view of the block that becomes the head.
    pub(super) view: View,
    pub(super) transactions: UndoneTransactions,
    /// The transactions of the undone blocks, in block order; empty if they are dropped.
    pub(super) returned: Vec<Arc<RecoveredTx>>,
    /// Unfinished blocks that do not descend from it.
    pub(super) dropped: Vec<B256>,
    /// Whether the journal has what must survive the undo. Blocks are removed from the chain only then.
    is_journalled: AtomicBool,
    /// `None` if another block becomes the head after this one.
    answer: Mutex<Option<HeadAnswer>>,
}

impl Undo {
    pub(super) fn new(
        view: View,
        transactions: UndoneTransactions,
        returned: Vec<Arc<RecoveredTx>>,
        dropped: Vec<B256>,
        answer: Option<HeadAnswer>,
    ) -> Self {
        let (answer, is_journalled) = (Mutex::new(answer), AtomicBool::new(false));
        Self { view, transactions, returned, dropped, is_journalled, answer }
    }

    /// The number of the block that becomes the head.
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

/// Decides between flush, which writes blocks into the index, and execute, which undoes blocks. Either of them
/// announces what it is about to do before it looks at what the other one announced, so that a block is never
/// both written and undone.
#[derive(Clone, Debug)]
pub(super) struct UndoFloor(Arc<Announced>);

#[derive(Debug)]
struct Announced {
    /// The newest block that flush writes or has written.
    writes: AtomicU64,
    /// The block to which execute returns; `u64::MAX` if it does not.
    undo: AtomicU64,
}

impl UndoFloor {
    /// The index has the blocks up to `flushed`.
    pub(super) fn new(flushed: u64) -> Self {
        let (writes, undo) = (AtomicU64::new(flushed), AtomicU64::new(u64::MAX));
        Self(Arc::new(Announced { writes, undo }))
    }

    /// Permits flush to write the blocks up to `number`, unless one of them is being undone.
    pub(super) fn may_write(&self, number: u64) -> bool {
        let before = self.0.writes.swap(number, Ordering::SeqCst);
        let may = number <= self.0.undo.load(Ordering::SeqCst);
        if !may {
            self.0.writes.store(before, Ordering::SeqCst);
        }
        may
    }

    /// Permits execute to return to block `to`, unless flush has written a later block or is writing one. Returns
    /// the newest such block then.
    pub(super) fn begin_undo(&self, to: u64) -> Result<(), u64> {
        self.0.undo.store(to, Ordering::SeqCst);
        let written = self.0.writes.load(Ordering::SeqCst);
        if written <= to {
            return Ok(());
        }
        self.end_undo();
        Err(written)
    }

    /// The undo has reached flush, or was given up.
    pub(super) fn end_undo(&self) {
        self.0.undo.store(u64::MAX, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_is_either_written_or_undone() {
        let floor = UndoFloor::new(10);
        assert!(floor.may_write(12));
        assert_eq!(floor.begin_undo(11), Err(12));
        assert!(floor.may_write(13), "the undo was given up");
        assert_eq!(floor.begin_undo(13), Ok(()));
        assert!(!floor.may_write(14));
        assert_eq!(floor.begin_undo(13), Ok(()), "the refused write is not announced any more");
        floor.end_undo();
        assert!(floor.may_write(14));
    }
}
