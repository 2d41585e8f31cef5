//! Returns the events of mined transactions in the form of the SDK's modules. The events of an Ethereum transaction
//! are derived from its receipt, and those of a Cosmos transaction from its messages and from the events stored with
//! the block.

use super::{
    QueryError, Snapshot,
    proto::{
        cosmos::base::abci::v1beta1::TxResponse,
        tendermint::abci::{Event, EventAttribute},
    },
};
use alloy_consensus::{Header, Transaction as _};
use alloy_primitives::{Address, B256, U256, hex, map::HashMap};
use base64::{Engine, prelude::BASE64_STANDARD};
use chain::FEE_COLLECTOR;
use evm::FAILED_EVENT;
use feemarket::{
    self, Price,
    store::{Attribute, Record, StoredEvent},
};
use serde::Serialize;
use state::stored::{MinedTx, receipts};
use storage::{ChainReader, ReceiptOutcome, StoredReceipt};
use transactions::cosmos::{CosmosTx, Message, response_data, responses, stored_base_fee};

/// The attribute with the index of the transaction to which a stored event belongs.
const TX_INDEX: &str = "txIndex";
/// The event of an Ethereum transaction, and its attribute for the hash.
const ETHEREUM_TX: &str = "ethereum_tx";
const TX_HASH: &str = "ethereumTxHash";
/// An attribute of the event that follows the deposit event if the deposit starts the voting period.
const VOTE_OPENS: &str = "voting_period_start";

/// The event with the bloom of a block.
const BLOCK_BLOOM: &str = "block_bloom";

/// The results of the transactions of a block. They are read once for all transactions.
pub(super) struct Outcomes {
    pub(super) receipts: Vec<StoredReceipt>,
    /// For each transaction, the number of logs before its first one.
    logs_before: Vec<usize>,
    /// Stored events, by the transaction index as text.
    stored: HashMap<String, Vec<StoredEvent>>,
    /// Stored events that do not belong to a transaction.
    of_block: Vec<StoredEvent>,
}

/// Returns all events stored with a block.
fn stored_events(blocks: &ChainReader, number: u64) -> Result<Vec<StoredEvent>, QueryError> {
    let row = blocks.module(number)?.unwrap_or_default();
    if row.is_empty() {
        return Ok(Vec::new());
    }
    Ok(Record::from_bytes(&row).map_err(QueryError::internal)?.events)
}

/// Returns the events of a block that do not belong to a transaction.
pub(super) fn block_events(
    blocks: &ChainReader,
    header: &Header,
) -> Result<Vec<Event>, QueryError> {
    let mut stored = stored_events(blocks, header.number)?;
    stored.retain(|event| tx_index(event).is_none());
    Ok(with_bloom(&stored, header))
}

