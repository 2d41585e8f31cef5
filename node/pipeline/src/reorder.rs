//! Restores the order of batches that parallel workers finish out of order.

use std::collections::BTreeMap;

/// Holds batches until their predecessors arrive. The rings limit the number of batches; a limit here would also block
/// the missing batch.
#[derive(Debug)]
pub(super) struct Reorder<T> {
    next: u64,
    waiting: BTreeMap<u64, T>,
}

impl<T> Reorder<T> {
    /// Starts at sequence number zero.
    pub(super) const fn new() -> Self {
        Self { next: 0, waiting: BTreeMap::new() }
    }

    /// Adds a batch.
    ///
    /// # Panics
    /// If the sequence number has been used before.
    pub(super) fn put(&mut self, seq: u64, batch: T) {
        assert!(seq >= self.next, "sequence {seq} came after {}", self.next);
        assert!(self.waiting.insert(seq, batch).is_none(), "sequence {seq} came twice");
    }

    /// Returns the next batch in sequence, if it has arrived.
    pub(super) fn take(&mut self) -> Option<T> {
        let batch = self.waiting.remove(&self.next)?;
        self.next += 1;
        Some(batch)
    }

    /// Returns whether [`Self::take`] would return a batch. After the end of the input, batches that are left although
    /// this returns false follow a gap caused by a failed worker.
    pub(super) fn has_next(&self) -> bool {
        self.waiting.contains_key(&self.next)
    }
}

impl<T> Default for Reorder<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_taken_in_sequence() {
        let mut reorder = Reorder::new();
        for seq in [2, 0, 1, 4] {
            reorder.put(seq, seq);
        }
        let taken: Vec<_> = std::iter::from_fn(|| reorder.take()).collect();
        assert_eq!(taken, [0, 1, 2]);
        assert!(!reorder.has_next(), "3 is missing");
        reorder.put(3, 3);
        assert!(reorder.has_next());
        assert_eq!((reorder.take(), reorder.take(), reorder.take()), (Some(3), Some(4), None));
        assert!(!reorder.has_next());
    }
}
