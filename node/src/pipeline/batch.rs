//! What stages hand to each other.

use super::turn::Turned;
use crate::{
    block::Block,
    execution::{Executed, RecoveredTx},
    mempool::Reject,
    view::{Head, Layer, StateView, View},
};
use alloy_primitives::{B256, Bytes};
use std::sync::Arc;
use storage::BlockRecord;
use tokio::sync::oneshot;

/// What became of a submitted transaction: its hash once the mempool has it, or why not.
pub type Submitted = Result<B256, Reject>;

/// Where the answer to a submission goes.
#[derive(Debug)]
pub enum Reply {
    /// To a connection of the TCP ingest.
    Tcp(u64),
    /// To a waiting RPC call.
    Rpc(oneshot::Sender<Submitted>),
    /// Nowhere: nobody waits for it.
    Silent,
}

/// A raw transaction as submitted, or already turned away (kept in line so that answers keep the
/// order of the questions).
#[derive(Debug)]
pub struct RawTx {
    /// The EIP-2718 bytes, or the reason.
    pub bytes: Result<Bytes, Reject>,
    /// Where the answer goes.
    pub reply: Reply,
}

/// A transaction with its sender or a reason, and where the answer goes.
pub(super) type Recovered = (Result<RecoveredTx, Reject>, Reply);

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
    /// The block to build on.
    pub parent: Head,
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
    pub txs: Vec<Arc<RecoveredTx>>,
    /// Transactions tried and left out of a built block, with the reason.
    pub skipped: Vec<(B256, String)>,
    /// What execution gave, but for the state changes.
    pub executed: Executed,
    /// The state before.
    pub before: StateView,
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

/// From seal to ante: the chain has a new tip to build on.
#[derive(Debug)]
pub(super) struct Tip {
    /// The view with the new block in it; not durable yet.
    pub view: View,
    /// Transactions of the block.
    pub included: Vec<Arc<RecoveredTx>>,
    /// Transactions the block could not take.
    pub skipped: Vec<(B256, String)>,
}
