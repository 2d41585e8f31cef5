//! `debug_getModifiedAccountsByNumber` and `debug_getModifiedAccountsByHash`: the accounts that differ between two
//! blocks.

use crate::replay::Replay;
use alloy_primitives::{Address, B256, U256, keccak256};
use rpc_eth::method::{Answer, Call, json};
use rpc_types::{error::Error, params::Number};
use std::collections::{BTreeMap, BTreeSet};
use storage::StateRead;

/// Maximum number of changed accounts and slots that are compared, which takes about one second.
const MAX_CHANGES: usize = 200_000;

/// A range of blocks, which excludes `first` and includes `last`.
struct Span {
    first: u64,
    last: u64,
}

impl Span {
    /// Without an end, the range is the block `start`, which is compared with its parent.
    fn new(start: u64, end: Option<u64>) -> Result<Self, Error> {
        let (first, last) = match end {
            Some(end) => (start, end),
            None => match start.checked_sub(1) {
                Some(parent) => (parent, start),
                None => return Err(Error::server(format!("block {start:x} has no parent"))),
            },
        };
        if first >= last {
            return Err(Error::server(format!(
                "start block height ({first}) must be less than end block height ({last})"
            )));
        }
        Ok(Self { first, last })
    }
}

pub(super) fn by_number(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let Number(start) = arguments.required()?;
    let end: Option<Number> = arguments.optional()?;
    let head = call.view.number();
    if start > head {
        return Err(Error::server(format!("start block {start:x} not found")));
    }
    let end = end.map(|Number(end)| end);
    if let Some(end) = end.filter(|end| *end > head) {
        return Err(Error::server(format!("end block {end} not found")));
    }
    modified(call, &Span::new(start, end)?)
}

pub(super) fn by_hash(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let start: B256 = arguments.required()?;
    let end: Option<B256> = arguments.optional()?;
    let find = |which: &str, hash: B256| {
        let number = call.view.block_number(hash)?;
        number.ok_or_else(|| Error::server(format!("{which} block {hash:x} not found")))
    };
    let start = find("start", start)?;
    let end = end.map(|hash| find("end", hash)).transpose()?;
    modified(call, &Span::new(start, end)?)
}

/// What the blocks of the range wrote to an account.
#[derive(Default)]
struct AccountWrites {
    wiped: bool,
    slots: BTreeSet<U256>,
}

/// Returns the accounts that exist after the last block and differ from their state before the range, ordered by the
/// hash of the address, as geth finds them in the trie.
fn modified(call: &Call, span: &Span) -> Answer {
    let replay = Replay::new(call);
    let written = written(call, &replay, span)?;
    let (before, after) =
        (call.view.state.reader_at(span.first)?, call.view.state.reader_at(span.last)?);
    let mut modified = Vec::new();
    for (address, written) in written {
        let now = after.account(address)?;
        let Some(now) = now else { continue };
        let mut differs = written.wiped || before.account(address)? != Some(now);
        let mut slots = written.slots.into_iter();
        while !differs && let Some(slot) = slots.next() {
            differs = before.storage(address, slot)? != after.storage(address, slot)?;
        }
        if differs {
            modified.push((keccak256(address), address));
        }
        replay.in_time()?;
    }
    modified.sort_unstable();
    json(&modified.into_iter().map(|(_, address)| address).collect::<Vec<_>>())
}

fn written(
    call: &Call,
    replay: &Replay<'_>,
    span: &Span,
) -> Result<BTreeMap<Address, AccountWrites>, Error> {
    let blocks = call.view.blocks()?;
    let mut written: BTreeMap<Address, AccountWrites> = BTreeMap::new();
    let mut seen = 0;
    for number in span.first + 1..=span.last {
        replay.in_time()?;
        let changes = blocks.changes(number)?;
        let changes = changes
            .ok_or_else(|| Error::internal(format_args!("block {number} has no changes")))?;
        for change in changes.accounts {
            seen += 1 + change.slots.len();
            let written = written.entry(change.address).or_default();
            written.wiped |= change.wiped;
            written.slots.extend(change.slots.iter().map(|(slot, _)| *slot));
        }
        if seen > MAX_CHANGES {
            let message = format!(
                "more than {MAX_CHANGES} accounts and slots changed by block {number}; choose a shorter range"
            );
            return Err(Error::limit(message, MAX_CHANGES as u64, None));
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_of_a_span_must_be_below_its_end() {
        let span = |start, end| {
            let span = Span::new(start, end).map(|Span { first, last }| (first, last));
            span.map_err(|error| error.message().to_owned())
        };
        assert_eq!(span(3, None), Ok((2, 3)));
        assert_eq!(span(3, Some(7)), Ok((3, 7)));
        assert_eq!(span(0, None), Err("block 0 has no parent".to_owned()));
        for (start, end) in [(7, 7), (8, 7)] {
            let text =
                format!("start block height ({start}) must be less than end block height (7)");
            assert_eq!(span(start, Some(end)), Err(text));
        }
    }
}
