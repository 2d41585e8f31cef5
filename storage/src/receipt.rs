//! Receipts as they are stored.

use alloy_primitives::{B256, Log};

/// One transaction's receipt, without what follows from its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReceipt {
    /// EIP-2718 type; 0 for legacy.
    pub tx_type: u8,
    /// How it ended.
    pub outcome: ReceiptOutcome,
    /// Gas used in the block up to and including this transaction.
    pub cumulative_gas_used: u64,
    /// Logs in the order emitted.
    pub logs: Vec<Log>,
}

/// First field of a receipt (EIP-658).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptOutcome {
    /// Since Byzantium: whether the transaction succeeded.
    Status(bool),
    /// Before Byzantium: state root after the transaction.
    PostState(B256),
}
