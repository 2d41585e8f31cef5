//! Receipts and logs.

use crate::text::{Fields, Put};
use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, B256, Bloom, Bytes, Log, U64, U128};
use serde::Serialize;
use state::stored::MinedTx;
use storage::{ReceiptOutcome, StoredReceipt};

/// A log. `removed` is always false: no block is ever taken back.
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

/// Where a log is.
#[derive(Clone, Copy, Debug)]
pub struct LogPlace {
    /// Number of the block.
    pub block_number: u64,
    /// Its hash.
    pub block_hash: B256,
    /// Its time, in seconds.
    pub block_timestamp: u64,
    /// Hash of the transaction.
    pub transaction_hash: B256,
    /// Its index in the block.
    pub transaction_index: usize,
    /// Position among all logs of the block.
    pub log_index: usize,
}

impl<'a> LogObject<'a> {
    /// Shapes a log.
    pub fn new(log: &'a Log, place: LogPlace) -> Self {
        Self {
            address: log.address,
            topics: log.topics(),
            data: &log.data.data,
            block_number: U64::from(place.block_number),
            transaction_hash: place.transaction_hash,
            transaction_index: U64::from(place.transaction_index),
            block_hash: place.block_hash,
            block_timestamp: U64::from(place.block_timestamp),
            log_index: U64::from(place.log_index),
            removed: false,
        }
    }
}

/// A receipt: `root` before Byzantium, `status` since; blob fields for blob transactions only.
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

/// What a receipt takes from the transactions before it, and from its block.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceiptPlace {
    /// Gas used by the block's earlier transactions.
    pub gas_before: u64,
    /// Logs of the block's earlier transactions.
    pub logs_before: usize,
    /// Price of blob gas in the block, in wei.
    pub blob_gas_price: Option<u128>,
}

impl<'a> ReceiptObject<'a> {
    /// Shapes the receipt of a mined transaction.
    pub fn new(mined: &MinedTx<'_>, receipt: &'a StoredReceipt, place: ReceiptPlace) -> Self {
        let (block, tx) = (mined.block, &mined.tx);
        let first = LogPlace {
            block_number: block.header.number,
            block_hash: block.hash,
            block_timestamp: block.header.timestamp,
            transaction_hash: mined.hash,
            transaction_index: mined.index,
            log_index: place.logs_before,
        };
        let logs = receipt.logs.iter().enumerate().map(|(position, log)| {
            LogObject::new(log, LogPlace { log_index: first.log_index + position, ..first })
        });
        let (root, status) = match receipt.outcome {
            ReceiptOutcome::PostState(root) => (Some(root), None),
            ReceiptOutcome::Status(succeeded) => (None, Some(U64::from(u64::from(succeeded)))),
        };
        let blob_gas = tx.blob_gas_used();
        let price = tx.effective_gas_price(block.header.base_fee_per_gas);
        Self {
            blob_gas_price: blob_gas.and(place.blob_gas_price).map(U128::from),
            blob_gas_used: blob_gas.map(U64::from),
            block_hash: block.hash,
            block_number: U64::from(block.header.number),
            contract_address: mined.created(),
            cumulative_gas_used: U64::from(receipt.cumulative_gas_used),
            effective_gas_price: U128::from(price),
            from: mined.sender,
            gas_used: U64::from(receipt.cumulative_gas_used.saturating_sub(place.gas_before)),
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

/// Bytes of a log without data.
const LOG_CHARS: usize = 750;
/// Bytes of a receipt without logs; the bloom is most of it.
const RECEIPT_CHARS: usize = 1200;

impl Put for LogObject<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        Fields::open(out)
            .put("address", &self.address)
            .put("topics", self.topics)
            .put("data", self.data)
            .put("blockNumber", &self.block_number)
            .put("transactionHash", &self.transaction_hash)
            .put("transactionIndex", &self.transaction_index)
            .put("blockHash", &self.block_hash)
            .put("blockTimestamp", &self.block_timestamp)
            .put("logIndex", &self.log_index)
            .put("removed", &self.removed)
            .close();
    }

    fn size_hint(&self) -> usize {
        LOG_CHARS + 2 * self.data.len()
    }
}

impl Put for ReceiptObject<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        Fields::open(out)
            .maybe("blobGasPrice", &self.blob_gas_price)
            .maybe("blobGasUsed", &self.blob_gas_used)
            .put("blockHash", &self.block_hash)
            .put("blockNumber", &self.block_number)
            .put("contractAddress", &self.contract_address)
            .put("cumulativeGasUsed", &self.cumulative_gas_used)
            .put("effectiveGasPrice", &self.effective_gas_price)
            .put("from", &self.from)
            .put("gasUsed", &self.gas_used)
            .put("logs", &self.logs)
            .put("logsBloom", &self.logs_bloom)
            .maybe("root", &self.root)
            .maybe("status", &self.status)
            .put("to", &self.to)
            .put("transactionHash", &self.transaction_hash)
            .put("transactionIndex", &self.transaction_index)
            .put("type", &self.tx_type)
            .close();
    }

    fn size_hint(&self) -> usize {
        RECEIPT_CHARS + self.logs.size_hint()
    }
}
