//! Defines the result objects of headers and blocks.

use super::TransactionObject;
use crate::text::{ObjectWriter, WriteJson};
use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B64, B256, Bloom, Bytes, U64, U256};
use chain::block::Block;
use serde::Serialize;

/// A header. Fields that a fork introduced are absent before it. Some fields are `null` in the pending block.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderObject<'a> {
    number: U64,
    hash: Option<B256>,
    parent_hash: B256,
    nonce: Option<B64>,
    sha3_uncles: B256,
    logs_bloom: &'a Bloom,
    transactions_root: B256,
    state_root: B256,
    receipts_root: B256,
    miner: Option<Address>,
    difficulty: U256,
    extra_data: &'a Bytes,
    mix_hash: B256,
    gas_limit: U64,
    gas_used: U64,
    timestamp: U64,
    #[serde(skip_serializing_if = "Option::is_none")]
    base_fee_per_gas: Option<U64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    withdrawals_root: Option<B256>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blob_gas_used: Option<U64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    excess_blob_gas: Option<U64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_beacon_block_root: Option<B256>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_hash: Option<B256>,
}

/// A block.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockObject<'a> {
    #[serde(flatten)]
    header: HeaderObject<'a>,
    size: U64,
    transactions: Transactions,
    uncles: Vec<B256>,
    #[serde(skip_serializing_if = "Option::is_none")]
    withdrawals: Option<&'a [Withdrawal]>,
}

/// The transactions of a block: only the hashes, or the whole objects.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Transactions {
    /// Hashes.
    Hashes(Vec<B256>),
    /// Whole transactions.
    Full(Vec<TransactionObject>),
}

impl<'a> HeaderObject<'a> {
    /// Creates the object of a header.
    pub fn new(hash: B256, header: &'a Header) -> Self {
        Self {
            number: U64::from(header.number),
            hash: Some(hash),
            parent_hash: header.parent_hash,
            nonce: Some(header.nonce),
            sha3_uncles: header.ommers_hash,
            logs_bloom: &header.logs_bloom,
            transactions_root: header.transactions_root,
            state_root: header.state_root,
            receipts_root: header.receipts_root,
            miner: Some(header.beneficiary),
            difficulty: header.difficulty,
            extra_data: &header.extra_data,
            mix_hash: header.mix_hash,
            gas_limit: U64::from(header.gas_limit),
            gas_used: U64::from(header.gas_used),
            timestamp: U64::from(header.timestamp),
            base_fee_per_gas: header.base_fee_per_gas.map(U64::from),
            withdrawals_root: header.withdrawals_root,
            blob_gas_used: header.blob_gas_used.map(U64::from),
            excess_blob_gas: header.excess_blob_gas.map(U64::from),
            parent_beacon_block_root: header.parent_beacon_block_root,
            requests_hash: header.requests_hash,
        }
    }
}

impl HeaderObject<'_> {
    /// Converts the header to the form of the pending block: as in geth, its hash, nonce and miner are `null`.
    pub fn pending(self) -> Self {
        Self { hash: None, nonce: None, miner: None, ..self }
    }
}

impl<'a> BlockObject<'a> {
    /// Converts the block to the form of the pending block. See [`HeaderObject::pending`].
    pub fn pending(self) -> Self {
        Self { header: self.header.pending(), ..self }
    }

    /// Creates the object of a block.
    pub fn new(block: &'a Block, transactions: Transactions) -> Self {
        Self {
            header: HeaderObject::new(block.hash, &block.header),
            size: U64::from(block.rlp_bytes),
            transactions,
            uncles: block.ommers.iter().map(|ommer| ommer.hash_slow()).collect(),
            withdrawals: block.withdrawals.as_ref().map(|list| list.as_slice()),
        }
    }
}

impl HeaderObject<'_> {
    fn write_fields<'o>(&self, out: &'o mut Vec<u8>) -> ObjectWriter<'o> {
        let mut fields = ObjectWriter::new(out);
        fields
            .field("number", &self.number)
            .field("hash", &self.hash)
            .field("parentHash", &self.parent_hash)
            .field("nonce", &self.nonce)
            .field("sha3Uncles", &self.sha3_uncles)
            .field("logsBloom", self.logs_bloom)
            .field("transactionsRoot", &self.transactions_root)
            .field("stateRoot", &self.state_root)
            .field("receiptsRoot", &self.receipts_root)
            .field("miner", &self.miner)
            .field("difficulty", &self.difficulty)
            .field("extraData", self.extra_data)
            .field("mixHash", &self.mix_hash)
            .field("gasLimit", &self.gas_limit)
            .field("gasUsed", &self.gas_used)
            .field("timestamp", &self.timestamp)
            .optional_field("baseFeePerGas", &self.base_fee_per_gas)
            .optional_field("withdrawalsRoot", &self.withdrawals_root)
            .optional_field("blobGasUsed", &self.blob_gas_used)
            .optional_field("excessBlobGas", &self.excess_blob_gas)
            .optional_field("parentBeaconBlockRoot", &self.parent_beacon_block_root)
            .optional_field("requestsHash", &self.requests_hash);
        fields
    }
}

/// Approximate length of the text of a header with all fields, in bytes.
const HEADER_SIZE_HINT: usize = 2048;

impl WriteJson for HeaderObject<'_> {
    fn write_json(&self, out: &mut Vec<u8>) {
        self.write_fields(out).finish();
    }

    fn size_hint(&self) -> usize {
        HEADER_SIZE_HINT
    }
}

impl WriteJson for BlockObject<'_> {
    fn write_json(&self, out: &mut Vec<u8>) {
        self.header
            .write_fields(out)
            .field("size", &self.size)
            .field("transactions", &self.transactions)
            .field("uncles", &self.uncles)
            .optional_field("withdrawals", &self.withdrawals)
            .finish();
    }

    fn size_hint(&self) -> usize {
        HEADER_SIZE_HINT + self.transactions.size_hint()
    }
}

impl WriteJson for Transactions {
    fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hashes(hashes) => hashes.write_json(out),
            Self::Full(objects) => objects.write_json(out),
        }
    }

    fn size_hint(&self) -> usize {
        match self {
            Self::Hashes(hashes) => hashes.size_hint(),
            Self::Full(objects) => objects.size_hint(),
        }
    }
}
