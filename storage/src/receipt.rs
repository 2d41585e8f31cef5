//! Receipts in stored form.

use alloy_primitives::{B256, Log};

/// The receipt of a transaction, without the fields that follow from its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReceipt {
    /// EIP-2718 type; 0 for legacy.
    pub tx_type: u8,
    /// The outcome of the transaction.
    pub outcome: ReceiptOutcome,
    /// Gas used in the block up to and including this transaction.
    pub cumulative_gas_used: u64,
    /// Logs in the order in which they were emitted.
    pub logs: Vec<Log>,
}

/// The first field of a receipt (EIP-658).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptOutcome {
    /// Since Byzantium: whether the transaction succeeded.
    Status(bool),
    /// Before Byzantium: the state root after the transaction.
    PostState(B256),
}
