//! The pending block as methods read it: the head of a view of its own.

use alloy_primitives::Bytes;
use evm::Executed;
use rpc_types::PendingDetail;
use state::{View, stored::StoredBlock};
use std::{sync::Arc, time::Instant};
use storage::StoredReceipt;

/// A pending block.
#[derive(Debug)]
pub struct PendingBlock {
    /// The chain and the state with the block as the head. Without roots, its hash is zero.
    pub view: Arc<View>,
    /// The view that it was built on.
    pub parent: Arc<View>,
    /// The block with the senders of its transactions.
    pub stored: StoredBlock,
    /// Without the state changes, which are a layer of the view.
    pub executed: Executed,
    /// Its row of the fee history.
    pub fee_row: Bytes,
    /// How much of it there is.
    pub detail: PendingDetail,
    /// When the pool was queried.
    pub started: Instant,
}

impl PendingBlock {
    /// The block with the senders of its transactions.
    pub const fn stored(&self) -> &StoredBlock {
        &self.stored
    }

    /// Receipts of its transactions.
    pub fn receipts(&self) -> &[StoredReceipt] {
        &self.executed.receipts
    }

    /// Its row of the fee history.
    pub fn fee_row(&self) -> &[u8] {
        &self.fee_row
    }

    /// Whether it has this much.
    pub fn has(&self, detail: PendingDetail) -> bool {
        self.detail >= detail
    }
}
