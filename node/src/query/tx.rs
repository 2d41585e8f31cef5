//! Transactions as the Cosmos interfaces show them. An Ethereum one is put into the SDK's envelope and
//! has its own hash; a Cosmos one has the SHA-256 of its bytes.

use super::{
    Queries, QueryError, Snapshot, envelope,
    node::signed,
    proto::{
        cosmos::{
            base::abci::v1beta1::{GasInfo, Result as TxResult, TxResponse},
            tx::v1beta1::{BroadcastTxResponse, GetTxResponse, SimulateResponse, Tx},
        },
        tendermint::abci::{Event, EventAttribute},
    },
};
use crate::{
    cosmos::{self, CosmosTx, Refusal, Signatures},
    decorator::CheckContext,
    execution::{BlockBuilder, FAILED_EVENT},
    feemarket::store::{Attribute, Record, StoredEvent},
    rpc::stored::{MinedTx, locate, receipts},
};
use alloy_consensus::{Header, Transaction as _};
use alloy_primitives::{B256, hex};
use sha2::{Digest, Sha256};
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
        let sent = shown(Sha256::digest(&bytes).0.into());
        let answer = match envelope::open(bytes) {
            Ok(raw) => {
                let is_cosmos = cosmos::is_cosmos(&raw);
                self.pool.submit(raw).await.map(|hash| (hash, is_cosmos))
            }
            Err(reject) => Err(reject),
        };
        let tx_response = match answer {
            Ok((_, true)) => TxResponse { txhash: sent, ..TxResponse::default() },
            Ok((hash, false)) => TxResponse { txhash: hash.to_string(), ..TxResponse::default() },
            Err(reject) => TxResponse {
                txhash: sent,
                code: reject.code().number,
                codespace: reject.code().space.to_owned(),
                raw_log: reject.log(),
                ..TxResponse::default()
            },
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
        let tx = self.shown(&mined);
        let mut response = response(&mined, &receipts, &tx)?;
        if mined.cosmos.is_some() {
            response.txhash = shown(cosmos::cosmos_hash(&mined.raw));
            self.cosmos_result(&mut response, &mined)?;
        }
        Ok(GetTxResponse { tx: Some(tx), tx_response: Some(response) })
    }
}

impl Snapshot {
    /// A mined transaction as it is shown.
    pub(super) fn shown(&self, mined: &MinedTx<'_>) -> Tx {
        match &mined.cosmos {
            None => envelope::close(&mined.tx, &mined.raw, mined.sender, &self.denom()),
            Some(cosmos) => envelope::shown(cosmos),
        }
    }

    /// What became of a mined Cosmos transaction: its events, and why it had no effect.
    fn cosmos_result(
        &self,
        response: &mut TxResponse,
        mined: &MinedTx<'_>,
    ) -> Result<(), QueryError> {
        let number = mined.block.header.number;
        let row = self.view.blocks()?.module(number)?.unwrap_or_default();
        let record = Record::from_bytes(&row).map_err(QueryError::internal)?;
        let index = mined.index.to_string();
        let of_tx = |event: &&StoredEvent| {
            event.attributes.first().is_some_and(|a| a.key == "txIndex" && a.value == index)
        };
        let events: Vec<_> = record.events.iter().filter(of_tx).collect();
        if let Some(failed) = events.iter().find(|event| event.kind == FAILED_EVENT) {
            let value = |key: &str| {
                let found = failed.attributes.iter().find(|attribute| attribute.key == key);
                found.map(|attribute| attribute.value.clone()).unwrap_or_default()
            };
            response.codespace = value("codespace");
            response.code = value("code").parse().unwrap_or(1);
            response.raw_log = value("log");
        }
        response.events = events.into_iter().map(abci_event).collect();
        Ok(())
    }

    /// Tries a Cosmos transaction on this block's state: the gas it would use, and its events.
    ///
    /// # Errors
    /// If it is none, or would have no effect.
    pub fn simulate(&self, bytes: &[u8]) -> Result<SimulateResponse, QueryError> {
        let refused = |refusal: Refusal| QueryError::invalid(refusal.to_string());
        if bytes.is_empty() {
            return Err(QueryError::invalid("empty txBytes is not allowed"));
        }
        let tx = CosmosTx::decode(bytes, Signatures::Optional).map_err(refused)?;
        let modules = self
            .modules()?
            .ok_or_else(|| QueryError::precondition("this chain has no Cosmos transactions"))?;
        let (_, parent) = self.header(self.number)?;
        let header = Header {
            number: parent.number.saturating_add(1),
            timestamp: parent.timestamp.saturating_add(1),
            ..parent
        };
        let state = self.state()?;
        let no_hash = |_: u64| None;
        let context = CheckContext::of_block(&self.spec, Some(&modules), &header);
        cosmos::check_names(&tx, &context.cosmos_facts()).map_err(refused)?;
        let builder = BlockBuilder::start(&self.spec, &state, &no_hash, Some(&modules), &header);
        let mut builder = builder.map_err(QueryError::internal)?;
        let tried = builder.try_cosmos(&tx).map_err(QueryError::internal)?;
        let (gas_used, events) = tried.map_err(refused)?;
        let events = events.iter().map(abci_event).collect();
        Ok(SimulateResponse {
            gas_info: Some(GasInfo { gas_wanted: tx.gas_limit(), gas_used }),
            result: Some(TxResult { events, ..TxResult::default() }),
        })
    }
}

/// A hash as the SDK shows one: no prefix, capital digits.
fn shown(hash: B256) -> String {
    hex::encode_upper(hash)
}

fn abci_event(event: &StoredEvent) -> Event {
    let attribute = |attribute: &Attribute| EventAttribute {
        key: attribute.key.clone(),
        value: attribute.value.clone(),
        index: true,
    };
    Event {
        r#type: event.kind.clone(),
        attributes: event.attributes.iter().map(attribute).collect(),
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
