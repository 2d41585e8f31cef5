//! The queue of submissions that wait for recovery, between callers and the tasks that recover them.

use crate::{
    batch::RawTx,
    sync::{Mutex, MutexGuard},
};
use std::{mem, sync::PoisonError};

/// Number of transactions that can be recovered in the time of one, which is the number of lanes of the widest backend.
pub(super) const LANES: usize = 8;

/// The queue. While it is not empty, at least one task takes batches from it.
#[derive(Debug)]
pub(super) struct SubmissionQueue {
    waiting: Mutex<Waiting>,
    /// Maximum number of transactions per batch.
    batch_txs: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    txs: Vec<RawTx>,
    /// Number of running tasks.
    tasks: usize,
    /// Number of batches taken.
    taken: u64,
}

impl SubmissionQueue {
    pub(super) fn new(batch_txs: usize) -> Self {
        Self { waiting: Mutex::new(Waiting::default()), batch_txs }
    }

    /// Adds a transaction. If this returns true, the caller must start a task that calls [`Self::take`] until
    /// it returns `None`.
    pub(super) fn put(&self, tx: RawTx) -> bool {
        let mut waiting = self.waiting();
        let is_task_needed = waiting.txs.len() >= waiting.tasks * self.batch_txs;
        waiting.tasks += usize::from(is_task_needed);
        waiting.txs.push(tx);
        is_task_needed
    }

    /// Takes a batch for a task and returns it with its sequence number. If there is none, the task no longer counts
    /// and must end. The batch is a multiple of the number of lanes, unless fewer transactions are waiting.
    pub(super) fn take(&self) -> Option<(u64, Vec<RawTx>)> {
        let mut waiting = self.waiting();
        if waiting.txs.is_empty() {
            waiting.tasks -= 1;
            return None;
        }
        let count = waiting.txs.len().min(self.batch_txs);
        let count = if count < LANES { count } else { count / LANES * LANES };
        let rest = waiting.txs.split_off(count);
        let txs = mem::replace(&mut waiting.txs, rest);
        let seq = waiting.taken;
        waiting.taken += 1;
        Some((seq, txs))
    }

    pub(super) fn len(&self) -> usize {
        self.waiting().txs.len()
    }

    #[cfg(test)]
    pub(super) fn tasks(&self) -> usize {
        self.waiting().tasks
    }

    #[cfg(test)]
    pub(super) fn taken(&self) -> u64 {
        self.waiting().taken
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Reply;
    use alloy_primitives::Bytes;

    const BATCH_TXS: usize = 4 * LANES;

    fn tx() -> RawTx {
        RawTx { bytes: Ok(Bytes::new()), reply: Reply::Silent }
    }

    #[test]
    fn each_full_batch_gets_a_task() {
        let queue = SubmissionQueue::new(BATCH_TXS);
        let needed: Vec<usize> = (0..3 * BATCH_TXS).filter(|_| queue.put(tx())).collect();
        assert_eq!(needed, [0, BATCH_TXS, 2 * BATCH_TXS]);
        let (seq, txs) = queue.take().unwrap();
        assert_eq!((seq, txs.len(), queue.tasks()), (0, BATCH_TXS, 3));
        assert!(!queue.put(tx()), "three tasks exist, and two suffice");
    }

    #[test]
    fn batches_fill_all_lanes_except_the_last() {
        let queue = SubmissionQueue::new(BATCH_TXS);
        for _ in 0..LANES + 3 {
            queue.put(tx());
        }
        let taken = [(); 3].map(|()| queue.take().map(|(seq, txs)| (seq, txs.len())));
        assert_eq!(taken, [Some((0, LANES)), Some((1, 3)), None]);
    }
}
