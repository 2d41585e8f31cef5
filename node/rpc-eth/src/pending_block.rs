//! Defines the pending block, which is the head of a view of its own.

use alloy_primitives::Bytes;
use evm::Executed;
use rpc_types::PendingDetail;
use state::{View, stored::StoredBlock};
use std::{sync::Arc, time::Instant};
use storage::StoredReceipt;

/// A pending block.
#[derive(Debug)]
pub struct PendingBlock {
    /// The chain and the state with the pending block as the head. If its roots were not computed, its hash is zero.
    pub view: Arc<View>,
    /// The view on which the block was built.
    pub parent: Arc<View>,
    /// The block with the senders of its transactions.
    pub stored: StoredBlock,
    /// The results of execution without the state changes, which are a layer of the view.
    pub executed: Executed,
    /// The row of the block in the fee history.
    pub fee_row: Bytes,
    /// The parts of the block that were computed.
    pub detail: PendingDetail,
    /// The time before the pool was queried.
    pub started: Instant,
}

impl PendingBlock {
    /// Returns the block with the senders of its transactions.
    pub const fn stored(&self) -> &StoredBlock {
        &self.stored
    }

    /// Returns the receipts of its transactions.
    pub fn receipts(&self) -> &[StoredReceipt] {
        &self.executed.receipts
    }

    /// Returns the row of the block in the fee history.
    pub fn fee_row(&self) -> &[u8] {
        &self.fee_row
    }

    /// Returns whether these parts of the block were computed.
    pub fn has(&self, detail: PendingDetail) -> bool {
        self.detail >= detail
    }
}
