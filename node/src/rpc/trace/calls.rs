//! Traces of transactions that were never mined.

use crate::{
    chain::ChainSpec,
    execution::{Call as Execution, ParityTracer, is_blob_tx, take_off_blobs},
    rpc::{
        block_id::BlockId,
        error::Error,
        eth::{GivenOverrides, Request, gas_cap, on_block_with, on_state},
        method::{Answer, Call, json},
        params::Param,
        replay::{Rows, trace_error},
        stored::recover,
    },
};
use alloy_primitives::{Address, Bytes};
use serde_json::value::RawValue;

/// Most calls one after another: more than any tool sends, and each costs an environment.
const CALLS_MAX: usize = 1_000;

fn trace(
    call: &Call,
    request: Request,
    tracer: &ParityTracer,
    id: BlockId,
    overrides: GivenOverrides,
) -> Answer {
    let traces = on_block_with(call, request, id, overrides, |site, execution| {
        let traces = site.trace([(execution, tracer)], gas_cap(call));
        traces.map_err(|error| trace_error(error, execution.from))
    })?;
    json(&traces.first())
}

pub(super) fn call(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let request = arguments.required()?;
    let tracer = arguments.required()?;
    let id = arguments.optional()?.unwrap_or(BlockId::LATEST);
    let overrides = GivenOverrides::next(&mut arguments)?;
    trace(call, request, &tracer, id, overrides)
}

/// Calls with the traces that are wanted of each.
struct Calls(Vec<(Request, ParityTracer)>);

impl Param for Calls {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        let rows: Vec<(&RawValue, &RawValue)> = serde_json::from_str(json)
            .map_err(|_| "not a list of lists of a transaction and trace types".to_owned())?;
        if rows.len() > CALLS_MAX {
            return Err(format!("{} calls; at most {CALLS_MAX}", rows.len()));
        }
        let read = |(request, tracer): &(&RawValue, &RawValue)| {
            Ok((Request::read(request.get(), spec)?, ParityTracer::read(tracer.get(), spec)?))
        };
        rows.iter().map(read).collect::<Result<_, String>>().map(Self)
    }
}

pub(super) fn call_many(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let Calls(calls) = arguments.required()?;
    let id = arguments.optional()?.unwrap_or(BlockId::LATEST);
    let spec = &call.context.spec;
    let calls = calls.into_iter().map(|(request, tracer)| Ok((request.check(spec)?, tracer)));
    let calls = calls.collect::<Result<Vec<(Execution, _)>, Error>>()?;
    let traces = on_state(call, id, |site| {
        let traces = site.trace(calls.iter().map(|(call, tracer)| (call, tracer)), gas_cap(call));
        traces.map_err(|error| trace_error(error, Address::ZERO))
    })?;
    let mut rows = Rows::default();
    traces.iter().try_for_each(|trace| rows.push(trace))?;
    Ok(rows.end())
}

pub(super) fn raw_transaction(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let raw: Bytes = arguments.required()?;
    let tracer = arguments.required()?;
    let id = arguments.optional()?.unwrap_or(BlockId::LATEST);
    let raw = match is_blob_tx(&raw) {
        true => take_off_blobs(&raw).map_err(|fault| Error::server(fault.to_string()))?,
        false => raw,
    };
    let tx = recover(&[raw])?.pop().ok_or_else(|| Error::internal("nothing was recovered"))?;
    if tx.cosmos.is_some() {
        return Err(Error::server("a Cosmos transaction does not run in the interpreter"));
    }
    trace(call, Request::of(Execution::of(&tx)), &tracer, id, GivenOverrides::default())
}
