//! Defines the result objects of mined and pending transactions.

use crate::text::{ObjectWriter, WriteJson};
use alloy_consensus::{Transaction as _, Typed2718};
use alloy_eips::{eip2930::AccessList, eip7702::SignedAuthorization};
use alloy_primitives::{Address, B256, Bytes, U64, U128, U256};
use serde::Serialize;
use transactions::{RecoveredTx, Transaction, cosmos::TX_TYPE};

/// A transaction. The fields of its block are `null` while it is pending. Fields that its type does not have are
/// absent.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TransactionObject {
    block_hash: Option<B256>,
    block_number: Option<U64>,
    block_timestamp: Option<U64>,
    from: Address,
    gas: U64,
    gas_price: U128,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_fee_per_gas: Option<U128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_priority_fee_per_gas: Option<U128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_fee_per_blob_gas: Option<U128>,
    hash: B256,
    input: Bytes,
    nonce: U64,
    to: Option<Address>,
    transaction_index: Option<U64>,
    value: U256,
    #[serde(rename = "type")]
    tx_type: U64,
    #[serde(skip_serializing_if = "Option::is_none")]
    access_list: Option<AccessList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chain_id: Option<U64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blob_versioned_hashes: Option<Vec<B256>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authorization_list: Option<Vec<SignedAuthorization>>,
    v: U128,
    r: U256,
    s: U256,
    #[serde(skip_serializing_if = "Option::is_none")]
    y_parity: Option<U64>,
}

/// `v` of a legacy transaction without a chain id is this number plus the parity.
const V_UNPROTECTED: u64 = 27;
/// `v` of a legacy transaction with a chain id is twice the id plus this number plus the parity (EIP-155).
const V_PROTECTED: u64 = 35;

impl TransactionObject {
    /// Creates the object of a transaction that is not signed yet.
    pub fn unsigned(tx: &Transaction, hash: B256, sender: Address) -> Self {
        let chain_id = None;
        Self { v: U128::ZERO, chain_id, ..Self::pending(tx, hash, sender) }
    }

    /// Creates the object of a pending transaction. `gasPrice` is the maximum price that the transaction pays.
    pub fn pending(tx: &Transaction, hash: B256, sender: Address) -> Self {
        let dynamic = tx.is_dynamic_fee();
        let signature = tx.signature();
        let parity = u64::from(signature.v());
        let v = match (tx.is_legacy(), tx.chain_id()) {
            (true, Some(id)) => U128::from(id) * U128::from(2) + U128::from(V_PROTECTED + parity),
            (true, None) => U128::from(V_UNPROTECTED + parity),
            (false, _) => U128::from(parity),
        };
        Self {
            block_hash: None,
            block_number: None,
            block_timestamp: None,
            from: sender,
            gas: U64::from(tx.gas_limit()),
            gas_price: U128::from(tx.max_fee_per_gas()),
            max_fee_per_gas: dynamic.then(|| U128::from(tx.max_fee_per_gas())),
            max_priority_fee_per_gas: tx.max_priority_fee_per_gas().map(U128::from),
            max_fee_per_blob_gas: tx.max_fee_per_blob_gas().map(U128::from),
            hash,
            input: tx.input().clone(),
            nonce: U64::from(tx.nonce()),
            to: tx.to(),
            transaction_index: None,
            value: tx.value(),
            tx_type: U64::from(tx.ty()),
            access_list: tx.access_list().cloned(),
            chain_id: tx.chain_id().map(U64::from),
            blob_versioned_hashes: tx.blob_versioned_hashes().map(<[B256]>::to_vec),
            authorization_list: tx.authorization_list().map(<[SignedAuthorization]>::to_vec),
            v,
            r: signature.r(),
            s: signature.s(),
            y_parity: (!tx.is_legacy()).then(|| U64::from(parity)),
        }
    }

    /// Creates the object of a pending transaction, which may be a Cosmos transaction.
    pub fn pooled(tx: &RecoveredTx) -> Self {
        Self::pending(&tx.tx, tx.hash, tx.sender).or_cosmos(tx.cosmos.as_ref().map(|_| &tx.raw))
    }

    /// Completes an object that was created from the Ethereum form of a Cosmos transaction: the type becomes that of
    /// Cosmos transactions, and the input becomes the encoded `TxRaw`. `raw` is `None` for other transactions.
    fn or_cosmos(self, raw: Option<&Bytes>) -> Self {
        let Some(raw) = raw else { return self };
        let tx_type = U64::from(TX_TYPE);
        Self { tx_type, input: raw.slice(1..), chain_id: None, ..self }
    }

    /// Creates the object of a mined transaction. `gasPrice` is the price that the transaction paid.
    pub fn mined(mined: &state::stored::MinedTx<'_>) -> Self {
        let header = &mined.block.header;
        let price = mined.tx.effective_gas_price(header.base_fee_per_gas);
        Self {
            block_hash: Some(mined.block.hash),
            block_number: Some(U64::from(header.number)),
            block_timestamp: Some(U64::from(header.timestamp)),
            transaction_index: Some(U64::from(mined.index)),
            gas_price: U128::from(price),
            ..Self::pending(&mined.tx, mined.hash, mined.sender)
        }
        .or_cosmos(mined.cosmos.as_ref().map(|_| &mined.raw))
    }
}

/// Approximate length of the text of a transaction without input, in bytes.
const TX_SIZE_HINT: usize = 900;

impl WriteJson for TransactionObject {
    fn write_json(&self, out: &mut Vec<u8>) {
        ObjectWriter::new(out)
            .field("blockHash", &self.block_hash)
            .field("blockNumber", &self.block_number)
            .field("blockTimestamp", &self.block_timestamp)
            .field("from", &self.from)
            .field("gas", &self.gas)
            .field("gasPrice", &self.gas_price)
            .optional_field("maxFeePerGas", &self.max_fee_per_gas)
            .optional_field("maxPriorityFeePerGas", &self.max_priority_fee_per_gas)
            .optional_field("maxFeePerBlobGas", &self.max_fee_per_blob_gas)
            .field("hash", &self.hash)
            .field("input", &self.input)
            .field("nonce", &self.nonce)
            .field("to", &self.to)
            .field("transactionIndex", &self.transaction_index)
            .field("value", &self.value)
            .field("type", &self.tx_type)
            .optional_field("accessList", &self.access_list)
            .optional_field("chainId", &self.chain_id)
            .optional_field("blobVersionedHashes", &self.blob_versioned_hashes)
            .optional_field("authorizationList", &self.authorization_list)
            .field("v", &self.v)
            .field("r", &self.r)
            .field("s", &self.s)
            .optional_field("yParity", &self.y_parity)
            .finish();
    }

    fn size_hint(&self) -> usize {
        TX_SIZE_HINT + 2 * self.input.len()
    }
}
