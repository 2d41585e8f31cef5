//! What stages hand to each other.

use super::{modules_block::Turned, submit::Caller};
use alloy_consensus::Header;
use alloy_primitives::{B256, Bytes};
use chain::{ChainSpec, Fork, block::Block};
use evm::Executed;
use mempool::Reject;
use modules::{Modules, decorator::CheckContext};
use state::{Head, Layer, StateView, View};
use std::{sync::Arc, time::SystemTime};
use storage::BlockRecord;
use transactions::RecoveredTx;

/// What became of a submitted transaction: its hash once the mempool has it, or why not. Few are turned
/// away, and all are handed from thread to thread: the reason, which may be long, is elsewhere.
pub type Submitted = Result<B256, Box<Reject>>;

/// Where the answer to a submission goes.
#[derive(Debug)]
pub enum Reply {
    /// To a connection of the TCP ingest.
    Tcp(u64),
    /// To a waiting RPC call.
    Rpc(Caller),
    /// Nowhere: nobody waits for it.
    Silent,
}

/// A raw transaction as submitted, or already turned away (kept in line so that answers keep the
/// order of the questions).
#[derive(Debug)]
pub struct RawTx {
    /// The EIP-2718 bytes, or the reason.
    pub bytes: Result<Bytes, Box<Reject>>,
    /// Where the answer goes.
    pub reply: Reply,
}

/// A transaction with its sender or a reason, and where the answer goes.
pub(super) type Recovered = (Result<Arc<RecoveredTx>, Box<Reject>>, Reply);

/// From ingest to recover.
#[derive(Debug)]
pub(super) struct RawBatch {
    /// Rank of the batch.
    pub seq: u64,
    /// In order of arrival.
    pub txs: Vec<RawTx>,
}

/// From recover to ante.
#[derive(Debug)]
pub(super) struct CheckBatch {
    /// Rank of the batch.
    pub seq: u64,
    /// Transactions with their senders, in order of arrival.
    pub txs: Vec<Recovered>,
}

/// From ante back to ingest: answers for TCP connections, in order.
#[derive(Debug)]
pub(super) struct ReplyBatch(pub Vec<(u64, Submitted)>);

/// From a block source to recover.
#[derive(Debug)]
pub(super) struct GivenBlock {
    /// Rank of the block.
    pub seq: u64,
    /// The decoded block.
    pub block: Block,
}

/// From recover to execute: a block whose senders are known.
#[derive(Debug)]
pub(super) struct RecoveredBlock {
    /// Rank of the block.
    pub seq: u64,
    /// The block.
    pub block: Block,
    /// Its transactions, or the index of the first that does not decode or recover, and why.
    pub txs: Result<Vec<Arc<RecoveredTx>>, (usize, String)>,
}

/// From ante to execute: leave to build the next block, and what to try in it.
#[derive(Debug)]
pub(super) struct Proposal {
    /// Its number: the one after the newest tip that ante was told of.
    pub number: u64,
    /// Timestamp of the block, in seconds.
    pub timestamp: u64,
    /// Best transactions first.
    pub txs: Vec<Arc<RecoveredTx>>,
}

/// From execute through fee to seal: an executed block and the state after it.
#[derive(Debug)]
pub(super) struct ExecutedBlock {
    /// The block as given; or, when it was built here, with a header that lacks roots and bloom.
    pub block: Block,
    /// The block was built here.
    pub built: bool,
    /// Transactions in block order.
    pub txs: Arc<Vec<Arc<RecoveredTx>>>,
    /// Transactions tried and left out of a built block, with the reason.
    pub skipped: Vec<(B256, String)>,
    /// What execution gave, but for the state changes.
    pub executed: Executed,
    /// The state after, not sealed yet.
    pub after: StateView,
    /// What the block changed.
    pub layer: Arc<Layer>,
    /// On a native chain: the modules after the block, and what is stored of them.
    pub turned: Option<Turned>,
    /// Base fee of the next block, in wei; set by the fee stage.
    pub next_base_fee: u64,
    /// The block's fee-history row; set by the fee stage.
    pub fee_row: Bytes,
}

/// From seal to commit: a finished block.
#[derive(Debug)]
pub(super) struct SealedBlock {
    /// What becomes durable.
    pub record: BlockRecord,
    /// What readers see once it is.
    pub view: View,
    /// What flush writes later.
    pub layer: Arc<Layer>,
}

/// From fee to ante: the chain has a new tip to build on, which is not sealed yet.
#[derive(Debug)]
pub(super) struct Tip {
    /// What the next block is built on.
    pub ground: Ground,
    /// Transactions of the block.
    pub included: Arc<Vec<Arc<RecoveredTx>>>,
    /// Transactions the block could not take.
    pub skipped: Vec<(B256, String)>,
}

/// What is known of a block as soon as it is executed, and enough to choose the next one's
/// transactions.
#[derive(Debug)]
pub(super) struct Ground {
    /// Its header; roots, bloom and hashes may be missing.
    pub header: Arc<Header>,
    /// Base fee of the next block, in wei.
    pub next_base_fee: u64,
    /// On a native chain: the modules after it.
    pub modules: Option<Arc<Modules>>,
    /// The state after it.
    pub state: StateView,
}

impl Ground {
    /// On the head of a view.
    pub(super) fn of_head(head: &Head, state: StateView) -> Self {
        let Head { header, next_base_fee, modules, .. } = head.clone();
        Self { header, next_base_fee, modules, state }
    }

    /// The rules against which transactions of the next block are checked if it is made now; `modules`
    /// are its own.
    pub(super) fn checks<'a>(
        &self,
        spec: &'a ChainSpec,
        modules: Option<&'a Modules>,
    ) -> CheckContext<'a> {
        let timestamp = self.next_timestamp(spec);
        CheckContext::after(spec, &self.header, timestamp, self.next_base_fee, modules)
    }

    /// The fork of the next block if it is made now.
    pub(super) fn next_fork(&self, spec: &ChainSpec) -> Fork {
        spec.fork_after(&self.header, self.next_timestamp(spec))
    }

    fn next_timestamp(&self, spec: &ChainSpec) -> u64 {
        let step = spec.rules.timestamp_step();
        consensus::next_timestamp(SystemTime::now(), self.header.timestamp, step)
    }
}

/// From seal to execute: the hash of a block built here, with its whole header.
#[derive(Debug)]
pub(super) struct SealedHeader {
    /// The hash.
    pub hash: B256,
    /// The header.
    pub header: Arc<Header>,
}
