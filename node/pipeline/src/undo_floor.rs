//! Keeps the blocks that flush writes into the index apart from those that execute may undo.

use super::sync::{AtomicU64, fence};
use std::sync::{Arc, atomic::Ordering};

/// Arbitrates between flush, which writes blocks into the index, and execute, which undoes blocks. Each announces
/// what it is about to do before it reads what the other has announced, so that a block is never both written and
/// undone.
#[derive(Clone, Debug)]
pub(super) struct UndoFloor(Arc<Announced>);

#[derive(Debug)]
struct Announced {
    /// The newest block that flush is writing or has written.
    writes: AtomicU64,
    /// The block to which execute is returning; `u64::MAX` if there is no undo.
    undo: AtomicU64,
}

impl UndoFloor {
    /// Creates the floor for an index that contains the blocks up to `flushed`.
    pub(super) fn new(flushed: u64) -> Self {
        let (writes, undo) = (AtomicU64::new(flushed), AtomicU64::new(u64::MAX));
        Self(Arc::new(Announced { writes, undo }))
    }

    /// Permits flush to write the blocks up to `number`, unless one of them is being undone.
    pub(super) fn may_write(&self, number: u64) -> bool {
        let before = self.0.writes.swap(number, Ordering::AcqRel);
        // Either this thread sees the undo, or the other thread sees the write.
        fence(Ordering::SeqCst);
        let may = number <= self.0.undo.load(Ordering::Acquire);
        if !may {
            self.0.writes.store(before, Ordering::Release);
        }
        may
    }

    /// Permits execute to return to block `to`, unless flush has written or is writing a later block. Then the error is
    /// the newest such block.
    pub(super) fn begin_undo(&self, to: u64) -> Result<(), u64> {
        self.0.undo.store(to, Ordering::Release);
        fence(Ordering::SeqCst);
        let written = self.0.writes.load(Ordering::Acquire);
        if written <= to {
            return Ok(());
        }
        self.end_undo();
        Err(written)
    }

    /// Records that the index was rebuilt up to block `flushed`.
    pub(super) fn restart(&self, flushed: u64) {
        self.0.writes.store(flushed, Ordering::Release);
    }

    /// Records that the undo has reached flush, or was given up.
    pub(super) fn end_undo(&self) {
        self.0.undo.store(u64::MAX, Ordering::Release);
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
