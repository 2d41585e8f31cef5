//! The requests of the consensus engine to the node: to build a block, to check one, and to make one final.

use super::{
    block::{ProposalContext, ProposedBlock},
    guarded_scheme::GuardedScheme,
};
use crate::next_timestamp;
use alloy_primitives::{B256, Bytes};
use commonware_consensus::{Application, marshal::ancestry::Ancestry};
use commonware_cryptography::Digested;
use commonware_parallel::Sequential;
use commonware_runtime::{Clock, Metrics, Spawner};
use futures_util::StreamExt;
use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Maximum number of seconds by which the timestamp of a block may be ahead of the clock of a validator that votes to
/// finalize it. A validator waits before it votes for a block that is further ahead.
pub const MAX_SECONDS_AHEAD: u64 = 5;

/// Maximum number of unknown ancestors that are checked before a block after a restart: fewer than the blocks that the
/// pipeline holds. If there are more, this node waits until the engine has delivered the final ones among them.
const MAX_UNKNOWN_BLOCKS: usize = 60;

/// A final block with its proof.
#[derive(Clone, Debug)]
pub struct CertifiedBlock {
    /// The RLP encoding of the block.
    pub block: Bytes,
    /// An encoded [`certificates::Certificate`].
    pub certificate: Bytes,
}

/// Two votes of one validator that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The position of the validator in the order of the keys.
    pub validator: usize,
    /// The view of both votes.
    pub view: u64,
    /// How the votes contradict each other.
    pub kind: ContradictionKind,
    /// Both votes with their signatures, which this node has verified, in the engine's encoding.
    pub votes: Bytes,
}

/// How two votes of one view contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContradictionKind {
    /// They notarize different proposals.
    TwoNotarized,
    /// They finalize different proposals.
    TwoFinalized,
    /// One finalizes a proposal, and one nullifies the view.
    FinalizedAndNullified,
}

/// The node, as the engine sees it. The engine drops a future when it has no use for the result; the node may still
/// finish the work.
pub trait Chain: Clone + Send + Sync + 'static {
    /// The number of the newest block of this node's chain.
    fn head(&self) -> u64;

    /// The newest block of this node's chain that has a certificate of its own, and that certificate. `None` if no
    /// block has one.
    fn newest_certified(&self) -> Option<CertifiedBlock>;

    /// The time for timestamps of blocks, when the clock of the runtime shows `clock`.
    fn now(&self, clock: SystemTime) -> SystemTime;

    /// Builds a block on `parent` that names this validator as its proposer. `None` if this node cannot build one now.
    fn build(&self, parent: B256, timestamp: u64) -> impl Future<Output = Option<Bytes>> + Send;

    /// Whether this node has the state after a block: it is final here, or was built or checked since the node started.
    fn knows(&self, block: B256) -> impl Future<Output = bool> + Send;

    /// Whether a block is valid and names the validator with the key `proposer` as its proposer. This node must
    /// [know](Self::knows) the parent. The future does not complete if this node cannot decide.
    fn check(&self, block: Bytes, proposer: B256) -> impl Future<Output = bool> + Send;

    /// Adds a final block, whose parent is final, to the chain. Returns when the block is durable. It may not have been
    /// [checked](Self::check) since the node started. The engine repeats the newest blocks after a restart.
    /// `certificate` is a [`certificates::Certificate`]; a block without one is covered by that of a later block.
    fn finalize(&self, block: Bytes, certificate: Option<Bytes>)
    -> impl Future<Output = ()> + Send;

    /// Reports that a validator has sent votes that contradict each other, which violates the protocol.
    fn contradicted(&self, contradiction: Contradiction);

    /// Waits for transactions that clients have sent to this node, and returns them in an encoding of at most
    /// [`MAX_TRANSACTION_MESSAGE_BYTES`](super::MAX_TRANSACTION_MESSAGE_BYTES). Other validators may propose them
    /// before this one does.
    fn outgoing_transactions(&self) -> impl Future<Output = Bytes> + Send;

    /// Submits the transactions that another validator has sent to the pool. Returns when they are accepted or
    /// rejected. The next message is read afterwards.
    fn incoming_transactions(&self, encoded: Bytes) -> impl Future<Output = ()> + Send;
}

