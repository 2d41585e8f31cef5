//! Traces of mined transactions.

use super::TraceTypes;
use super::calls_tracer;
use crate::replay::{Replay, TraceList, TxPosition, trace_json};
use alloy_primitives::{B256, U256};
use alloy_rpc_types_trace::parity::{
    Action, LocalizedTransactionTrace, RewardAction, RewardType, TraceResultsWithTransactionHash,
    TransactionTrace,
};
use evm::rewards;
use rpc_eth::method::{Answer, Call, json};
use rpc_types::{
    block_id::BlockId,
    error::Error,
    params::{Number, Param},
};
use serde_json::value::RawValue;
use state::stored::{StoredBlock, locate};
use std::ops::ControlFlow;

/// Passes every trace of a block to `take`, until it returns `Break`.
pub(super) fn traces_of(
    call: &Call,
    replay: &Replay<'_>,
    stored: &StoredBlock,
    mut take: impl FnMut(LocalizedTransactionTrace) -> Result<ControlFlow<()>, Error>,
) -> Result<ControlFlow<()>, Error> {
    let mut ended = ControlFlow::Continue(());
    if !stored.block.transactions.is_empty() {
        replay.block(stored, calls_tracer(), .., |position, results| {
            for trace in results.trace {
                ended = take(localized(stored, position, trace))?;
                if ended.is_break() {
                    break;
                }
            }
            Ok(ended)
        })?;
    }
    for reward in reward_traces(call, stored) {
        if ended.is_continue() {
            ended = take(reward)?;
        }
    }
    Ok(ended)
}

fn localized(
    stored: &StoredBlock,
    position: TxPosition,
    trace: TransactionTrace,
) -> LocalizedTransactionTrace {
    LocalizedTransactionTrace {
        trace,
        block_hash: Some(stored.block.hash),
        block_number: Some(stored.block.header.number),
        transaction_hash: Some(position.hash),
        transaction_position: Some(position.index as u64),
    }
}

/// Returns the rewards of a proof-of-work block. Genesis has none.
fn reward_traces(call: &Call, stored: &StoredBlock) -> Vec<LocalizedTransactionTrace> {
    let block = &stored.block;
    let header = &block.header;
    if header.number == 0 {
        return Vec::new();
    }
    let rewards = rewards(call.context.spec.fork_of(header), header.number, &block.ommers);
    if rewards.beneficiary == 0 {
        return Vec::new();
    }
    let trace = |author, reward_type, value: u128| {
        let action = RewardAction { author, reward_type, value: U256::from(value) };
        LocalizedTransactionTrace {
            trace: TransactionTrace {
                action: Action::Reward(action),
                ..TransactionTrace::default()
            },
            block_hash: Some(block.hash),
            block_number: Some(header.number),
            transaction_hash: None,
            transaction_position: None,
        }
    };
    let mut traces = vec![trace(header.beneficiary, RewardType::Block, rewards.beneficiary)];
    let ommers = block.ommers.iter().zip(rewards.ommers);
    traces.extend(ommers.map(|(ommer, value)| trace(ommer.beneficiary, RewardType::Uncle, value)));
    traces
}

pub(super) fn block(call: &Call) -> Answer {
    let id: BlockId = call.arguments()?.required()?;
    let Some(number) = call.find_canonical(id)? else { return json(&()) };
    let stored = StoredBlock::read(&call.context.spec, &call.view.blocks()?, number)?;
    let mut list = TraceList::new(call);
    let _ended = traces_of(call, &Replay::new(call), &stored, |trace| {
        list.push(&trace)?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(list.end())
}

/// Returns the traces of a mined transaction.
fn of_transaction(
    call: &Call,
    hash: B256,
) -> Result<Option<Vec<LocalizedTransactionTrace>>, Error> {
    let Some((stored, index)) = locate(&call.context.spec, &call.view, hash)? else {
        return Ok(None);
    };
    let results = Replay::new(call).transaction(&stored, index, calls_tracer())?;
    // A Cosmos transaction has several hashes. The result contains the hash in the request.
    let position = TxPosition { index, hash };
    let traces = results.trace.into_iter().map(|trace| localized(&stored, position, trace));
    Ok(Some(traces.collect()))
}

pub(super) fn transaction(call: &Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    let Some(traces) = of_transaction(call, hash)? else { return json(&()) };
    let mut list = TraceList::new(call);
    traces.iter().try_for_each(|trace| list.push(trace))?;
    Ok(list.end())
}

/// The position of a call in its transaction, as a list of numbers or quantities.
struct TraceAddress(Vec<usize>);

impl Param for TraceAddress {
    fn read(json: &str, spec: &chain::ChainSpec) -> Result<Self, String> {
        let indices: Vec<&RawValue> =
            serde_json::from_str(json).map_err(|_| "not a list of indices".to_owned())?;
        let index = |raw: &&RawValue| {
            let Number(index) = Number::read(raw.get(), spec)?;
            usize::try_from(index).map_err(|error| error.to_string())
        };
        indices.iter().map(index).collect::<Result<_, _>>().map(Self)
    }
}

pub(super) fn get(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let hash: B256 = arguments.required()?;
    let TraceAddress(address) = arguments.required()?;
    let traces = of_transaction(call, hash)?.unwrap_or_default();
    json(&traces.iter().find(|trace| trace.trace.trace_address == address))
}

pub(super) fn replay_transaction(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let hash: B256 = arguments.required()?;
    let TraceTypes(tracer) = arguments.required()?;
    let Some((stored, index)) = locate(&call.context.spec, &call.view, hash)? else {
        return Err(Error::server("transaction not found"));
    };
    trace_json(call, &Replay::new(call).transaction(&stored, index, tracer)?)
}

pub(super) fn replay_block(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let id: BlockId = arguments.required()?;
    let TraceTypes(tracer) = arguments.required()?;
    let Some(number) = call.find_canonical(id)? else { return json(&()) };
    let stored = StoredBlock::read(&call.context.spec, &call.view.blocks()?, number)?;
    let mut list = TraceList::new(call);
    if !stored.block.transactions.is_empty() {
        Replay::new(call).block(&stored, tracer, .., |position, full_trace| {
            let transaction_hash = position.hash;
            list.push(&TraceResultsWithTransactionHash { full_trace, transaction_hash })?;
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(list.end())
}
