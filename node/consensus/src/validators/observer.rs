//! Counts what the engine reports: views, votes, and votes that contradict each other, which honest validators do not send.

use super::guarded_scheme::GuardedScheme;
use commonware_actor::Feedback;
use commonware_consensus::{Reporter, Viewable, simplex::types::Activity};
use commonware_cryptography::keccak256::Digest;
use state::Voting;
use std::sync::Arc;

/// Receives the reports of the engine.
#[derive(Clone, Debug)]
pub(super) struct Observer(Arc<Voting>);

impl Observer {
    pub(super) const fn new(voting: Arc<Voting>) -> Self {
        Self(voting)
    }
}

impl Reporter for Observer {
    type Activity = Activity<GuardedScheme, Digest>;

    fn report(&mut self, activity: Self::Activity) -> Feedback {
        match &activity {
            Activity::Notarize(vote) => self.0.voted(vote.attestation.signer.into()),
            Activity::Nullify(vote) => self.0.voted(vote.attestation.signer.into()),
            Activity::Finalize(vote) => self.0.voted(vote.attestation.signer.into()),
            Activity::Finalization(it) => self.0.view_ended(it.view().get(), false),
            Activity::Nullification(it) => self.0.view_ended(it.view().get(), true),
            Activity::ConflictingNotarize(_)
            | Activity::ConflictingFinalize(_)
            | Activity::NullifyFinalize(_) => {
                self.0.contradicted();
                tracing::error!(
                    ?activity,
                    "a validator has sent two votes that contradict each other"
                );
            }
            Activity::Notarization(_) | Activity::Certification(_) => {}
        }
        Feedback::Ok
    }
}