/// Connects the engine with a [`Chain`].
#[derive(Clone, Debug)]
pub(super) struct ChainApplication<C> {
    chain: C,
    /// Minimum time between two proposals of blocks.
    pace: Duration,
    /// When the last block was proposed or arrived.
    last: Arc<Mutex<SystemTime>>,
    /// Minimum seconds between the timestamps of two blocks.
    step: u64,
    /// Maximum bytes of an encoded block.
    max_block_bytes: usize,
}

impl<C: Chain> ChainApplication<C> {
    pub(super) fn new(chain: C, pace: Duration, step: u64, max_block_bytes: usize) -> Self {
        Self { chain, pace, last: Arc::new(Mutex::new(UNIX_EPOCH)), step, max_block_bytes }
    }

    async fn check(&self, block: &ProposedBlock) -> bool {
        self.chain.check(block.encoded().clone(), block.proposer()).await
    }

    fn set_last(&self, now: SystemTime) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Checks the blocks up to `last` that this node does not know, as after a restart. Returns whether all are valid,
    /// or `None` if there are too many.
    async fn catch_up(
        &self,
        last: Digested<ProposedBlock>,
        ancestry: &mut impl Ancestry<ProposedBlock>,
    ) -> Option<bool> {
        let (mut unknown, mut next) = (Vec::new(), last);
        while !self.chain.knows(next.inner().hash).await {
            if unknown.len() == MAX_UNKNOWN_BLOCKS {
                return None;
            }
            unknown.push(next);
            next = ancestry.next().await?;
        }
        for block in unknown.iter().rev() {
            if !self.check(block.inner()).await {
                return Some(false);
            }
        }
        Some(true)
    }

    fn due(&self) -> SystemTime {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) + self.pace
    }
}

impl<E: Clock + Metrics + Spawner, C: Chain> Application<E> for ChainApplication<C> {
    type SigningScheme = GuardedScheme;
    type Context = ProposalContext;
    type Block = ProposedBlock;
    type Input = ();

    async fn propose(
        &mut self,
        (runtime, context): (E, ProposalContext),
        mut ancestry: impl Ancestry<ProposedBlock>,
        (): (),
    ) -> Option<Digested<ProposedBlock>> {
        let parent = ancestry.next().await?;
        if self.catch_up(parent.clone(), &mut ancestry).await != Some(true) {
            return None;
        }
        let parent = parent.inner();
        // The clock may have been set back.
        let due = self.due().min(runtime.current() + self.pace);
        runtime.sleep_until(due).await;
        let clock = runtime.current();
        self.set_last(clock);
        let timestamp = next_timestamp(self.chain.now(clock), parent.timestamp, self.step);
        let encoded = self.chain.build(parent.hash, timestamp).await?;
        if encoded.len() > self.max_block_bytes {
            let (bytes, limit) = (encoded.len(), self.max_block_bytes);
            tracing::error!(bytes, limit, "did not propose a block that is too large");
            return None;
        }
        let block = ProposedBlock::new(context, encoded).expect("the node builds valid blocks");
        Some(Digested::compute(block, &Sequential).await)
    }

    async fn verify(
        &mut self,
        (runtime, _): (E, ProposalContext),
        mut ancestry: impl Ancestry<ProposedBlock>,
    ) -> bool {
        // The engine drops this future when it has no use for the result.
        let Some(block) = ancestry.next().await else { return std::future::pending().await };
        let Some(parent) = ancestry.next().await else { return std::future::pending().await };
        let block = block.inner();
        self.set_last(runtime.current());
        if block.parent_hash != parent.inner().hash {
            return false;
        }
        let ahead = block.timestamp.saturating_sub(MAX_SECONDS_AHEAD);
        let Some(earliest) = UNIX_EPOCH.checked_add(Duration::from_secs(ahead)) else {
            return false;
        };
        if let Ok(wait) = earliest.duration_since(self.chain.now(runtime.current())) {
            runtime.sleep(wait).await;
        }
        match self.catch_up(parent, &mut ancestry).await {
            Some(true) => self.check(block).await,
            Some(false) => false,
            // The other validators decide about this block.
            None => std::future::pending().await,
        }
    }
}
