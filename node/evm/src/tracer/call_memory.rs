//! Records the memory areas that receive the output of calls, for `vmTrace`. `revm-inspectors` shows only the bytes
//! that were returned, and nothing if there were none. OpenEthereum and its successors show the whole area.

use std::ops::Range;

use alloy_primitives::Bytes;
use alloy_rpc_types_trace::parity::{MemoryDelta, VmTrace};
use revm::{
    Inspector,
    context_interface::ContextTr,
    interpreter::{CallInputs, CallOutcome, Interpreter, interpreter_types::MemoryTr as _},
};

/// The instructions that specify such an area.
const CALLS: [&str; 4] = ["CALL", "CALLCODE", "DELEGATECALL", "STATICCALL"];

/// Records the areas after each call. [`TraceMemory`](super::kept::TraceMemory) limits their total size.
#[derive(Debug)]
pub struct CallMemory {
    is_wanted: bool,
    /// Areas of the calls that have not ended, outermost first.
    areas: Vec<Range<usize>>,
    /// Area of the call that ended since the last instruction.
    ended: Option<Range<usize>>,
    /// Contents of the area after each call, in the order in which the calls ended.
    recorded: Vec<Option<MemoryDelta>>,
}

impl<C: ContextTr> Inspector<C> for CallMemory {
    fn step(&mut self, interpreter: &mut Interpreter, _: &mut C) {
        // The output of a call is written when its caller continues.
        let Some(area) = self.ended.take() else { return };
        let memory = (!area.is_empty()).then(|| MemoryDelta {
            off: area.start,
            data: Bytes::copy_from_slice(&interpreter.memory.slice(area)),
        });
        self.recorded.push(memory);
    }

    fn call(&mut self, _: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        if self.is_wanted {
            self.areas.push(inputs.return_memory_offset.clone());
        }
        None
    }

    fn call_end(&mut self, _: &mut C, _: &CallInputs, _: &mut CallOutcome) {
        self.ended = self.areas.pop();
    }
}

impl CallMemory {
    pub(super) const fn new(is_wanted: bool) -> Self {
        Self { is_wanted, areas: Vec::new(), ended: None, recorded: Vec::new() }
    }

    /// Adds the areas to the trace of the calls.
    pub(super) fn complete(&mut self, trace: &mut VmTrace) {
        complete(trace, &mut self.recorded.drain(..));
    }
}

fn complete(trace: &mut VmTrace, recorded: &mut impl Iterator<Item = Option<MemoryDelta>>) {
    for instruction in &mut trace.ops {
        if let Some(inner) = &mut instruction.sub {
            complete(inner, recorded);
        }
        let is_call = instruction.op.as_deref().is_some_and(|name| CALLS.contains(&name));
        if let Some(executed) = instruction.ex.as_mut().filter(|_| is_call) {
            executed.mem = recorded.next().flatten();
        }
    }
}
