//! Traces of transactions that are not mined.

use super::TraceTypes;
use crate::replay::{TraceList, trace_error, trace_json};
use alloy_consensus::Transaction as _;
use alloy_primitives::Bytes;
use chain::ChainSpec;
use evm::{Call as Execution, ParityTracer};
use rpc_eth::recover::recover;
use rpc_eth::{
    eth::{CallOverrides, MAX_CALLS, Request, gas_cap, on_block_with, on_state},
    method::{Answer, Call},
};
use rpc_types::{block_id::BlockId, error::Error, params::Param};
use serde_json::value::RawValue;
use transactions::{is_blob_tx, without_blobs};

pub(super) fn call(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let request = arguments.required()?;
    let TraceTypes(tracer) = arguments.required()?;
    let id = arguments.optional()?.unwrap_or(BlockId::LATEST);
    let overrides = CallOverrides::next(&mut arguments)?;
    let trace = on_block_with(call, request, id, overrides, |site, execution| {
        let trace = site.trace(execution, &tracer, gas_cap(call));
        trace.map_err(|error| trace_error(error, execution.from))
    })?;
    trace_json(call, &trace)
}

/// Calls, each with the types of traces that are requested.
struct Calls(Vec<(Request, ParityTracer)>);

impl Param for Calls {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        let list: Vec<(&RawValue, &RawValue)> = serde_json::from_str(json)
            .map_err(|_| "not a list of lists of a transaction and trace types".to_owned())?;
        if list.len() > MAX_CALLS {
            return Err(format!("must have at most {MAX_CALLS} calls, got {}", list.len()));
        }
        let read = |(request, tracer): &(&RawValue, &RawValue)| {
            Ok((Request::read(request.get(), spec)?, TraceTypes::read(tracer.get(), spec)?.0))
        };
        list.iter().map(read).collect::<Result<_, String>>().map(Self)
    }
}

pub(super) fn call_many(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let Calls(calls) = arguments.required()?;
    let id = arguments.optional()?.unwrap_or(BlockId::LATEST);
    let spec = &call.context.spec;
    let calls = calls.into_iter().map(|(request, tracer)| Ok((request.check(spec)?, tracer)));
    let calls = calls.collect::<Result<Vec<(Execution, _)>, Error>>()?;
    let mut list = TraceList::new(call);
    on_state(call, id, |site| {
        let mut overlay = site.overlay();
        for (execution, tracer) in &calls {
            let (trace, after) = site
                .trace_on(overlay, execution, tracer, gas_cap(call))
                .map_err(|error| trace_error(error, execution.from))?;
            list.push(&trace)?;
            overlay = after;
        }
        Ok(())
    })?;
    Ok(list.end())
}

pub(super) fn raw_transaction(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let raw: Bytes = arguments.required()?;
    let TraceTypes(tracer) = arguments.required()?;
    let id = arguments.optional()?.unwrap_or(BlockId::LATEST);
    let raw = match is_blob_tx(&raw) {
        true => without_blobs(&raw).map_err(|fault| Error::server(fault.to_string()))?,
        false => raw,
    };
    let tx =
        recover(&[raw])?.pop().ok_or_else(|| Error::internal("no transaction was recovered"))?;
    if tx.cosmos.is_some() {
        return Err(Error::server(
            "a Cosmos transaction cannot be traced: the EVM does not execute it",
        ));
    }
    let (have, want) = (tx.tx.chain_id(), call.context.spec.chain_id);
    if let Some(have) = have.filter(|have| *have != want) {
        let message = format!("invalid chain id for signer: have {have} want {want}");
        return Err(Error::server(message));
    }
    let execution = Execution::of(&tx);
    let trace = on_state(call, id, |site| {
        // A transaction may use the gas limit of a block, even if calls have a lower limit.
        let cap = gas_cap(call).max(site.header.gas_limit);
        let trace = site.trace(&execution, &tracer, cap);
        trace.map_err(|error| trace_error(error, execution.from))
    })?;
    trace_json(call, &trace)
}
