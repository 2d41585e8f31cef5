//! Messages between stages.

pub use super::caller::Submitted;
use super::{
    branch::{BuiltAnswer, Choice, RecoveredTxs, VerdictAnswer},
    caller::Caller,
    development::BlockSettings,
    modules_block::ModulesOutcome,
    received::ReceivedParts,
    undo::{Rebuild, Undo},
};
use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes};
use chain::{ChainSpec, Fork, block::Block};
use evm::Executed;
use mempool::{Reject, Submitter};
use modules::{Modules, decorator::CheckContext};
use state::{Head, Layer, LayerId, StateView, View};
use std::{sync::Arc, time::SystemTime};
use storage::{BlockFlags, BlockRecord};
use transactions::RecoveredTx;

/// Maximum number of transactions per batch. Recovery is most efficient at this size.
pub(super) const BATCH_TXS: usize = 256;
/// Maximum bytes of one transaction, as in geth's pool.
pub const MAX_TX_BYTES: usize = 128 * 1024;

/// The destination of a result.
#[derive(Debug)]
pub enum Reply {
    /// A connection of the TCP ingest.
    Tcp(u64),
    /// A waiting RPC call.
    Rpc(Caller),
    /// No destination: the result is discarded.
    Silent,
}

impl Reply {
    pub(super) const fn submitter(&self) -> Submitter {
        match self {
            Self::Rpc(caller) => caller.submitter(),
            Self::Tcp(_) | Self::Silent => Submitter::Client,
        }
    }
}

/// A raw transaction as submitted, or one that was already refused. Refused ones stay in the batch so that the
/// results keep the order of the submissions.
#[derive(Debug)]
pub struct RawTx {
    /// The EIP-2718 bytes, or the reason for the refusal.
    pub bytes: Result<Bytes, Box<Reject>>,
    /// The destination of the result.
    pub reply: Reply,
}

/// A transaction with its sender, or the reason why it was refused, and the destination of the result.
pub(super) type Recovered = (Result<Arc<RecoveredTx>, Box<Reject>>, Reply);

/// A message from execute to the later stages. Messages take effect in the order in which they are sent.
#[derive(Debug)]
pub(super) enum InOrder<B> {
    /// The next block.
    Block(B),
    /// The return to an earlier block.
    Undo(Arc<Undo>),
    /// A rebuild of the index, which precedes the return to a block that is older than the index.
    Rebuild(Arc<Rebuild>),
    /// A choice: unfinished blocks become part of the chain.
    Choose(Arc<Choice>),
    /// Unfinished blocks to be dropped, identified by their post-states.
    Drop(Vec<LayerId>),
}

/// From ingest to recover.
#[derive(Debug)]
pub(super) struct RawBatch {
    pub seq: u64,
    /// In order of arrival.
    pub txs: Vec<RawTx>,
}

/// From recover to ante.
#[derive(Debug)]
pub(super) struct CheckBatch {
    pub seq: u64,
    /// Transactions with their senders, in order of arrival.
    pub txs: Vec<Recovered>,
}

/// From ante to ingest: results for TCP connections, in order.
#[derive(Debug)]
pub(super) struct ReplyBatch(pub Vec<(u64, Submitted)>);

/// From a block source to recover.
#[derive(Debug)]
pub(super) struct ImportedBlock {
    pub seq: u64,
    pub block: Block,
}

/// From recover to execute: a block whose senders are known.
#[derive(Debug)]
pub(super) struct RecoveredBlock {
    pub seq: u64,
    pub block: Block,
    pub txs: RecoveredTxs,
    /// The results received with the block, if they are used instead of executing it.
    pub received: Option<Box<ReceivedParts>>,
}

/// From ante to execute: permission to produce the next block, and its candidates.
#[derive(Debug)]
pub(super) struct Proposal {
    /// The state that the block extends.
    pub parent: LayerId,
    /// Number of the block: one above that of the newest head update that ante has received.
    pub number: u64,
    /// Timestamp of the block, in seconds.
    pub timestamp: u64,
    /// The fee recipient in the header; `None` uses that of the parent.
    pub beneficiary: Option<Address>,
    /// Candidates, best first.
    pub txs: Vec<Arc<RecoveredTx>>,
    /// The settings that clients of a development chain have made for the block; `None` if there are none.
    pub settings: Option<Box<BlockSettings>>,
}

/// Where a block comes from.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// It was produced here.
    Produced,
    /// It was read from a file.
    Imported,
    /// It was given through [`BlockClient`](super::BlockClient), and waits until it is chosen.
    Given(Arc<VerdictAnswer>),
    /// It was built here at the request of a [`BlockClient`](super::BlockClient), and waits until it is chosen.
    Built(Arc<BuiltAnswer>),
}

