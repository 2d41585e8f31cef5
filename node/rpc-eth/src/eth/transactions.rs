//! Single transactions: where they are, and sending them.

use super::{blocks::receipt_of, wide_raw};
use crate::{
    method::{Answer, Call, put},
    services::Question,
};
use alloy_primitives::{Address, B256, Bytes};
use modules::decorator::Reject;
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
use serde_json::value::RawValue;
use state::{
    parties,
    stored::{OneTx, raw_tx},
};
use std::time::Duration;

/// Mined, or waiting in the pool.
pub(super) async fn by_hash(call: Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    if let Some(answer) = mined(&call, hash)? {
        return Ok(answer);
    }
    match call.context.pool.transaction(hash).await? {
        Found::Pooled(tx) => put(&TransactionObject::pooled(&tx)),
        Found::NotPooled { built } => {
            let call = later(call, built).await;
            mined(&call, hash)?.map_or_else(|| Ok(Json::fixed("null")), Ok)
        }
    }
}

/// The longest wait for a block that is built to be published: most take milliseconds, some wait for
/// the disk.
const BUILT_WAIT: Duration = Duration::from_secs(1);

/// The call over the newest view, which has the block `built`: what was not pooled has left the pool for
/// that one at the latest.
async fn later(call: Call, built: u64) -> Call {
    let mut heads = call.context.published.heads();
    // In vain only if the disk is slow, or the node ends.
    let _ = tokio::time::timeout(BUILT_WAIT, heads.wait_for(|head| *head >= built)).await;
    Call { view: call.context.published.load(), ..call }
}

fn mined(call: &Call, hash: B256) -> Result<Option<Json>, Error> {
    let Some((number, index)) = call.view.tx_location(hash)? else { return Ok(None) };
    let (answers, question) = (&call.services.answers, Question::Transaction(number, index));
    if let Some(answer) = answers.get(&question) {
        return Ok(Some(answer));
    }
    let tx = OneTx::read(&call.context.spec, &call.view.blocks()?, number, index)?;
    Ok(Some(answers.keep(question, Json::put(&TransactionObject::mined(&tx.mined())))))
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
        return put(&tx.map(|tx| TransactionObject::mined(&tx)));
    }
    let Some(number) = call.find(id)? else { return Ok(Json::fixed("null")) };
    let tx = OneTx::at(&call.context.spec, &call.view.blocks()?, number, index)?;
    put(&tx.map(|tx| TransactionObject::mined(&tx.mined())))
}

pub(super) fn by_sender_and_nonce(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let sender: Address = arguments.required()?;
    let found = parties::sent(&call.context.spec, &call.view, sender, arguments.required()?)?;
    let tx = found.map(|(block, index)| {
        Ok::<_, Error>(block.tx(index)?.map(|tx| TransactionObject::mined(&tx)))
    });
    put(&tx.transpose()?.flatten())
}

/// Bytes of a block's receipts that are decoded where the socket is served. A block full of transfers has
/// half as many; one full of logs has megabytes.
const RECEIPTS_AT_ONCE: usize = 256 * 1024;

/// The receipt of a transaction.
enum Receipt {
    Found(Json),
    /// The transaction is not mined.
    NotMined,
    /// It is not cached, and the receipts of its block have more bytes than may be decoded.
    TooLarge,
}

impl Receipt {
    /// The receipt of a transaction in a block whose receipts have up to `max_bytes`.
    fn within(max_bytes: usize, call: &Call, hash: B256) -> Result<Self, Error> {
        let Some((number, index)) = call.view.tx_location(hash)? else { return Ok(Self::NotMined) };
        let (answers, question) = (&call.services.answers, Question::Receipt(number, index));
        if let Some(answer) = answers.get(&question) {
            return Ok(Self::Found(answer));
        }
        let blocks = call.view.blocks()?;
        if blocks.receipts_bytes(number)? > max_bytes {
            return Ok(Self::TooLarge);
        }
        let tx = OneTx::read(&call.context.spec, &blocks, number, index)?;
        let receipt = receipt_of(call, &blocks, &tx.mined())?;
        Ok(Self::Found(answers.keep(question, receipt)))
    }
}

