//! Searches for the transactions of an address.

use super::{Block, page_size};
use alloy_primitives::Address;
use rpc_eth::{
    eth::{ReceiptContexts, receipts_of},
    method::{Answer, Call, json},
};
use rpc_types::{
    block_id::BlockTag,
    error::Error,
    object::{ReceiptObject, TransactionObject},
    params::Number,
};
use serde::Serialize;
use serde_json::Value;
use state::parties::{Direction, Found, Search, Step};

/// A page of transactions, newest first.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    txs: Vec<TransactionObject>,
    receipts: Vec<Value>,
    /// There are no newer transactions.
    first_page: bool,
    /// There are no older transactions.
    last_page: bool,
}

/// The parameters of a search.
struct Query {
    address: Address,
    block: Option<u64>,
    size: usize,
}

impl Query {
    fn read(call: &Call) -> Result<Self, Error> {
        let mut arguments = call.arguments()?;
        let address = arguments.required()?;
        let Block(tag) = arguments.required()?;
        // Zero means the newest block in one direction and the oldest one in the other.
        let block = match tag {
            BlockTag::Number(0) => None,
            tag => Some(tag.number(&call.view)),
        };
        Ok(Self { address, block, size: page_size(arguments.required()?)? })
    }
}

pub(super) fn before(call: &Call) -> Answer {
    let query = Query::read(call)?;
    let head = call.view.number();
    let newest = query.block.map_or(head, |block| block.saturating_sub(1));
    let (mut page, last_page) = search(call, &query, newest, Direction::Older)?;
    page.first_page = newest >= head;
    page.last_page = last_page;
    json(&page)
}

pub(super) fn after(call: &Call) -> Answer {
    let query = Query::read(call)?;
    let oldest = query.block.map_or(0, |block| block.saturating_add(1));
    let (mut page, first_page) = search(call, &query, oldest, Direction::Newer)?;
    page.txs.reverse();
    page.receipts.reverse();
    page.first_page = first_page;
    page.last_page = query.block.is_none();
    json(&page)
}

/// Returns a page in the order of the search, and whether it is the last one in this order.
fn search(
    call: &Call,
    query: &Query,
    from: u64,
    direction: Direction,
) -> Result<(Page, bool), Error> {
    let time = call.services.limits.logs_timeout;
    let deadline = call.interrupt.within(time);
    let may_continue = || !deadline.passed();
    let mut search = Search::new(&call.context.spec, &call.view, query.address, from, direction)?;
    let (mut page, mut bytes) = (Page::default(), 0);
    while page.txs.len() < query.size {
        match search.next(may_continue)? {
            Step::Found(found) => add(call, &mut page, &found, direction, &mut bytes)?,
            Step::End => return Ok((page, true)),
            // The caller can continue after a partial page.
            Step::Cancelled if !page.txs.is_empty() => return Ok((page, false)),
            Step::Cancelled => return Err(Error::timed_out("search", time)),
        }
    }
    // The page is the last one if no further block has a transaction of the address. After a timeout this is unknown,
    // and the page does not count as the last one.
    let is_last = matches!(search.next(may_continue)?, Step::End);
    Ok((page, is_last))
}

/// Adds the transactions of a block with their receipts, in the order of the search.
fn add(
    call: &Call,
    page: &mut Page,
    found: &Found,
    direction: Direction,
    bytes: &mut usize,
) -> Result<(), Error> {
    let Found { block: stored, indices } = found;
    let receipts = receipts_of(&call.view.blocks()?, stored)?;
    let mut contexts = ReceiptContexts::of(call, &stored.block);
    let contexts: Vec<_> = receipts.iter().map(|receipt| contexts.next(receipt)).collect();
    let ordered: Box<dyn Iterator<Item = &usize>> = match direction {
        Direction::Older => Box::new(indices.iter().rev()),
        Direction::Newer => Box::new(indices.iter()),
    };
    for &index in ordered {
        let Some(mined) = stored.tx(index)? else { break };
        let receipt = &receipts[index];
        let logs = receipt.logs.iter().map(|log| log.data.data.len() + OBJECT_BYTES);
        *bytes += mined.raw.len() + logs.sum::<usize>() + OBJECT_BYTES;
        // The result contains the bytes as hex, which doubles their length.
        if 2 * *bytes > call.services.limits.max_response_bytes {
            return Err(Error::too_large("page", call.services.limits.max_response_bytes));
        }
        let object = ReceiptObject::new(&mined, receipt, contexts[index]);
        let mut object = serde_json::to_value(object).map_err(Error::internal)?;
        object["timestamp"] = stored.block.header.timestamp.into();
        page.txs.push(TransactionObject::mined(&mined));
        page.receipts.push(object);
    }
    Ok(())
}

/// Approximate length of a transaction with its receipt, or of a log, without data. It is half of the length in the
/// result, because the data is counted before it is converted to hex.
const OBJECT_BYTES: usize = 1024;

pub(super) fn hash_by_sender_and_nonce(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let sender: Address = arguments.required()?;
    let Number(nonce) = arguments.required()?;
    let found = state::parties::sent(&call.context.spec, &call.view, sender, nonce)?;
    let hash = found.map(|(block, index)| Ok::<_, Error>(block.tx(index)?.map(|tx| tx.hash)));
    json(&hash.transpose()?.flatten())
}
