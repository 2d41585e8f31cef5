//! The methods that return or submit single transactions.

use super::{blocks::receipt_of, submit::submit};
use crate::{
    method::{Answer, Call, json, write_json},
    services::{ResponseKey, ResponseSubject},
};
use alloy_primitives::{Address, B256, Bytes, U64, keccak256};
use pipeline::Found;
use rpc_types::{
    PendingDetail,
    block_id::{BlockId, BlockTag},
    error::Error,
    object::TransactionObject,
    params::Number,
    text::Json,
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use state::{
    parties,
    stored::{OneTx, raw_tx},
};
use std::time::Duration;

/// Finds a mined or pooled transaction.
pub(super) async fn by_hash(call: Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    if let Some(answer) = mined(&call, hash)? {
        return Ok(answer);
    }
    match call.context.pool.transaction(hash).await? {
        Found::Pooled(tx) => write_json(&TransactionObject::pooled(&tx)),
        Found::NotPooled { .. } if call.context.forwarder.is_some() => {
            from_source(call, hash).await
        }
        Found::NotPooled { built } => {
            let call = at_block(call, built).await;
            mined(&call, hash)?.map_or_else(|| Ok(Json::fixed("null")), Ok)
        }
    }
}

/// Asks the source that this node follows for a transaction that the node does not know. If the source has it in a
/// block that this node does not have yet, the response shows it as pending.
async fn from_source(call: Call, hash: B256) -> Answer {
    let found = forward(&call, "eth_getTransactionByHash").await?;
    let mut tx: Value = serde_json::from_slice(found.bytes()).map_err(Error::internal)?;
    if tx.is_null() {
        return Ok(found);
    }
    if tx["hash"] != hash.to_string() {
        return Err(Error::server(format!("the source returned another transaction than {hash}")));
    }
    if let Ok(number) = U64::deserialize(&tx["blockNumber"]) {
        let call = at_block(call, number.to()).await;
        if let Some(answer) = mined(&call, hash)? {
            return Ok(answer);
        }
        for field in ["blockHash", "blockNumber", "blockTimestamp", "transactionIndex"] {
            tx[field] = Value::Null;
        }
    }
    json(&tx)
}

/// Like [`from_source`], but for the encoding of the transaction.
async fn raw_from_source(call: Call, hash: B256) -> Answer {
    let found = forward(&call, "eth_getRawTransactionByHash").await?;
    let raw: Option<Bytes> = serde_json::from_slice(found.bytes()).map_err(Error::internal)?;
    match raw {
        Some(raw) if keccak256(&raw) != hash => {
            Err(Error::server(format!("the source returned another transaction than {hash}")))
        }
        _ => Ok(found),
    }
}

/// Forwards a call to the source.
async fn forward(call: &Call, method: &'static str) -> Answer {
    let forwarder = call.context.forwarder.as_ref().expect("the caller has checked this");
    forwarder.call(method, call.params.clone()).await
}

/// Maximum wait until an executed block is published. Most take milliseconds, but some wait for the disk.
const BUILT_WAIT: Duration = Duration::from_secs(1);

/// Waits for the view that contains the block `built`. A mined transaction that the pool no longer contains is in that
/// block or an earlier one.
async fn at_block(call: Call, built: u64) -> Call {
    let mut heads = call.context.published.heads();
    // This times out only if the disk is slow or the node stops.
    let _ = tokio::time::timeout(BUILT_WAIT, heads.wait_for(|head| *head >= built)).await;
    Call { view: call.context.published.load(), ..call }
}

fn mined(call: &Call, hash: B256) -> Result<Option<Json>, Error> {
    let Some((number, index)) = call.view.tx_location(hash)? else { return Ok(None) };
    let subject = ResponseSubject::Transaction(number, index);
    let (answers, key) = (&call.services.responses, ResponseKey::new(&call.view, subject));
    if let Some(answer) = answers.get(&key) {
        return Ok(Some(answer));
    }
    let tx = OneTx::read(&call.context.spec, &call.view.blocks()?, number, index)?;
    Ok(Some(answers.insert(key, Json::write(&TransactionObject::mined(&tx.mined())))))
}

pub(super) fn by_block_hash_and_index(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let hash: B256 = arguments.required()?;
    at_index(call, BlockId::Hash(hash), arguments.required()?)
}

pub(super) fn by_block_number_and_index(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let tag: BlockTag = arguments.required()?;
    at_index(call, BlockId::Tag(tag), arguments.required()?)
}

fn at_index(call: &Call, id: BlockId, index: u64) -> Answer {
    if id.is_pending() {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let tx = call.pending(PendingDetail::Roots)?.stored().tx(index)?;
        return write_json(&tx.map(|tx| TransactionObject::mined(&tx)));
    }
    let Some(number) = call.find(id)? else { return Ok(Json::fixed("null")) };
    let tx = OneTx::at(&call.context.spec, &call.view.blocks()?, number, index)?;
    write_json(&tx.map(|tx| TransactionObject::mined(&tx.mined())))
}

pub(super) fn by_sender_and_nonce(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let sender: Address = arguments.required()?;
    let found = parties::sent(&call.context.spec, &call.view, sender, arguments.required()?)?;
    let tx = found.map(|(block, index)| {
        Ok::<_, Error>(block.tx(index)?.map(|tx| TransactionObject::mined(&tx)))
    });
    write_json(&tx.transpose()?.flatten())
}

/// Maximum bytes of the receipts of a block that are decoded inline. A block full of transfers has half of that, but
/// one full of logs has megabytes.
const MAX_INLINE_RECEIPTS_BYTES: usize = 256 * 1024;

/// The result of a search for the receipt of a transaction.
enum Receipt {
    Found(Json),
    /// The transaction is not mined.
    NotMined,
    /// The receipt is not cached, and the receipts of its block exceed the maximum length.
    TooLarge,
}

impl Receipt {
    /// Finds the receipt of a transaction, unless it is not cached and the receipts of its block exceed `max_bytes`.
    fn within(max_bytes: usize, call: &Call, hash: B256) -> Result<Self, Error> {
        let Some((number, index)) = call.view.tx_location(hash)? else { return Ok(Self::NotMined) };
        let subject = ResponseSubject::Receipt(number, index);
        let (answers, key) = (&call.services.responses, ResponseKey::new(&call.view, subject));
        if let Some(answer) = answers.get(&key) {
            return Ok(Self::Found(answer));
        }
        let blocks = call.view.blocks()?;
        if blocks.receipts_bytes(number)? > max_bytes {
            return Ok(Self::TooLarge);
        }
        let tx = OneTx::read(&call.context.spec, &blocks, number, index)?;
        let receipt = receipt_of(call, &blocks, &tx.mined())?;
        Ok(Self::Found(answers.insert(key, receipt)))
    }
}

/// Returns the receipt, or `null` for unknown and pending transactions.
pub(super) fn receipt(call: &Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    Ok(receipt_at(call, hash)?.unwrap_or(Json::fixed("null")))
}

/// Returns the receipt, or `None` if the receipts of its block are large.
pub(super) fn receipt_inline(call: &Call) -> Result<Option<Json>, Error> {
    let hash: B256 = call.arguments()?.required()?;
    Ok(match Receipt::within(MAX_INLINE_RECEIPTS_BYTES, call, hash)? {
        Receipt::Found(receipt) => Some(receipt),
        Receipt::NotMined => Some(Json::fixed("null")),
        Receipt::TooLarge => None,
    })
}

fn receipt_at(call: &Call, hash: B256) -> Result<Option<Json>, Error> {
    match Receipt::within(usize::MAX, call, hash)? {
        Receipt::Found(receipt) => Ok(Some(receipt)),
        Receipt::NotMined | Receipt::TooLarge => Ok(None),
    }
}

/// Returns the logs in the receipt of a mined transaction.
pub(super) fn logs(call: &Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    receipt_at(call, hash)?.map_or(Ok(Json::fixed("null")), |receipt| logs_in(&receipt))
}

/// Returns the logs, or `None` if the receipts of the block are large.
pub(super) fn logs_inline(call: &Call) -> Result<Option<Json>, Error> {
    let hash: B256 = call.arguments()?.required()?;
    match Receipt::within(MAX_INLINE_RECEIPTS_BYTES, call, hash)? {
        Receipt::Found(receipt) => logs_in(&receipt).map(Some),
        Receipt::NotMined => Ok(Some(Json::fixed("null"))),
        Receipt::TooLarge => Ok(None),
    }
}

fn logs_in(receipt: &Json) -> Answer {
    let Logs { logs } = serde_json::from_slice(receipt.bytes()).map_err(Error::internal)?;
    Ok(Json::from_text(logs.get()))
}

/// The logs in the JSON text of a receipt.
#[derive(Deserialize)]
struct Logs<'a> {
    #[serde(borrow)]
    logs: &'a RawValue,
}

