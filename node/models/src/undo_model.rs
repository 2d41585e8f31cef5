//! Model of the decision between writing and undoing a block (`pipeline/src/undo_floor.rs`).

use crate::{checker::check, sync::thread, undo_floor::UndoFloor};

/// Flush wants to write a block while execute wants to undo it. The block is not both written and undone, and flush may
/// write later blocks when the undo has ended.
///
/// # Panics
/// If the block is both written and undone, or if flush may not write afterwards.
pub fn block_is_not_both_written_and_undone() {
    check(3, || {
        let floor = UndoFloor::new(10);
        let flush = {
            let floor = floor.clone();
            thread::spawn(move || floor.may_write(11))
        };
        let undone = floor.begin_undo(10).is_ok();
        let written = flush.join().expect("the thread ends");
        assert!(!(undone && written), "block 11 is both written and undone");
        floor.end_undo();
        assert!(floor.may_write(12));
    });
}
