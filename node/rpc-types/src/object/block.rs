//! Blocks.

use super::TransactionObject;
use crate::text::{Fields, Put};
use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B64, B256, Bloom, Bytes, U64, U256};
use chain::block::Block;
use serde::Serialize;

/// A header. Fields a fork brought are absent before it; some are `null` while the block is pending.
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

/// The transactions of a block: hashes, or all of each.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Transactions {
    /// Hashes.
    Hashes(Vec<B256>),
    /// Whole transactions.
    Full(Vec<TransactionObject>),
}

impl<'a> HeaderObject<'a> {
    /// Shapes a header.
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
    /// The header of the pending block: as in geth, without hash, nonce and miner.
    pub fn pending(self) -> Self {
        Self { hash: None, nonce: None, miner: None, ..self }
    }
}

impl<'a> BlockObject<'a> {
    /// The pending block, see [`HeaderObject::pending`].
    pub fn pending(self) -> Self {
        Self { header: self.header.pending(), ..self }
    }

    /// Shapes a block.
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
    fn put_fields<'o>(&self, out: &'o mut Vec<u8>) -> Fields<'o> {
        let mut fields = Fields::open(out);
        fields
            .put("number", &self.number)
            .put("hash", &self.hash)
            .put("parentHash", &self.parent_hash)
            .put("nonce", &self.nonce)
            .put("sha3Uncles", &self.sha3_uncles)
            .put("logsBloom", self.logs_bloom)
            .put("transactionsRoot", &self.transactions_root)
            .put("stateRoot", &self.state_root)
            .put("receiptsRoot", &self.receipts_root)
            .put("miner", &self.miner)
            .put("difficulty", &self.difficulty)
            .put("extraData", self.extra_data)
            .put("mixHash", &self.mix_hash)
            .put("gasLimit", &self.gas_limit)
            .put("gasUsed", &self.gas_used)
            .put("timestamp", &self.timestamp)
            .maybe("baseFeePerGas", &self.base_fee_per_gas)
            .maybe("withdrawalsRoot", &self.withdrawals_root)
            .maybe("blobGasUsed", &self.blob_gas_used)
            .maybe("excessBlobGas", &self.excess_blob_gas)
            .maybe("parentBeaconBlockRoot", &self.parent_beacon_block_root)
            .maybe("requestsHash", &self.requests_hash);
        fields
    }
}

/// Bytes of a header with all fields.
const HEADER_CHARS: usize = 2048;

impl Put for HeaderObject<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        self.put_fields(out).close();
    }

    fn size_hint(&self) -> usize {
        HEADER_CHARS
    }
}

impl Put for BlockObject<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        self.header
            .put_fields(out)
            .put("size", &self.size)
            .put("transactions", &self.transactions)
            .put("uncles", &self.uncles)
            .maybe("withdrawals", &self.withdrawals)
            .close();
    }

    fn size_hint(&self) -> usize {
        HEADER_CHARS + self.transactions.size_hint()
    }
}

impl Put for Transactions {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hashes(hashes) => hashes.put(out),
            Self::Full(objects) => objects.put(out),
        }
    }

    fn size_hint(&self) -> usize {
        match self {
            Self::Hashes(hashes) => hashes.size_hint(),
            Self::Full(objects) => objects.size_hint(),
        }
    }
}