pub(super) async fn send_raw(call: Call) -> Answer {
    let raw: Bytes = call.arguments()?.required()?;
    write_json(&submit(&call, raw).await?)
}

/// Maximum wait for a receipt, in milliseconds.
const MAX_SYNC_MS: u64 = 30_000;
/// Default wait for a receipt in milliseconds, as EIP-7966 recommends.
const DEFAULT_SYNC_MS: u64 = 2_000;
/// Error code of EIP-7966: the transaction was submitted, but not mined in time.
const SYNC_TIMEOUT: i32 = 4;

/// Returns the time to wait for a receipt. By EIP-7966, an invalid timeout, such as 0, means the default.
fn wait_ms(timeout: Option<Number>) -> u64 {
    match timeout {
        None | Some(Number(0)) => DEFAULT_SYNC_MS,
        Some(Number(ms)) => ms.min(MAX_SYNC_MS),
    }
}

pub(super) async fn send_raw_sync(call: Call) -> Answer {
    let (raw, ms) = {
        let mut arguments = call.arguments()?;
        let raw: Bytes = arguments.required()?;
        (raw, wait_ms(arguments.optional()?))
    };
    let mut heads = call.context.published.heads();
    let hash = submit(&call, raw).await?;
    let deadline = tokio::time::Instant::now() + Duration::from_millis(ms);
    loop {
        let now = Call { view: call.context.published.load(), ..call.clone() };
        if let Some(receipt) = receipt_at(&now, hash)? {
            return Ok(receipt);
        }
        if !matches!(tokio::time::timeout_at(deadline, heads.changed()).await, Ok(Ok(()))) {
            let message = format!("transaction {hash} was not mined within {ms} ms");
            return Err(Error::coded(SYNC_TIMEOUT, message).with_data(&hash));
        }
    }
}

