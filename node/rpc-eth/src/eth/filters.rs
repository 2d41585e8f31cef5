//! The methods of filters: `eth_newFilter` and the others.

use super::logs;
use crate::{
    filters::{Kind, not_found},
    log_query::LogQuery,
    method::{Answer, Call, json},
};
use alloy_primitives::B256;
use pipeline::Arrival;
use rpc_types::{error::Error, object::TransactionObject, params::wide_quantity, text::Json};
use state::stored;
use std::ops::RangeInclusive;
use tokio::sync::broadcast::{Receiver, error::TryRecvError};

/// Maximum new blocks at which a poll is answered by the thread that serves the socket. Most polls find fewer.
const BLOCKS_AT_ONCE: u64 = 8;
/// Maximum number of blocks in one answer of a block filter. The next poll continues after them.
const MAX_BLOCKS: u64 = 10_000;

/// `eth_newBlockFilter`.
pub(super) fn new_block_filter(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&call.services.filters.install(Kind::Blocks, call.view.number(), call.caller.address)?)
}

/// `eth_newPendingTransactionFilter`.
pub(super) fn new_pending_filter(call: &Call) -> Answer {
    let full = call.arguments()?.optional()?.unwrap_or(false);
    let kind = Kind::Pending { arrivals: call.context.pool.arrivals(), full };
    json(&call.services.filters.install(kind, call.view.number(), call.caller.address)?)
}

/// `eth_newFilter`.
pub(super) fn new_filter(call: &Call) -> Answer {
    let query: LogQuery = call.arguments()?.nullable()?;
    query.check()?;
    let kind = Kind::Logs(Box::new(query));
    json(&call.services.filters.install(kind, call.view.number(), call.caller.address)?)
}

/// `eth_uninstallFilter`.
pub(super) fn uninstall_filter(call: &Call) -> Answer {
    json(&given_id(call)?.is_some_and(|id| call.services.filters.remove(id)))
}

/// The id in the parameters; `None` for a text that cannot be an id, and for null, which geth accepts, too.
fn given_id(call: &Call) -> Result<Option<u128>, Error> {
    let text: String = call.arguments()?.nullable()?;
    Ok(wide_quantity(&text).ok().and_then(|id| u128::try_from(id).ok()))
}

fn id(call: &Call) -> Result<u128, Error> {
    given_id(call)?.ok_or_else(not_found)
}

/// What is read after the filters are unlocked, and after which block.
enum Wanted {
    Arrived(Vec<B256>),
    /// Whole transactions that have arrived: not taken from the filter yet.
    Whole,
    Blocks(u64),
    Logs(Box<LogQuery>, u64),
}

/// What is new since the last poll, unless the search takes long.
pub(super) fn changes_at_once(call: &Call) -> Result<Option<Json>, Error> {
    let id = id(call)?;
    match wanted(call, id)? {
        Wanted::Arrived(hashes) => json(&hashes).map(Some),
        Wanted::Whole => Ok(None),
        Wanted::Blocks(seen) | Wanted::Logs(_, seen)
            if call.view.number().saturating_sub(seen) > BLOCKS_AT_ONCE =>
        {
            Ok(None)
        }
        Wanted::Blocks(seen) => new_blocks(call, id, seen).map(Some),
        Wanted::Logs(query, seen) => {
            let Some((first, last)) = new_range(call, &query, seen) else {
                return Ok(Some(Json::fixed("[]")));
            };
            let answer = logs::find_at_once(call, &query.filter, first, last)?;
            if answer.is_some() {
                see(call, id, last);
            }
            Ok(answer)
        }
    }
}

/// What is new since the last poll. Logs are those of as many blocks as an answer may hold.
pub(super) fn changes(call: &Call) -> Answer {
    let id = id(call)?;
    match wanted(call, id)? {
        Wanted::Arrived(hashes) => json(&hashes),
        Wanted::Whole => arrived_whole(call, id),
        Wanted::Blocks(seen) => new_blocks(call, id, seen),
        Wanted::Logs(query, seen) => {
            let Some((first, last)) = new_range(call, &query, seen) else {
                return Ok(Json::fixed("[]"));
            };
            let (answer, last) = logs::find_first(call, &query.filter, first, last)?;
            see(call, id, last);
            Ok(answer)
        }
    }
}

fn wanted(call: &Call, id: u128) -> Result<Wanted, Error> {
    call.services.filters.poll(id, |filter| match &mut filter.kind {
        Kind::Pending { full: true, .. } => Wanted::Whole,
        Kind::Pending { arrivals, .. } => Wanted::Arrived(drain(arrivals)),
        Kind::Blocks => Wanted::Blocks(filter.seen),
        Kind::Logs(query) => Wanted::Logs(query.clone(), filter.seen),
    })
}

/// Records what a successful poll has delivered.
fn see(call: &Call, id: u128, last: u64) {
    call.services.filters.see(id, last);
}

fn new_blocks(call: &Call, id: u128, seen: u64) -> Answer {
    let new = first_new_blocks(seen, call.view.number());
    let last = *new.end();
    let blocks = call.view.blocks()?;
    let hashes = new.map(|number| Ok(stored::header(&blocks, number)?.0));
    let answer = json(&hashes.collect::<Result<Vec<B256>, Error>>()?)?;
    see(call, id, last);
    Ok(answer)
}

/// The oldest blocks after `seen` that one answer may hold; an empty range if there are none.
fn first_new_blocks(seen: u64, head: u64) -> RangeInclusive<u64> {
    seen + 1..=head.min(seen.saturating_add(MAX_BLOCKS))
}

/// The blocks of a log filter that are new.
fn new_range(call: &Call, query: &LogQuery, seen: u64) -> Option<(u64, u64)> {
    let (first, last) = query.bounds(&call.view);
    let (first, last) = (first.max(seen + 1), last.min(call.view.number()));
    (first <= last).then_some((first, last))
}

/// The next transaction that has arrived; those lost to a slow client are left out.
fn next_arrival(arrivals: &mut Receiver<Arrival>) -> Option<Arrival> {
    loop {
        match arrivals.try_recv() {
            Ok(arrival) => return Some(arrival),
            Err(TryRecvError::Lagged(_)) => {}
            Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
        }
    }
}

/// Hashes of all that has arrived.
fn drain(arrivals: &mut Receiver<Arrival>) -> Vec<B256> {
    std::iter::from_fn(|| next_arrival(arrivals)).map(|arrival| arrival.hash).collect()
}

/// Maximum characters of JSON for each byte of a transaction, and for a transaction without them.
const CHARS_PER_BYTE: usize = 4;
const CHARS_PER_TX: usize = 1_500;

/// Transactions that have arrived, as many as an answer may hold; the next poll returns the others. Large ones that
/// have left the pool are left out.
fn arrived_whole(call: &Call, id: u128) -> Answer {
    let mut txs = Vec::new();
    call.services.filters.poll(id, |filter| {
        let Kind::Pending { arrivals, .. } = &mut filter.kind else { return };
        let mut chars = 0;
        while let Some(arrival) = next_arrival(arrivals) {
            let Some(tx) = arrival.tx() else { continue };
            chars += CHARS_PER_BYTE * tx.raw.len() + CHARS_PER_TX;
            txs.push(tx);
            // Half of the answer stays free, because the next transaction may be large.
            if 2 * chars > call.services.limits.bytes {
                break;
            }
        }
    })?;
    json(&txs.iter().map(|tx| TransactionObject::pooled(tx)).collect::<Vec<_>>())
}

/// All logs of a log filter.
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
