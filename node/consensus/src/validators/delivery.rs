//! Takes the final blocks from the engine, in order, and makes them part of the chain.

use super::{application::Chain, block::ProposedBlock};
use commonware_actor::Feedback;
use commonware_consensus::{Reporter, marshal::Update};
use commonware_cryptography::Digested;
use commonware_runtime::{Handle, Spawner};
use commonware_utils::{Acknowledgement, acknowledgement::Exact};
use tokio::sync::mpsc;

/// Receives the engine's reports. The engine has at most [`super::engine::MAX_UNACKNOWLEDGED`] blocks on the way, so the queue is bounded.
#[derive(Clone, Debug)]
pub(super) struct Delivery(mpsc::UnboundedSender<(Digested<ProposedBlock>, Exact)>);

impl Delivery {
    /// Starts a task that makes the blocks final.
    pub(super) fn start<E: Spawner, C: Chain>(runtime: E, chain: C) -> (Self, Handle<()>) {
        let (sender, mut blocks) = mpsc::unbounded_channel::<(Digested<ProposedBlock>, Exact)>();
        let task = runtime.spawn(move |_| async move {
            while let Some((block, acknowledgement)) = blocks.recv().await {
                chain.finalize(block.inner().encoded().clone()).await;
                acknowledgement.acknowledge();
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
