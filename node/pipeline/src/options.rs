//! The options of a pipeline.

use super::client::TransactionForwarder;
use alloy_primitives::Bytes;
use certificates::BlockId;
use config::Listen;
use consensus::{MiningControl, TimeSource};
use home::Certifier;
use std::{fmt, path::PathBuf, sync::Arc};
use verify::Backend;

/// Certifies blocks when they become durable.
pub trait Certify: fmt::Debug + Send + Sync {
    /// Returns the certificate of a block, as it is stored; `None` if the certificate of a later block covers it.
    fn certificate(&self, block: BlockId) -> Option<Bytes>;
}

/// A producer signs each of its blocks.
impl Certify for Certifier {
    fn certificate(&self, block: BlockId) -> Option<Bytes> {
        Some(self.certify(block).encode().into())
    }
}

/// Options of a pipeline.
#[derive(Clone, Debug)]
pub struct Options {
    /// Accept transactions over RPC, and also over TCP at this address unless TCP is off. `None` accepts none.
    pub transactions: Option<Listen>,
    /// The mempool to which transactions from RPC calls are submitted instead of this node's own; `None` on a node that
    /// does not follow others.
    pub forwarder: Option<Arc<dyn TransactionForwarder>>,
    /// Produce blocks; `None` produces none.
    pub mining: Option<MiningControl>,
    /// Certifies blocks as they become durable.
    pub certifier: Option<Arc<dyn Certify>>,
    /// Import the blocks in these files.
    pub files: Vec<PathBuf>,
    /// Accept blocks and choices of the head through [`BlockClient`](super::BlockClient) until the pipeline is stopped.
    /// Otherwise, a pipeline that imports files ends after the last one.
    pub given_blocks: bool,
    /// Number of recovery threads.
    pub recover_workers: usize,
    /// Recovery backend.
    pub backend: Backend,
    /// Creates the clocks that the timestamps of new blocks follow. Tests replace the machine's clocks.
    pub clocks: fn() -> Box<dyn TimeSource>,
}
