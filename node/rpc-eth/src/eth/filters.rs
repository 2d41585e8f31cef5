//! The methods that create, poll and remove filters.

use super::logs::{self, removed_logs};
use crate::{
    Context,
    filters::{Delivered, Kind, not_found},
    log_query::{Filter, LogQuery},
    method::{Answer, Call, json},
};
use alloy_primitives::B256;
use pipeline::Arrival;
use rpc_types::{error::Error, object::TransactionObject, params::wide_quantity, text::Json};
use state::stored;
use std::ops::RangeInclusive;
use tokio::sync::broadcast::{Receiver, error::TryRecvError};

/// Maximum number of new blocks that a poll searches inline. Most polls find fewer.
const MAX_INLINE_BLOCKS: u64 = 8;
/// Maximum number of blocks in one response of a block filter. The next poll continues after them.
const MAX_BLOCKS: u64 = 10_000;

/// Implements `eth_newBlockFilter`.
pub(super) fn new_block_filter(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&call.services.filters.install(
        Kind::Blocks,
        Delivered::all(&call.view),
        call.caller.address,
    )?)
}

/// Checks that this node has a mempool of its own.
///
/// # Errors
/// Returns an error if the node follows another one, because its mempool is then empty.
pub fn require_pool(context: &Context) -> Result<(), Error> {
    if context.published.following().is_none() {
        return Ok(());
    }
    Err(Error::server(
        "this node follows another one and has no pending transactions: ask the producer, or use txpool_content",
    ))
}

/// Implements `eth_newPendingTransactionFilter`.
pub(super) fn new_pending_filter(call: &Call) -> Answer {
    let full = call.arguments()?.optional()?.unwrap_or(false);
    require_pool(&call.context)?;
    let kind = Kind::Pending { arrivals: call.context.pool.arrivals(), full };
    json(&call.services.filters.install(kind, Delivered::all(&call.view), call.caller.address)?)
}

/// Implements `eth_newFilter`.
pub(super) fn new_filter(call: &Call) -> Answer {
    let query: LogQuery = call.arguments()?.nullable()?;
    query.check()?;
    let kind = Kind::Logs(Box::new(query));
    json(&call.services.filters.install(kind, Delivered::all(&call.view), call.caller.address)?)
}

/// Implements `eth_uninstallFilter`.
pub(super) fn uninstall_filter(call: &Call) -> Answer {
    json(&id_parameter(call)?.is_some_and(|id| call.services.filters.remove(id)))
}

/// Returns the id in the parameter. As in geth, it is `None` for null, and for a text that is not the id of a filter.
fn id_parameter(call: &Call) -> Result<Option<u128>, Error> {
    let text: String = call.arguments()?.nullable()?;
    Ok(wide_quantity(&text).ok().and_then(|id| u128::try_from(id).ok()))
}

fn id(call: &Call) -> Result<u128, Error> {
    id_parameter(call)?.ok_or_else(not_found)
}

/// The result of a poll, or the search that follows it when the filters are unlocked, with the delivered position.
enum Poll {
    Hashes(Vec<B256>),
    /// The transactions are read from the filter by [`new_transactions`].
    Transactions,
    Blocks(Delivered),
    Logs(Box<LogQuery>, Delivered),
}

/// What a poll returns because blocks were undone.
#[derive(Default)]
struct Undone {
    /// The matching logs of undone blocks that the client knows, oldest branch first, each as JSON text.
    removed: Vec<Json>,
    /// The last block that the client still knows.
    last: u64,
}

/// Returns what a filter must report about the branches undone after `delivered`, or `None` if the view is older.
fn undone(call: &Call, delivered: Delivered, filter: Option<&Filter>) -> Option<Undone> {
    let view = &call.view;
    if view.undone < delivered.undone {
        return None;
    }
    let mut undone = Undone { removed: Vec::new(), last: delivered.last };
    for branch in call.context.published.undone(delivered.undone, view) {
        let known = branch.blocks.iter().filter(|block| block.number <= undone.last);
        let logs = |block| filter.map_or_else(Vec::new, |filter| removed_logs(block, filter));
        undone.removed.extend(known.flat_map(logs));
        undone.last = undone.last.min(branch.ancestor);
    }
    Some(undone)
}

/// Joins the removed logs and the new ones, which are a JSON array.
fn with_removed(removed: &[Json], new: &Json) -> Json {
    if removed.is_empty() {
        return new.clone();
    }
    let mut text = b"[".to_vec();
    for log in removed {
        text.extend_from_slice(log.bytes());
        text.push(b',');
    }
    match new.bytes().strip_prefix(b"[").filter(|rest| *rest != b"]") {
        Some(rest) => text.extend_from_slice(rest),
        None => {
            text.pop();
            text.push(b']');
        }
    }
    Json::from_text(text)
}

/// Returns the changes since the last poll, or `None` if the search would take too long.
pub(super) fn changes_inline(call: &Call) -> Result<Option<Json>, Error> {
    let id = id(call)?;
    match poll(call, id)? {
        Poll::Hashes(hashes) => json(&hashes).map(Some),
        Poll::Transactions => Ok(None),
        Poll::Blocks(delivered) | Poll::Logs(_, delivered)
            if call.view.undone > delivered.undone
                || call.view.number().saturating_sub(delivered.last) > MAX_INLINE_BLOCKS =>
        {
            Ok(None)
        }
        Poll::Blocks(delivered) => new_blocks(call, id, delivered).map(Some),
        Poll::Logs(query, delivered) => {
            let Some((first, last)) = new_range(call, &query, delivered.last) else {
                return Ok(Some(Json::fixed("[]")));
            };
            let answer = logs::find_inline(call, &query.filter, first, last)?;
            if answer.is_some() {
                set_delivered(call, id, last);
            }
            Ok(answer)
        }
    }
}

