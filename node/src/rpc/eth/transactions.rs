//! Single transactions: where they are, and sending them.

use super::blocks::receipt_of;
use crate::rpc::{
    block_id::{BlockId, BlockTag},
    error::Error,
    method::{Answer, Call, json},
    object::TransactionObject,
    stored::{StoredBlock, locate},
};
use alloy_primitives::{B256, Bytes};

/// Mined, or waiting in the pool.
pub(super) async fn by_hash(call: Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    if let Some(answer) = mined(&call, hash)? {
        return Ok(answer);
    }
    if let Some(tx) = call.context.pool.transaction(hash).await {
        return json(&TransactionObject::pending(&tx.tx, hash, tx.sender));
    }
    // It may have left the pool for a block between the two looks.
    let call = Call { view: call.context.published.load(), ..call };
    mined(&call, hash)?.map_or_else(|| json(&()), Ok)
}

fn mined(call: &Call, hash: B256) -> Result<Option<Box<serde_json::value::RawValue>>, Error> {
    let Some((stored, index)) = locate(&call.view, hash)? else { return Ok(None) };
    let tx = stored.tx(index)?;
    tx.map(|tx| json(&TransactionObject::mined(&tx))).transpose()
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
    let Some(number) = id.find(&call.view)? else { return json(&()) };
    let stored = StoredBlock::read(&call.view.blocks()?, number)?;
    let tx = usize::try_from(index).ok().map(|index| stored.tx(index)).transpose()?.flatten();
    json(&tx.map(|tx| TransactionObject::mined(&tx)))
}

/// Unknown and pending transactions have none: `null` at once.
pub(super) fn receipt(call: &Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    let Some((stored, index)) = locate(&call.view, hash)? else { return json(&()) };
    match stored.tx(index)? {
        Some(tx) => receipt_of(call, &stored, &tx),
        None => json(&()),
    }
}

/// Submits through the pipeline and waits for the mempool's answer.
pub(super) async fn send_raw(call: Call) -> Answer {
    let raw: Bytes = call.arguments()?.required()?;
    json(&call.context.pool.submit(raw).await?)
}
