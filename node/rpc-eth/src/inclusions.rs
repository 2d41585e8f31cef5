//! Wakes the calls that wait for the block of a transaction when that block is published.
//!
//! One task reads the hashes of each new block. If each of hundreds of waiting calls read each block itself, they
//! would use more time than the pipeline. The task misses a block that is flushed before it reads it, so callers also
//! check periodically.
//!
//! State: the transactions that calls wait for. There are never more of them than concurrent calls.

use alloy_primitives::{B256, map::HashMap};
use state::{Published, View};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The calls that wait for the block of a transaction.
#[derive(Debug, Default)]
pub struct Inclusions(Mutex<HashMap<B256, Vec<oneshot::Sender<()>>>>);

/// A call that waits for the block of a transaction. Dropping it removes its entry.
#[derive(Debug)]
pub(crate) struct Inclusion<'a> {
    inclusions: &'a Inclusions,
    hash: B256,
    included: oneshot::Receiver<()>,
}

impl Inclusions {
    /// Registers a waiting call. Blocks that were published before do not wake it, so the caller must check them after
    /// this.
    pub(crate) fn wait(&self, hash: B256) -> Inclusion<'_> {
        let (sender, included) = oneshot::channel();
        self.lock().entry(hash).or_default().push(sender);
        Inclusion { inclusions: self, hash, included }
    }

    /// Follows the published views until the node stops.
    pub async fn follow(self: Arc<Self>, published: Published) {
        let mut heads = published.heads();
        let (mut last, mut undone) = (0, 0);
        while heads.changed().await.is_ok() {
            let view = published.load();
            if view.undone != undone {
                (last, undone) = (0, view.undone);
            }
            self.read(&view, last);
            last = view.number();
        }
    }

    /// Wakes the calls that wait for transactions of the blocks after `last`.
    fn read(&self, view: &View, last: u64) {
        let new = view.state.layers().iter().filter(|layer| layer.number() > last);
        for layer in new {
            self.publish(layer.tx_hashes());
        }
    }

    fn publish(&self, hashes: &[B256]) {
        let mut waiting = self.lock();
        if waiting.is_empty() {
            return;
        }
        for sender in hashes.iter().filter_map(|hash| waiting.remove(hash)).flatten() {
            // This fails if the caller has stopped waiting.
            let _ = sender.send(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<B256, Vec<oneshot::Sender<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inclusion<'_> {
    /// Waits until a block with the transaction is published.
    pub(crate) async fn published(&mut self) {
        // This cannot fail: the sender is dropped only after it has sent, or after this receiver was closed.
        let _ = (&mut self.included).await;
    }
}

impl Drop for Inclusion<'_> {
    fn drop(&mut self) {
        self.included.close();
        let mut waiting = self.inclusions.lock();
        if let Some(senders) = waiting.get_mut(&self.hash) {
            senders.retain(|sender| !sender.is_closed());
            if senders.is_empty() {
                waiting.remove(&self.hash);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn published_transactions_wake_their_calls_and_dropped_calls_are_removed() {
        let [included, other] = [1, 2].map(B256::repeat_byte);
        let inclusions = Inclusions::default();
        let mut woken = [inclusions.wait(included), inclusions.wait(included)];
        let [first, second] = [inclusions.wait(other), inclusions.wait(other)];
        inclusions.publish(&[B256::ZERO, included]);
        for inclusion in &mut woken {
            inclusion.published().await;
        }
        assert_eq!(inclusions.lock().len(), 1);
        drop(first);
        assert_eq!(inclusions.lock()[&other].len(), 1);
        drop(second);
        assert!(inclusions.lock().is_empty());
    }
}