/// Unknown and pending transactions have none: `null` at once.
pub(super) fn receipt(call: &Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    Ok(receipt_at(call, hash)?.unwrap_or(Json::fixed("null")))
}

/// The receipt, unless its block has many or large ones.
pub(super) fn receipt_at_once(call: &Call) -> Result<Option<Json>, Error> {
    let hash: B256 = call.arguments()?.required()?;
    Ok(match Receipt::within(RECEIPTS_AT_ONCE, call, hash)? {
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

/// The logs of a mined transaction, as its receipt has them.
pub(super) fn logs(call: &Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    receipt_at(call, hash)?.map_or(Ok(Json::fixed("null")), |receipt| logs_in(&receipt))
}

/// The logs, unless the block has many or large receipts.
pub(super) fn logs_at_once(call: &Call) -> Result<Option<Json>, Error> {
    let hash: B256 = call.arguments()?.required()?;
    match Receipt::within(RECEIPTS_AT_ONCE, call, hash)? {
        Receipt::Found(receipt) => logs_in(&receipt).map(Some),
        Receipt::NotMined => Ok(Some(Json::fixed("null"))),
        Receipt::TooLarge => Ok(None),
    }
}

fn logs_in(receipt: &Json) -> Answer {
    let Logs { logs } = serde_json::from_slice(receipt.bytes()).map_err(Error::internal)?;
    Ok(Json::from_text(logs.get()))
}

/// The logs in the text of a receipt.
#[derive(Deserialize)]
struct Logs<'a> {
    #[serde(borrow)]
    logs: &'a RawValue,
}

/// Submits through the pipeline and waits for the mempool's answer.
pub(super) async fn send_raw(call: Call) -> Answer {
    let raw: Bytes = call.arguments()?.required()?;
    put(&submit(&call, raw).await?)
}

/// Submits a transaction. One whose prices no type of transactions holds is refused for what it costs.
async fn submit(call: &Call, raw: Bytes) -> Result<B256, Error> {
    let submitted = call.context.pool.submit(raw.clone()).await;
    submitted.map_err(|reject| match *reject {
        Reject::Malformed(_) => wide_raw::refusal(call, &raw).unwrap_or_else(|| reject.into()),
        _ => reject.into(),
    })
}

/// The longest a caller may wait for a receipt, in milliseconds.
const MAX_SYNC_MS: u64 = 30_000;
/// How long a caller waits that does not say, as EIP-7966 recommends.
const SYNC_MS_DEFAULT: u64 = 2_000;
/// EIP-7966: the transaction is submitted and not mined in time.
const SYNC_TIMEOUT: i32 = 4;

/// How long to wait for a receipt. EIP-7966: the default is used if the timeout is not valid, as 0 is not.
fn wait_ms(timeout: Option<Number>) -> u64 {
    match timeout {
        None | Some(Number(0)) => SYNC_MS_DEFAULT,
        Some(Number(ms)) => ms.min(MAX_SYNC_MS),
    }
}

/// Submits, and waits for the block.
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

/// The bytes of a transaction, mined or pooled.
pub async fn raw_by_hash(call: Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    if let Some(raw) = raw_mined(&call, hash)? {
        return put(&raw);
    }
    match call.context.pool.transaction(hash).await? {
        Found::Pooled(tx) => put(&tx.raw),
        Found::NotPooled { built } => put(&raw_mined(&later(call, built).await, hash)?),
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
        return put(&pending.stored().block.transactions.get(index));
    }
    put(&raw_tx(&call.view.blocks()?, number, index)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_of_zero_is_the_default_and_a_long_one_the_maximum() {
        let cases = [(None, 2_000), (Some(0), 2_000), (Some(1), 1)];
        let limits = [(Some(29_999), 29_999), (Some(30_000), 30_000), (Some(30_001), 30_000)];
        for (timeout, ms) in cases.into_iter().chain(limits) {
            assert_eq!(wait_ms(timeout.map(Number)), ms, "{timeout:?}");
        }
    }
}