/// Returns the changes since the last poll. A log filter is limited to the blocks whose logs fit into a response.
pub(super) fn changes(call: &Call) -> Answer {
    let id = id(call)?;
    match poll(call, id)? {
        Poll::Hashes(hashes) => json(&hashes),
        Poll::Transactions => new_transactions(call, id),
        Poll::Blocks(delivered) => new_blocks(call, id, delivered),
        Poll::Logs(query, delivered) => {
            let Some(undone) = undone(call, delivered, Some(&query.filter)) else {
                return Ok(Json::fixed("[]"));
            };
            let (new, last) = match new_range(call, &query, undone.last) {
                Some((first, last)) => logs::find_first(call, &query.filter, first, last)?,
                None => (Json::fixed("[]"), undone.last),
            };
            set_delivered(call, id, last);
            Ok(with_removed(&undone.removed, &new))
        }
    }
}

fn poll(call: &Call, id: u128) -> Result<Poll, Error> {
    call.services.filters.poll(id, |filter| match &mut filter.kind {
        Kind::Pending { full: true, .. } => Poll::Transactions,
        Kind::Pending { arrivals, .. } => Poll::Hashes(drain(arrivals)),
        Kind::Blocks => Poll::Blocks(filter.delivered),
        Kind::Logs(query) => Poll::Logs(query.clone(), filter.delivered),
    })
}

/// Records the blocks of the view that a successful poll delivered.
fn set_delivered(call: &Call, id: u128, last: u64) {
    call.services.filters.set_delivered(id, Delivered { undone: call.view.undone, last });
}

fn new_blocks(call: &Call, id: u128, delivered: Delivered) -> Answer {
    let Some(undone) = undone(call, delivered, None) else { return Ok(Json::fixed("[]")) };
    let new = first_new_blocks(undone.last, call.view.number());
    let last = *new.end();
    let blocks = call.view.blocks()?;
    let hashes = new.map(|number| Ok(stored::header(&blocks, number)?.0));
    let answer = json(&hashes.collect::<Result<Vec<B256>, Error>>()?)?;
    set_delivered(call, id, last);
    Ok(answer)
}

/// Returns the blocks after `last_delivered` that one response may contain, oldest first. There may be none.
fn first_new_blocks(last_delivered: u64, head: u64) -> RangeInclusive<u64> {
    last_delivered + 1..=head.min(last_delivered.saturating_add(MAX_BLOCKS))
}

/// Returns the new blocks that a log filter covers.
fn new_range(call: &Call, query: &LogQuery, last_delivered: u64) -> Option<(u64, u64)> {
    let (first, last) = query.bounds(&call.view);
    let (first, last) = (first.max(last_delivered + 1), last.min(call.view.number()));
    (first <= last).then_some((first, last))
}

/// Returns the next transaction that entered the pool. The transactions that a slow client missed are skipped.
fn next_arrival(arrivals: &mut Receiver<Arrival>) -> Option<Arrival> {
    loop {
        match arrivals.try_recv() {
            Ok(arrival) => return Some(arrival),
            Err(TryRecvError::Lagged(_)) => {}
            Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
        }
    }
}

/// Returns the hashes of the transactions that entered the pool since the last poll.
fn drain(arrivals: &mut Receiver<Arrival>) -> Vec<B256> {
    std::iter::from_fn(|| next_arrival(arrivals)).map(|arrival| arrival.hash).collect()
}

/// Maximum characters of JSON for each byte of a transaction, and for a transaction without its bytes.
const CHARS_PER_BYTE: usize = 4;
const CHARS_PER_TX: usize = 1_500;

/// Returns the transactions that entered the pool since the last poll, as far as they fit into a response. The next
/// poll returns the others. Large transactions that have left the pool are skipped.
fn new_transactions(call: &Call, id: u128) -> Answer {
    let mut txs = Vec::new();
    call.services.filters.poll(id, |filter| {
        let Kind::Pending { arrivals, .. } = &mut filter.kind else { return };
        let mut chars = 0;
        while let Some(arrival) = next_arrival(arrivals) {
            let Some(tx) = arrival.tx() else { continue };
            chars += CHARS_PER_BYTE * tx.raw.len() + CHARS_PER_TX;
            txs.push(tx);
            // Half of the response stays free, because the next transaction may be large.
            if 2 * chars > call.services.limits.max_response_bytes {
                break;
            }
        }
    })?;
    json(&txs.iter().map(|tx| TransactionObject::pooled(tx)).collect::<Vec<_>>())
}

/// Implements `eth_getFilterLogs`.
pub(super) fn filter_logs(call: &Call) -> Answer {
    let id = id(call)?;
    let query = call.services.filters.poll(id, |filter| match &filter.kind {
        Kind::Logs(query) => Some(query.clone()),
        _ => None,
    })?;
    let query = query.ok_or_else(not_found)?;
    logs::find(call, &query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_poll_of_a_block_filter_continues_with_the_oldest_block() {
        assert!(first_new_blocks(5, 5).is_empty());
        assert_eq!(first_new_blocks(5, 6), 6..=6);
        for (new, last) in [
            (MAX_BLOCKS - 1, MAX_BLOCKS - 1),
            (MAX_BLOCKS, MAX_BLOCKS),
            (MAX_BLOCKS + 1, MAX_BLOCKS),
        ] {
            assert_eq!(first_new_blocks(7, 7 + new), 8..=7 + last);
        }
        assert_eq!(
            first_new_blocks(7 + MAX_BLOCKS, 8 + MAX_BLOCKS),
            8 + MAX_BLOCKS..=8 + MAX_BLOCKS
        );
    }
}