impl Origin {
    /// Returns whether the header lacks the results of execution until this node adds them.
    pub(super) const fn is_made_here(&self) -> bool {
        matches!(self, Self::Produced | Self::Built(_))
    }

    /// Returns whether the block becomes part of the chain only when it is chosen.
    pub(super) const fn is_unfinished(&self) -> bool {
        matches!(self, Self::Given(_) | Self::Built(_))
    }
}

/// From execute through fee to seal: an executed block and the state after it.
#[derive(Debug)]
pub(super) struct ExecutedBlock {
    /// The imported or given block, or a produced one whose header still lacks the roots and the bloom.
    pub block: Block,
    /// Where the block comes from.
    pub origin: Origin,
    /// Flags of a development chain's block that does not follow from its transactions alone.
    pub flags: BlockFlags,
    /// Transactions in block order.
    pub txs: Arc<Vec<Arc<RecoveredTx>>>,
    /// Candidates left out of a produced block, each with the reason.
    pub skipped: Vec<(B256, String)>,
    /// The result of execution, without the state changes.
    pub executed: Executed,
    /// Whether the result was received with the block rather than computed here.
    pub is_received: bool,
    /// The received certificate.
    pub certificate: Option<Bytes>,
    /// The state after the block, which is not sealed yet.
    pub after: StateView,
    /// What the block changed.
    pub layer: Arc<Layer>,
    /// On a native chain: the modules after the block, and the records of them to store.
    pub modules_outcome: Option<ModulesOutcome>,
    /// Base fee of the next block, in wei; set by the fee stage.
    pub next_base_fee: u64,
    /// The block's fee-history row; set by the fee stage.
    pub fee_row: Bytes,
}

/// From seal to commit: a finished block.
#[derive(Debug)]
pub(super) struct SealedBlock {
    /// The record to write to the chain environment.
    pub record: BlockRecord,
    /// The view to publish after the write.
    pub view: View,
    /// The changes that flush writes later.
    pub layer: Arc<Layer>,
}

/// From fee to ante: an executed block, which is not sealed yet.
#[derive(Debug)]
pub(super) struct HeadUpdate {
    /// The parent of the next block.
    pub parent: NextBlockParent,
    /// Transactions of the executed block.
    pub included: Arc<Vec<Arc<RecoveredTx>>>,
    /// Candidates left out of the block, each with the reason.
    pub skipped: Vec<(B256, String)>,
}

/// A block after its execution, with what is needed to select transactions for the next one.
#[derive(Debug)]
pub(super) struct NextBlockParent {
    /// The block's header, which may still lack roots, bloom and the parent's hash.
    pub header: Arc<Header>,
    /// Base fee of the next block, in wei.
    pub next_base_fee: u64,
    /// On a native chain: the modules after the block.
    pub modules: Option<Arc<Modules>>,
    /// The state after the block.
    pub state: StateView,
}

impl NextBlockParent {
    /// Creates the parent at the head of a view.
    pub(super) fn of_head(head: &Head, state: StateView) -> Self {
        let Head { header, next_base_fee, modules, .. } = head.clone();
        Self { header, next_base_fee, modules, state }
    }

    /// Returns the rules for checking transactions of the next block if it is produced now; `modules` must be
    /// those of this parent.
    pub(super) fn checks<'a>(
        &self,
        spec: &'a ChainSpec,
        modules: Option<&'a Modules>,
    ) -> CheckContext<'a> {
        let timestamp = self.next_timestamp(spec);
        CheckContext::after(spec, &self.header, timestamp, self.next_base_fee, modules)
    }

    /// Returns the fork of the next block if it is produced now.
    pub(super) fn next_fork(&self, spec: &ChainSpec) -> Fork {
        spec.fork_after(&self.header, self.next_timestamp(spec))
    }

    fn next_timestamp(&self, spec: &ChainSpec) -> u64 {
        let step = spec.rules.timestamp_step();
        consensus::next_timestamp(SystemTime::now(), self.header.timestamp, step)
    }
}

/// From seal to execute.
#[derive(Debug)]
pub(super) enum FromSeal {
    /// A produced block was sealed.
    Sealed(SealedHeader),
    /// A block that was built at the request of a client was sealed.
    Built(SealedHeader),
    /// The block that is being built cannot be sealed, because its parent was refused.
    NotBuilt,
    /// A given block was accepted: its header agrees with its execution.
    Accepted(B256),
    /// A given block was refused: its header does not agree with its execution.
    Refused(B256),
}

/// The hash and the complete header of a block that was made here.
#[derive(Debug)]
pub(super) struct SealedHeader {
    /// The state after the block.
    pub state: LayerId,
    pub hash: B256,
    pub header: Arc<Header>,
}
