//! Receives the final blocks from the engine, in order, and adds them to the chain.

use super::{
    application::Chain, block::ProposedBlock, certificate::certificate, engine_files::KeptBlocks,
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
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};
use tokio::sync::mpsc;

/// A handle to the engine's store of final blocks.
pub(super) type Marshal = marshal::core::Mailbox<GuardedScheme, Standard<ProposedBlock>>;

/// Receives the engine's reports of final blocks.
#[derive(Clone, Debug)]
pub(super) struct Delivery<C> {
    /// At most [`super::engine::MAX_UNACKNOWLEDGED`] blocks are not acknowledged, so the queue is bounded.
    blocks: mpsc::UnboundedSender<(Digested<ProposedBlock>, Exact)>,
    chain: C,
    kept: KeptBlocks,
    /// Whether `warn_of_missing_blocks` has logged its warning.
    has_warned: Arc<AtomicBool>,
}

impl<C: Chain> Delivery<C> {
    /// Starts a task that adds final blocks to the chain with the certificates that `marshal` has, and removes the
    /// engine's copies of older blocks.
    pub(super) fn start<E: Spawner>(
        runtime: E,
        chain: C,
        marshal: Marshal,
        kept: KeptBlocks,
    ) -> (Self, Handle<()>) {
        let (sender, mut blocks) = mpsc::unbounded_channel::<(Digested<ProposedBlock>, Exact)>();
        let delivery =
            Self { blocks: sender, chain: chain.clone(), kept, has_warned: Arc::default() };
        let task = runtime.spawn(move |_| async move {
            while let Some((block, acknowledgement)) = blocks.recv().await {
                let proposed = block.inner();
                // A block that became final with a later one may have no certificate of its own.
                let proof = marshal.get_finalization(Height::new(proposed.number)).await;
                let certificate = proof.and_then(|proof| certificate(proposed, &proof));
                chain.finalize(proposed.encoded().clone(), certificate).await;
                acknowledgement.acknowledge();
                if let Some(oldest) = kept.oldest_after(proposed.number) {
                    marshal.prune(Height::new(oldest));
                }
            }
        });
        (delivery, task)
    }

    /// Warns once if the other validators may have removed the blocks that this node lacks: the engine would request
    /// them forever.
    fn warn_of_missing_blocks(&self, newest: u64) {
        let head = self.chain.head();
        if self.kept.may_lack_blocks(head, newest) && !self.has_warned.swap(true, Relaxed) {
            let kept = self.kept.count;
            tracing::warn!(
                head,
                newest,
                kept,
                "this node lacks more blocks than the other validators keep at least. If its height does not grow, stop it, let it \
                 follow another node (`evmd start --no-produce --follow URL`), and start it again when it has the newest block"
            );
        }
    }
}

impl<C: Chain> Reporter for Delivery<C> {
    type Activity = Update<ProposedBlock>;

    fn report(&mut self, update: Self::Activity) -> Feedback {
        match update {
            Update::Tip(_, newest, _) => {
                self.warn_of_missing_blocks(newest.get());
                Feedback::Ok
            }
            Update::Block(block, acknowledgement) => {
                match self.blocks.send((block, acknowledgement)) {
                    Ok(()) => Feedback::Ok,
                    Err(_) => Feedback::Closed,
                }
            }
        }
    }
}
