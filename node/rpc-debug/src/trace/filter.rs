//! `trace_filter`: the calls in a range of blocks by sender and receiver. Calls inside transactions are not indexed, so
//! the blocks are executed again.

use super::mined::traces_of;
use crate::replay::{Replay, TraceList};
use alloy_rpc_types_trace::filter::{TraceFilter, TraceFilterMatcher, TraceFilterMode};
use chain::ChainSpec;
use rpc_eth::method::{Answer, Call};
use rpc_types::{
    block_id::BlockTag,
    error::Error,
    fields,
    params::{Number, Param, addresses},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use state::stored::StoredBlock;
use std::ops::ControlFlow;

/// The criteria of a search.
struct Filter {
    first: BlockTag,
    last: BlockTag,
    matcher: TraceFilterMatcher,
    after: u64,
    count: u64,
}

/// The parameter as JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FilterObject<'a> {
    #[serde(borrow)]
    from_block: Option<&'a RawValue>,
    #[serde(borrow)]
    to_block: Option<&'a RawValue>,
    #[serde(borrow)]
    from_address: Option<&'a RawValue>,
    #[serde(borrow)]
    to_address: Option<&'a RawValue>,
    mode: Option<TraceFilterMode>,
    #[serde(borrow)]
    after: Option<&'a RawValue>,
    #[serde(borrow)]
    count: Option<&'a RawValue>,
}

impl Param for Filter {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        let object: FilterObject<'_> = fields::read(json)?;
        let tag = |raw: Option<&RawValue>, default| {
            let Some(raw) = raw else { return Ok(default) };
            match raw.get().parse() {
                Ok(number) => Ok(BlockTag::Number(number)),
                Err(_) => BlockTag::read(raw.get(), spec),
            }
        };
        let list = |raw: Option<&RawValue>| raw.map_or(Ok(Vec::new()), |raw| addresses(raw, spec));
        let number = |raw: Option<&RawValue>, default| match raw {
            Some(raw) => Number::read(raw.get(), spec).map(|Number(number)| number),
            None => Ok(default),
        };
        let filter = TraceFilter {
            from_address: list(object.from_address)?,
            to_address: list(object.to_address)?,
            mode: object.mode.unwrap_or_default(),
            ..TraceFilter::default()
        };
        Ok(Self {
            first: tag(object.from_block, BlockTag::Earliest)?,
            last: tag(object.to_block, BlockTag::Latest)?,
            matcher: filter.matcher(),
            after: number(object.after, 0)?,
            count: number(object.count, u64::MAX)?,
        })
    }
}

pub(super) fn filter(call: &Call) -> Answer {
    let mut filter: Filter = call.arguments()?.required()?;
    let (first, last) = (filter.first.number(&call.view), filter.last.number(&call.view));
    if first > last {
        return Err(Error::invalid_params("invalid block range params"));
    }
    let (replay, blocks) = (Replay::new(call), call.view.blocks()?);
    let mut list = TraceList::new(call);
    for number in first..=last.min(call.view.number()) {
        if filter.count == 0 {
            break;
        }
        replay.in_time()?;
        let stored = StoredBlock::read(&call.context.spec, &blocks, number)?;
        let ended = traces_of(call, &replay, &stored, |trace| {
            if !filter.matcher.matches(&trace.trace) {
                return Ok(ControlFlow::Continue(()));
            }
            if let Some(left) = filter.after.checked_sub(1) {
                filter.after = left;
                return Ok(ControlFlow::Continue(()));
            }
            list.push(&trace)?;
            filter.count -= 1;
            Ok(match filter.count {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
        })?;
        if ended.is_break() {
            break;
        }
    }
    Ok(list.end())
}