/// Returns the encoding of a mined or pooled transaction.
pub async fn raw_by_hash(call: Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    if let Some(raw) = raw_mined(&call, hash)? {
        return write_json(&raw);
    }
    match call.context.pool.transaction(hash).await? {
        Found::Pooled(tx) => write_json(&tx.raw),
        Found::NotPooled { .. } if call.context.forwarder.is_some() => {
            raw_from_source(call, hash).await
        }
        Found::NotPooled { built } => write_json(&raw_mined(&at_block(call, built).await, hash)?),
    }
}

fn raw_mined(call: &Call, hash: B256) -> Result<Option<Bytes>, Error> {
    let Some((number, index)) = call.view.tx_location(hash)? else { return Ok(None) };
    Ok(Some(OneTx::read(&call.context.spec, &call.view.blocks()?, number, index)?.mined().raw))
}

pub(super) fn raw_by_block_hash_and_index(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let hash: B256 = arguments.required()?;
    raw_at(call, BlockId::Hash(hash), arguments.required()?)
}

pub(super) fn raw_by_block_number_and_index(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let tag: BlockTag = arguments.required()?;
    raw_at(call, BlockId::Tag(tag), arguments.required()?)
}

fn raw_at(call: &Call, id: BlockId, index: u64) -> Answer {
    let Some(number) = call.find(id)? else { return Ok(Json::fixed("null")) };
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    if let Some(pending) = &call.pending {
        return write_json(&pending.stored().block.transactions.get(index));
    }
    write_json(&raw_tx(&call.view.blocks()?, number, index)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_of_zero_means_the_default_and_a_long_one_the_maximum() {
        let cases = [(None, 2_000), (Some(0), 2_000), (Some(1), 1)];
        let limits = [(Some(29_999), 29_999), (Some(30_000), 30_000), (Some(30_001), 30_000)];
        for (timeout, ms) in cases.into_iter().chain(limits) {
            assert_eq!(wait_ms(timeout.map(Number)), ms, "{timeout:?}");
        }
    }
}
