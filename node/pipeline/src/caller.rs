//! An RPC call that waits for the result of its submission.

use alloy_primitives::B256;
use mempool::{Reject, Submitter};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};
use tokio::sync::oneshot;

/// The result of a submission: the hash once the mempool has accepted it, or the reason. The reason is boxed,
/// because it may be large, most submissions are accepted, and all results are passed between threads.
pub type Submitted = Result<B256, Box<Reject>>;

/// Counts a transaction as in flight until this guard is dropped.
#[derive(Debug)]
pub(super) struct InFlight(Arc<AtomicUsize>);

impl InFlight {
    /// Counts one more transaction, unless `max` are already in flight.
    pub(super) fn within(max: usize, count: &Arc<AtomicUsize>) -> Option<Self> {
        let guard = Self(Arc::clone(count));
        (guard.0.fetch_add(1, Relaxed) < max).then_some(guard)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The caller that waits for the result of a submission. The submission counts as in flight until this value
/// is dropped, even if the caller has disconnected.
#[derive(Debug)]
pub struct Caller {
    answer: oneshot::Sender<Submitted>,
    submitter: Submitter,
    in_flight: InFlight,
}

impl Caller {
    /// Creates a caller and the receiver of its result, which fails if the caller is dropped without a result.
    pub(super) fn new(
        in_flight: InFlight,
        submitter: Submitter,
    ) -> (Self, oneshot::Receiver<Submitted>) {
        let (answer, answered) = oneshot::channel();
        (Self { answer, submitter, in_flight }, answered)
    }

    pub(super) const fn submitter(&self) -> Submitter {
        self.submitter
    }

    /// Sends the result if the caller is still waiting.
    pub(super) fn answer(self, submitted: Submitted) {
        let Self { answer, in_flight, .. } = self;
        drop(in_flight);
        let _ = answer.send(submitted);
    }
}
