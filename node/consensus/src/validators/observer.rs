//! Passes the engine's reports on to the node: views, votes, and votes that contradict each other.

use super::{
    application::{Chain, Contradiction, ContradictionKind},
    guarded_scheme::GuardedScheme,
};
use commonware_actor::Feedback;
use commonware_codec::Encode;
use commonware_consensus::{
    Reporter, Viewable,
    simplex::types::{Activity, Attributable},
};
use commonware_cryptography::keccak256::Digest;
use state::Voting;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct Observer<C> {
    chain: C,
    voting: Arc<Voting>,
}

impl<C: Chain> Observer<C> {
    pub(super) const fn new(chain: C, voting: Arc<Voting>) -> Self {
        Self { chain, voting }
    }

    fn conflict(&self, pair: &(impl Attributable + Viewable + Encode), kind: ContradictionKind) {
        self.voting.contradicted();
        self.chain.contradicted(Contradiction {
            validator: pair.signer().into(),
            view: pair.view().get(),
            kind,
            votes: pair.encode().into(),
        });
    }
}

impl<C: Chain> Reporter for Observer<C> {
    type Activity = Activity<GuardedScheme, Digest>;

    fn report(&mut self, activity: Self::Activity) -> Feedback {
        use ContradictionKind::{FinalizedAndNullified, TwoFinalized, TwoNotarized};
        let voting = &self.voting;
        match &activity {
            Activity::Notarize(vote) => voting.voted(vote.attestation.signer.into()),
            Activity::Nullify(vote) => voting.voted(vote.attestation.signer.into()),
            Activity::Finalize(vote) => voting.voted(vote.attestation.signer.into()),
            Activity::Finalization(proof) => voting.view_ended(proof.view().get(), false),
            Activity::Nullification(proof) => voting.view_ended(proof.view().get(), true),
            Activity::ConflictingNotarize(votes) => self.conflict(votes, TwoNotarized),
            Activity::ConflictingFinalize(votes) => self.conflict(votes, TwoFinalized),
            Activity::NullifyFinalize(votes) => self.conflict(votes, FinalizedAndNullified),
            Activity::Notarization(_) | Activity::Certification(_) => {}
        }
        Feedback::Ok
    }
}
