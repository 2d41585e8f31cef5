//! Counts votes that contradict each other. Honest validators send none.

use super::guarded_scheme::GuardedScheme;
use commonware_actor::Feedback;
use commonware_consensus::{Reporter, simplex::types::Activity};
use commonware_cryptography::keccak256::Digest;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The number of contradictions that the engine has reported.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence(Arc<AtomicU64>);

impl Evidence {
    /// The number.
    #[cfg(test)]
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Reporter for Evidence {
    type Activity = Activity<GuardedScheme, Digest>;

    fn report(&mut self, activity: Self::Activity) -> Feedback {
        if let Activity::ConflictingNotarize(_)
        | Activity::ConflictingFinalize(_)
        | Activity::NullifyFinalize(_) = activity
        {
            self.0.fetch_add(1, Ordering::Relaxed);
            tracing::error!(?activity, "a validator has sent two votes that contradict each other");
        }
        Feedback::Ok
    }
}
