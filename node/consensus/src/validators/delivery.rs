//! Takes the final blocks from the engine, in order, and makes them part of the chain.

use super::{
    application::Chain, block::ProposedBlock, certificate::certificate, engine::KeptBlocks,
    guarded_scheme::GuardedScheme,
};
use commonware_actor::Feedback;
use commonware_consensus::{
    Reporter,
    marshal::{self, Update, standard::Standard},
    types::Height,
};
use commonware_cryptography::Digested;
use commonware_runtime::{Handle, Spawner};
use commonware_utils::{Acknowledgement, acknowledgement::Exact};
use tokio::sync::mpsc;

/// Answers questions about final blocks.
pub(super) type Marshal = marshal::core::Mailbox<GuardedScheme, Standard<ProposedBlock>>;

/// Receives the engine's reports. The engine has at most [`super::engine::MAX_UNACKNOWLEDGED`] blocks on the way, so the queue is bounded.
#[derive(Clone, Debug)]
pub(super) struct Delivery(mpsc::UnboundedSender<(Digested<ProposedBlock>, Exact)>);

impl Delivery {
    /// Starts a task that makes the blocks final, with the proofs that `marshal` has, and removes the engine's copies of older ones.
    pub(super) fn start<E: Spawner, C: Chain>(
        runtime: E,
        chain: C,
        marshal: Marshal,
        kept: KeptBlocks,
    ) -> (Self, Handle<()>) {
        let (sender, mut blocks) = mpsc::unbounded_channel::<(Digested<ProposedBlock>, Exact)>();
        let task = runtime.spawn(move |_| async move {
            while let Some((block, acknowledgement)) = blocks.recv().await {
                let proposed = block.inner();
                // A block that became final with a later one may have no proof of its own.
                let proof = marshal.get_finalization(Height::new(proposed.number)).await;
                let certificate = proof.and_then(|proof| certificate(proposed, &proof));
                chain.finalize(proposed.encoded().clone(), certificate).await;
                acknowledgement.acknowledge();
                if let Some(oldest) = kept.oldest_after(proposed.number) {
                    marshal.prune(Height::new(oldest));
                }
            }
        });
        (Self(sender), task)
    }
}

impl Reporter for Delivery {
    type Activity = Update<ProposedBlock>;

    fn report(&mut self, update: Self::Activity) -> Feedback {
        match update {
            Update::Tip(..) => Feedback::Ok,
            Update::Block(block, acknowledgement) => match self.0.send((block, acknowledgement)) {
                Ok(()) => Feedback::Ok,
                Err(_) => Feedback::Closed,
            },
        }
    }
}
