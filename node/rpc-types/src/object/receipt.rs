//! Defines the result objects of receipts and logs.

use crate::text::{ObjectWriter, WriteJson};
use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, B256, Bloom, Bytes, Log, U64, U128};
use serde::Serialize;
use state::stored::MinedTx;
use storage::{ReceiptOutcome, StoredReceipt};

/// A log. `removed` is true if the block was undone after a client had been notified of the log.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogObject<'a> {
    address: Address,
    topics: &'a [B256],
    data: &'a Bytes,
    block_number: U64,
    transaction_hash: B256,
    transaction_index: U64,
    block_hash: B256,
    block_timestamp: U64,
    log_index: U64,
    removed: bool,
}

/// The position of a log in the chain.
#[derive(Clone, Copy, Debug)]
pub struct LogPosition {
    /// Number of the block.
    pub block_number: u64,
    /// Hash of the block.
    pub block_hash: B256,
    /// Time of the block in seconds.
    pub block_timestamp: u64,
    /// Hash of the transaction.
    pub transaction_hash: B256,
    /// Index of the transaction in the block.
    pub transaction_index: usize,
    /// Index of the log among all logs of the block.
    pub log_index: usize,
}

impl<'a> LogObject<'a> {
    /// Creates the object of a log.
    pub fn new(log: &'a Log, position: LogPosition) -> Self {
        Self {
            address: log.address,
            topics: log.topics(),
            data: &log.data.data,
            block_number: U64::from(position.block_number),
            transaction_hash: position.transaction_hash,
            transaction_index: U64::from(position.transaction_index),
            block_hash: position.block_hash,
            block_timestamp: U64::from(position.block_timestamp),
            log_index: U64::from(position.log_index),
            removed: false,
        }
    }

    /// Sets `removed`, for a log of a block that was undone.
    #[must_use]
    pub const fn into_removed(self) -> Self {
        Self { removed: true, ..self }
    }
}

/// A receipt. It has `root` before Byzantium and `status` since. Only blob transactions have blob fields.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    blob_gas_price: Option<U128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blob_gas_used: Option<U64>,
    block_hash: B256,
    block_number: U64,
    contract_address: Option<Address>,
    cumulative_gas_used: U64,
    effective_gas_price: U128,
    from: Address,
    gas_used: U64,
    logs: Vec<LogObject<'a>>,
    logs_bloom: Bloom,
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<B256>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<U64>,
    to: Option<Address>,
    /// Hash of the transaction.
    pub transaction_hash: B256,
    transaction_index: U64,
    #[serde(rename = "type")]
    tx_type: U64,
}

/// The parts of a receipt that depend on the block and on its earlier transactions.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceiptContext {
    /// Total gas used by the block's earlier transactions.
    pub gas_before: u64,
    /// Number of logs of the block's earlier transactions.
    pub logs_before: usize,
    /// Price of blob gas in the block, in wei.
    pub blob_gas_price: Option<u128>,
}

impl<'a> ReceiptObject<'a> {
    /// Creates the object of the receipt of a mined transaction.
    pub fn new(mined: &MinedTx<'_>, receipt: &'a StoredReceipt, context: ReceiptContext) -> Self {
        let (block, tx) = (mined.block, &mined.tx);
        let first = LogPosition {
            block_number: block.header.number,
            block_hash: block.hash,
            block_timestamp: block.header.timestamp,
            transaction_hash: mined.hash,
            transaction_index: mined.index,
            log_index: context.logs_before,
        };
        let logs = receipt.logs.iter().enumerate().map(|(position, log)| {
            LogObject::new(log, LogPosition { log_index: first.log_index + position, ..first })
        });
        let (root, status) = match receipt.outcome {
            ReceiptOutcome::PostState(root) => (Some(root), None),
            ReceiptOutcome::Status(succeeded) => (None, Some(U64::from(u64::from(succeeded)))),
        };
        let blob_gas = tx.blob_gas_used();
        let price = tx.effective_gas_price(block.header.base_fee_per_gas);
        Self {
            blob_gas_price: blob_gas.and(context.blob_gas_price).map(U128::from),
            blob_gas_used: blob_gas.map(U64::from),
            block_hash: block.hash,
            block_number: U64::from(block.header.number),
            contract_address: mined.created(),
            cumulative_gas_used: U64::from(receipt.cumulative_gas_used),
            effective_gas_price: U128::from(price),
            from: mined.sender,
            gas_used: U64::from(receipt.cumulative_gas_used.saturating_sub(context.gas_before)),
            logs: logs.collect(),
            logs_bloom: evm::logs_bloom(&receipt.logs),
            root,
            status,
            to: mined.to(),
            transaction_hash: mined.hash,
            transaction_index: U64::from(mined.index),
            tx_type: U64::from(mined.ty()),
        }
    }
}

/// Approximate length of the text of a log without data, in bytes.
const LOG_SIZE_HINT: usize = 750;
/// Approximate length of the text of a receipt without logs, in bytes. Almost half of it is the bloom filter.
const RECEIPT_SIZE_HINT: usize = 1200;

impl WriteJson for LogObject<'_> {
    fn write_json(&self, out: &mut Vec<u8>) {
        ObjectWriter::new(out)
            .field("address", &self.address)
            .field("topics", self.topics)
            .field("data", self.data)
            .field("blockNumber", &self.block_number)
            .field("transactionHash", &self.transaction_hash)
            .field("transactionIndex", &self.transaction_index)
            .field("blockHash", &self.block_hash)
            .field("blockTimestamp", &self.block_timestamp)
            .field("logIndex", &self.log_index)
            .field("removed", &self.removed)
            .finish();
    }

    fn size_hint(&self) -> usize {
        LOG_SIZE_HINT + 2 * self.data.len()
    }
}

impl WriteJson for ReceiptObject<'_> {
    fn write_json(&self, out: &mut Vec<u8>) {
        ObjectWriter::new(out)
            .optional_field("blobGasPrice", &self.blob_gas_price)
            .optional_field("blobGasUsed", &self.blob_gas_used)
            .field("blockHash", &self.block_hash)
            .field("blockNumber", &self.block_number)
            .field("contractAddress", &self.contract_address)
            .field("cumulativeGasUsed", &self.cumulative_gas_used)
            .field("effectiveGasPrice", &self.effective_gas_price)
            .field("from", &self.from)
            .field("gasUsed", &self.gas_used)
            .field("logs", &self.logs)
            .field("logsBloom", &self.logs_bloom)
            .optional_field("root", &self.root)
            .optional_field("status", &self.status)
            .field("to", &self.to)
            .field("transactionHash", &self.transaction_hash)
            .field("transactionIndex", &self.transaction_index)
            .field("type", &self.tx_type)
            .finish();
    }

    fn size_hint(&self) -> usize {
        RECEIPT_SIZE_HINT + self.logs.size_hint()
    }
}
