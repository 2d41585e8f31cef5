//! Transactions in the envelopes of the Cosmos interfaces. What travels inside is the Ethereum
//! transaction, and the hash is its hash.

use super::{
    Queries, QueryError, Snapshot, envelope,
    node::signed,
    proto::{
        cosmos::{
            base::abci::v1beta1::TxResponse,
            tx::v1beta1::{BroadcastTxResponse, GetTxResponse, Tx},
        },
        tendermint::abci::{Event, EventAttribute},
    },
};
use crate::rpc::stored::{MinedTx, locate, receipts};
use alloy_consensus::Transaction as _;
use alloy_primitives::{B256, hex};
use storage::{ReceiptOutcome, StoredReceipt};

/// Hex digits of a hash.
const HASH_DIGITS: usize = 64;

impl Queries {
    /// Submits a transaction and waits for the pool's answer: a refusal is an answer too.
    ///
    /// # Errors
    /// If there are no bytes.
    pub async fn broadcast_tx(&self, bytes: Vec<u8>) -> Result<BroadcastTxResponse, QueryError> {
        if bytes.is_empty() {
            return Err(QueryError::invalid("invalid empty tx"));
        }
        let answer = match envelope::open(bytes) {
            Ok(raw) => self.pool.submit(raw).await,
            Err(reject) => Err(reject),
        };
        let tx_response = match answer {
            Ok(hash) => TxResponse { txhash: hash.to_string(), ..TxResponse::default() },
            Err(reject) => {
                let (code, raw_log) = (reject.code(), reject.log());
                let codespace = code.space.to_owned();
                TxResponse { code: code.number, codespace, raw_log, ..TxResponse::default() }
            }
        };
        Ok(BroadcastTxResponse { tx_response: Some(tx_response) })
    }
}

impl Snapshot {
    /// A mined transaction.
    ///
    /// # Errors
    /// If the hash is none, or no mined transaction has it.
    pub fn tx(&self, hash: &str) -> Result<GetTxResponse, QueryError> {
        let digits = hash.strip_prefix("0x").or_else(|| hash.strip_prefix("0X")).unwrap_or(hash);
        if digits.len() != HASH_DIGITS {
            return Err(QueryError::invalid(format!(
                "invalid hash: {} hex digits, want {HASH_DIGITS}",
                digits.len()
            )));
        }
        let parsed: B256 =
            digits.parse().map_err(|_| QueryError::invalid("invalid hash: not hex"))?;
        let not_found = || QueryError::not_found(format!("tx not found: {parsed}"));
        let (stored, index) = locate(&self.view, parsed)?.ok_or_else(not_found)?;
        if stored.block.header.number > self.number {
            return Err(not_found());
        }
        let mined = stored.tx(index)?.ok_or_else(not_found)?;
        let receipts = receipts(&self.view.blocks()?, stored.block.header.number)?;
        let raw = &stored.block.transactions[mined.index];
        let tx = envelope::close(&mined.tx, raw, mined.sender, &self.denom());
        let response = response(&mined, &receipts, &tx)?;
        Ok(GetTxResponse { tx: Some(tx), tx_response: Some(response) })
    }
}

fn response(
    mined: &MinedTx<'_>,
    receipts: &[StoredReceipt],
    tx: &Tx,
) -> Result<TxResponse, QueryError> {
    let receipt = receipts
        .get(mined.index)
        .ok_or_else(|| QueryError::internal(format_args!("{} has no receipt", mined.hash)))?;
    let before = mined.index.checked_sub(1).map_or(0, |at| receipts[at].cumulative_gas_used);
    let gas_used = receipt.cumulative_gas_used.saturating_sub(before);
    let header = &mined.block.header;
    let seconds = super::node::time(header.timestamp);
    Ok(TxResponse {
        height: signed(header.number),
        txhash: mined.hash.to_string(),
        gas_wanted: signed(mined.tx.gas_limit()),
        gas_used: signed(gas_used),
        tx: Some(envelope::any(tx)),
        timestamp: seconds.to_string(),
        events: events(mined, receipt, gas_used),
        ..TxResponse::default()
    })
}

/// The events of a message, as of spec section 2.6.
fn events(mined: &MinedTx<'_>, receipt: &StoredReceipt, gas_used: u64) -> Vec<Event> {
    let event = |kind: &str, attributes: Vec<(&str, String)>| Event {
        r#type: kind.to_owned(),
        attributes: attributes
            .into_iter()
            .map(|(key, value)| EventAttribute { key: key.to_owned(), value, index: true })
            .collect(),
    };
    let mut ethereum = vec![
        ("amount", mined.tx.value().to_string()),
        ("ethereumTxHash", mined.hash.to_string()),
        ("txIndex", mined.index.to_string()),
        ("txGasUsed", gas_used.to_string()),
    ];
    if let Some(to) = mined.tx.to() {
        ethereum.push(("recipient", to.to_checksum(None)));
    }
    if receipt.outcome == ReceiptOutcome::Status(false) {
        ethereum.push(("ethereumTxFailed", "execution reverted or out of gas".to_owned()));
    }
    let sender = hex::encode_prefixed(mined.sender);
    let message = vec![
        ("module", "evm".to_owned()),
        ("sender", sender),
        ("txType", receipt.tx_type.to_string()),
    ];
    vec![event("ethereum_tx", ethereum), event("message", message)]
}
