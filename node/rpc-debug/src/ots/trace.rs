//! The calls inside a transaction, from the frames of the call tracer.

use crate::replay::Replay;
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rpc_types_trace::geth::{
    CallFrame, GethDebugBuiltInTracerType, GethDebugTracingOptions, GethTrace,
};
use evm::GethTracer;
use rpc_eth::method::{Answer, Call, json};
use rpc_types::error::Error;
use serde::Serialize;
use state::stored::{StoredBlock, locate};
use std::ops::ControlFlow;

/// The calls of a transaction. The root is the transaction itself.
pub(super) struct Frames(CallFrame);

/// A call frame with its depth.
struct Frame<'a> {
    frame: &'a CallFrame,
    depth: u32,
    /// Whether the frame, or a frame that contains it, was reverted.
    reverted: bool,
}

impl Frames {
    /// Traces a mined transaction.
    fn of_transaction(call: &Call) -> Result<Option<Self>, Error> {
        let hash: B256 = call.arguments()?.required()?;
        let Some((stored, index)) = locate(&call.context.spec, &call.view, hash)? else {
            return Ok(None);
        };
        let trace = Replay::new(call).transaction(&stored, index, call_tracer())?;
        Self::of_trace(trace).map(Some)
    }

    /// Traces each transaction of a block, until `take` returns `Break`.
    pub(super) fn of_block(
        replay: &Replay<'_>,
        stored: &StoredBlock,
        mut take: impl FnMut(B256, &Self) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        replay.block(stored, call_tracer(), .., |position, trace| {
            Ok(take(position.hash, &Self::of_trace(trace)?))
        })
    }

    fn of_trace(trace: GethTrace) -> Result<Self, Error> {
        match trace {
            GethTrace::CallTracer(frame) => Ok(Self(frame)),
            _ => Err(Error::internal("the call tracer returned no call frame")),
        }
    }

    /// Returns all frames, each before the calls that it made.
    fn in_order(&self) -> Vec<Frame<'_>> {
        let mut ordered = Vec::new();
        let mut stack = vec![Frame { frame: &self.0, depth: 0, reverted: self.0.error.is_some() }];
        while let Some(next) = stack.pop() {
            stack.extend(next.frame.calls.iter().rev().map(|frame| Frame {
                frame,
                depth: next.depth + 1,
                reverted: next.reverted || frame.error.is_some(),
            }));
            ordered.push(next);
        }
        ordered
    }

    /// Returns the account that created this address inside the transaction.
    pub(super) fn created(&self, address: Address) -> Option<Address> {
        let creates = |Frame { frame, reverted, .. }: &Frame<'_>| {
            !reverted && frame.to == Some(address) && matches!(&*frame.typ, "CREATE" | "CREATE2")
        };
        self.in_order().iter().find(|frame| creates(frame)).map(|found| found.frame.from)
    }
}

fn call_tracer() -> GethTracer {
    let tracer = GethDebugBuiltInTracerType::CallTracer.into();
    let options = GethDebugTracingOptions { tracer: Some(tracer), ..Default::default() };
    GethTracer(options)
}

/// A call in the format of `ots_traceTransaction`.
#[derive(Serialize)]
struct Entry<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    depth: u32,
    from: Address,
    to: Address,
    value: Option<U256>,
    input: &'a Bytes,
    output: Bytes,
}

pub(super) fn calls(call: &Call) -> Answer {
    let Some(frames) = Frames::of_transaction(call)? else { return json(&()) };
    let ordered = frames.in_order();
    let entries = ordered.iter().map(|Frame { frame, depth, .. }| Entry {
        kind: &frame.typ,
        depth: *depth,
        from: frame.from,
        // A creation that failed has no address.
        to: frame.to.unwrap_or_default(),
        value: frame.value.filter(|_| has_value(&frame.typ)),
        input: &frame.input,
        output: frame.output.clone().unwrap_or_default(),
    });
    json(&entries.collect::<Vec<_>>())
}

/// Returns whether a call of this type transfers ether.
fn has_value(kind: &str) -> bool {
    !matches!(kind, "DELEGATECALL" | "STATICCALL")
}

/// An operation in the format of `ots_getInternalOperations`.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Operation {
    #[serde(rename = "type")]
    kind: u8,
    from: Address,
    to: Address,
    value: U256,
}

impl Operation {
    fn of(frame: &CallFrame) -> Option<Self> {
        let value = frame.value.unwrap_or_default();
        let kind = match &*frame.typ {
            "CALL" if !value.is_zero() => 0,
            "SELFDESTRUCT" => 1,
            "CREATE" => 2,
            "CREATE2" => 3,
            _ => return None,
        };
        Some(Self { kind, from: frame.from, to: frame.to.unwrap_or_default(), value })
    }
}

pub(super) fn internal_operations(call: &Call) -> Answer {
    let Some(frames) = Frames::of_transaction(call)? else { return json(&()) };
    json(&operations(&frames))
}

fn operations(frames: &Frames) -> Vec<Operation> {
    let ordered = frames.in_order();
    let inside = ordered.iter().filter(|frame| frame.depth > 0 && !frame.reverted);
    inside.filter_map(|frame| Operation::of(frame.frame)).collect()
}

pub(super) fn error(call: &Call) -> Answer {
    let Some(Frames(frame)) = Frames::of_transaction(call)? else { return json(&()) };
    json(&frame.output.filter(|_| frame.error.is_some()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: &str, to: u8, value: u64, calls: Vec<CallFrame>) -> CallFrame {
        CallFrame {
            typ: kind.to_owned(),
            from: Address::repeat_byte(1),
            to: Some(Address::repeat_byte(to)),
            value: Some(U256::from(value)),
            calls,
            ..CallFrame::default()
        }
    }

    #[test]
    fn reverted_operations_are_left_out() {
        let calls = vec![frame("CALL", 5, 6, vec![]), frame("CREATE", 6, 0, vec![])];
        let failed =
            CallFrame { error: Some("out of gas".to_owned()), ..frame("CALL", 4, 5, calls) };
        let inner = vec![
            frame("CALL", 3, 4, vec![frame("CREATE2", 7, 0, vec![])]),
            frame("CALL", 3, 0, vec![]),
            frame("DELEGATECALL", 3, 9, vec![]),
            failed,
            frame("SELFDESTRUCT", 8, 1, vec![]),
        ];
        let frames = Frames(frame("CALL", 2, 100, inner));
        let kinds: Vec<_> = operations(&frames).iter().map(|o| (o.kind, o.to[0])).collect();
        assert_eq!(kinds, [(0, 3), (3, 7), (1, 8)]);
        assert_eq!(frames.created(Address::repeat_byte(7)), Some(Address::repeat_byte(1)));
        assert_eq!(frames.created(Address::repeat_byte(6)), None, "it was reverted");
        let depths: Vec<_> = frames.in_order().iter().map(|frame| frame.depth).collect();
        assert_eq!(depths, [0, 1, 2, 1, 1, 1, 2, 2, 1]);
    }
}