/// Adds the bloom event, which is derived from the header and not stored, to the stored events of a block. As in
/// cosmos/evm, the EVM comes before the fee market at the end of a block.
fn with_bloom(stored: &[StoredEvent], header: &Header) -> Vec<Event> {
    let mut events: Vec<_> = stored.iter().map(api_event).collect();
    // Modules do not run at the end of block 0.
    if header.number > 0 {
        let at = events.iter().rposition(|event| event.r#type == feemarket::Event::BLOCK_GAS);
        // Hex, because the value of an attribute is text.
        let bloom = ("bloom", header.logs_bloom.to_string());
        events.insert(at.unwrap_or(events.len()), event(BLOCK_BLOOM, &[bloom]));
    }
    events
}

/// Returns the transaction index of a stored event.
fn tx_index(event: &StoredEvent) -> Option<&str> {
    let first = event.attributes.first().filter(|first| first.key == TX_INDEX)?;
    Some(&first.value)
}

impl Outcomes {
    /// Reads the results of a block.
    pub(super) fn read(blocks: &ChainReader, number: u64) -> Result<Self, QueryError> {
        let receipts = receipts(blocks, number)?;
        let before = receipts.iter().scan(0, |before, receipt| {
            let logs_before = *before;
            *before += receipt.logs.len();
            Some(logs_before)
        });
        let logs_before = before.collect();
        let (mut stored, mut of_block) = (HashMap::<_, Vec<_>>::default(), Vec::new());
        for event in stored_events(blocks, number)? {
            match tx_index(&event).map(str::to_owned) {
                Some(index) => stored.entry(index).or_default().push(event),
                None => of_block.push(event),
            }
        }
        Ok(Self { receipts, logs_before, stored, of_block })
    }

    /// Returns the events of the block with this header that do not belong to a transaction.
    pub(super) fn block_events(&self, header: &Header) -> Vec<Event> {
        with_bloom(&self.of_block, header)
    }
}

fn event(kind: &str, attributes: &[(&str, String)]) -> Event {
    let attribute = |(key, value): &(&str, String)| EventAttribute {
        key: (*key).to_owned(),
        value: value.clone(),
        index: true,
    };
    Event { r#type: kind.to_owned(), attributes: attributes.iter().map(attribute).collect() }
}

/// Converts a stored event to the API's form.
pub(super) fn api_event(event: &StoredEvent) -> Event {
    let attribute = |attribute: &Attribute| EventAttribute {
        key: attribute.key.clone(),
        value: attribute.value.clone(),
        index: true,
    };
    let attributes = event.attributes.iter().filter(|attribute| attribute.key != TX_INDEX);
    Event { r#type: event.kind.clone(), attributes: attributes.map(attribute).collect() }
}

/// A log in an attribute of the event `tx_log`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TxLog<'a> {
    address: String,
    topics: &'a [B256],
    data: String,
    block_number: u64,
    transaction_hash: B256,
    transaction_index: usize,
    block_hash: B256,
    log_index: usize,
}

/// Returns the events of an Ethereum transaction; `denom` is the name of the wei.
pub(super) fn ethereum(
    mined: &MinedTx<'_>,
    outcomes: &Outcomes,
    receipt: &StoredReceipt,
    gas_used: u64,
    denom: &str,
) -> Vec<Event> {
    let logs_before = outcomes.logs_before.get(mined.index).copied().unwrap_or_default();
    let mut ethereum = vec![
        ("amount", mined.tx.value().to_string()),
        (TX_HASH, mined.hash.to_string()),
        (TX_INDEX, mined.index.to_string()),
        ("txGasUsed", gas_used.to_string()),
    ];
    if let Some(to) = mined.to() {
        ethereum.push(("recipient", to.to_checksum(None)));
    }
    if receipt.outcome == ReceiptOutcome::Status(false) {
        ethereum.push(("ethereumTxFailed", "execution reverted or out of gas".to_owned()));
    }
    let logs = receipt.logs.iter().enumerate().map(|(position, log)| {
        let log = TxLog {
            address: log.address.to_checksum(None),
            topics: log.topics(),
            data: BASE64_STANDARD.encode(&log.data.data),
            block_number: mined.block.header.number,
            transaction_hash: mined.hash,
            transaction_index: mined.index,
            block_hash: mined.block.hash,
            log_index: logs_before + position,
        };
        ("txLog", serde_json::to_string(&log).expect("plain structures serialize"))
    });
    let logs: Vec<_> = logs.collect();
    let message = [
        ("module", "evm".to_owned()),
        ("sender", hex::encode_prefixed(mined.sender)),
        ("txType", receipt.tx_type.to_string()),
    ];
    let mut events = ethereum_ante(mined, denom);
    events.push(event(ETHEREUM_TX, &ethereum));
    if !logs.is_empty() {
        events.push(event("tx_log", &logs));
    }
    events.push(event("message", &message));
    events
}

/// Returns the events that the checks of an Ethereum transaction emit: the fee for its whole gas limit, which is
/// deducted before it runs, and its hash and index, so that searches also find failed transactions.
fn ethereum_ante(mined: &MinedTx<'_>, denom: &str) -> Vec<Event> {
    let base_fee = mined.block.header.base_fee_per_gas.unwrap_or_default();
    let price = Price::of(&mined.tx).effective(u128::from(base_fee));
    let fee = feemarket::fee(mined.tx.gas_limit(), price);
    // The SDK writes an empty list of coins as an empty string.
    let fee = if fee.is_zero() { String::new() } else { format!("{fee}{denom}") };
    let identity = [(TX_HASH, mined.hash.to_string()), (TX_INDEX, mined.index.to_string())];
    vec![event("tx", &[("fee", fee)]), event(ETHEREUM_TX, &identity)]
}

impl Snapshot {
    /// Adds the result of a mined Cosmos transaction: its events, and the responses to its messages or the
    /// reason why it failed.
    pub(super) fn add_cosmos_result(
        &self,
        response: &mut TxResponse,
        mined: &MinedTx<'_>,
        outcomes: &Outcomes,
        tx: &CosmosTx,
    ) -> Result<(), QueryError> {
        let stored = outcomes.stored.get(&mined.index.to_string());
        let stored = stored.map(Vec::as_slice).unwrap_or_default();
        let header = &mined.block.header;
        let header_fee = header.base_fee_per_gas.unwrap_or_default();
        let base_fee = stored_base_fee(&self.spec, header.number, header_fee, &outcomes.of_block);
        let charge = tx.charge(base_fee, &self.denom()).map_err(QueryError::internal)?;
        response.events = self.ante_events(tx, charge.amount);
        match stored.iter().find(|event| event.kind == FAILED_EVENT) {
            Some(failed) => {
                let value = |key: &str| {
                    let found = failed.attributes.iter().find(|attribute| attribute.key == key);
                    found.map(|attribute| attribute.value.clone()).unwrap_or_default()
                };
                response.codespace = value("codespace");
                response.code = value("code").parse().unwrap_or(1);
                response.raw_log = value("log");
            }
            None => {
                response.data = hex::encode_upper(response_data(responses(&tx.messages, stored)));
                response.events.extend(self.message_events(&tx.messages, stored));
            }
        }
        Ok(())
    }

    /// Returns the events that the checks of a Cosmos transaction emit: its fee in the base unit of the token, the fee
    /// payer, the sequence and the signature.
    fn ante_events(&self, tx: &CosmosTx, fee: U256) -> Vec<Event> {
        let (payer, fee) = (self.bech32(tx.signer.address), self.coin(&fee.to_string()));
        let sequence = format!("{payer}/{}", tx.sequence());
        let signature = BASE64_STANDARD.encode(tx.signature);
        let mut events = self.moved(&payer, &self.bech32(FEE_COLLECTOR), &fee);
        events.extend([
            event("tx", &[("fee", fee), ("fee_payer", payer)]),
            event("tx", &[("acc_seq", sequence)]),
            event("tx", &[("signature", signature)]),
        ]);
        events
    }

    /// Returns the events of successful messages, each with the index of its message.
    pub(super) fn message_events(
        &self,
        messages: &[Message],
        stored: &[StoredEvent],
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let mut stored = stored.iter().peekable();
        for (index, message) in messages.iter().enumerate() {
            let sender = self.bech32(message.signer().address);
            let mut of_message = vec![event(
                "message",
                &[
                    ("action", message.type_url()),
                    ("sender", sender),
                    ("module", message.module().to_owned()),
                ],
            )];
            of_message.extend(self.converted(stored.next()));
            of_message.extend(self.converted(stored.next_if(|next| opens_vote(next))));
            let attribute = |event: &mut Event| {
                let (key, value) = ("msg_index".to_owned(), index.to_string());
                event.attributes.push(EventAttribute { key, value, index: true });
            };
            of_message.iter_mut().for_each(attribute);
            events.append(&mut of_message);
        }
        events
    }

    /// Converts a stored event. A transfer becomes the four events of the module `bank`.
    fn converted(&self, stored: Option<&StoredEvent>) -> Vec<Event> {
        let Some(stored) = stored else { return Vec::new() };
        let value = |key: &str| {
            let found = stored.attributes.iter().find(|attribute| attribute.key == key);
            found.map(|attribute| attribute.value.as_str()).unwrap_or_default()
        };
        if stored.kind == "transfer" {
            return self.moved(value("sender"), value("recipient"), &self.coin(value("amount")));
        }
        let mut event = api_event(stored);
        for attribute in event.attributes.iter_mut().filter(|attribute| attribute.key == "amount") {
            attribute.value = self.coin(&attribute.value);
        }
        vec![event]
    }

    /// Returns the events of the module `bank` for a transfer.
    fn moved(&self, from: &str, to: &str, amount: &str) -> Vec<Event> {
        let (from, to, amount) = (from.to_owned(), to.to_owned(), amount.to_owned());
        vec![
            event("coin_spent", &[("spender", from.clone()), ("amount", amount.clone())]),
            event("coin_received", &[("receiver", to.clone()), ("amount", amount.clone())]),
            event("transfer", &[("recipient", to), ("sender", from.clone()), ("amount", amount)]),
            event("message", &[("sender", from)]),
        ]
    }

    /// Appends the name of the token to an amount.
    fn coin(&self, amount: &str) -> String {
        format!("{amount}{}", self.denom())
    }

    /// Parses an address in an event or a condition, in any format.
    pub(super) fn address_in(&self, text: &str) -> Option<Address> {
        self.address(text).ok()
    }
}

fn opens_vote(event: &StoredEvent) -> bool {
    event.attributes.iter().any(|attribute| attribute.key == VOTE_OPENS)
}
