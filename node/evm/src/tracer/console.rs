//! Records what development chains print: how an execution ended, and the messages that contracts passed to
//! `console.log`.

use std::{error::Error, mem};

use alloy_primitives::{Address, Bytes, address};
use revm::{
    Inspector,
    context_interface::ContextTr,
    interpreter::{CallInputs, CallOutcome as FrameOutcome},
};
use storage::StateRead;

use super::{CompletingTracer, FinishedTx, Recorded, TraceMemory, Tracer, Watch};
use crate::{CallOutcome, TraceError, call::outcome, overlay::Overlay};
use transactions::RecoveredTx;

/// The address that `console.log` of Hardhat and Foundry calls. It has no code, so the call has no effect.
const CONSOLE: Address = address!("000000000000000000636F6e736F6c652e6c6f67");
/// Maximum number of messages of one execution. A loop would otherwise write more lines than a person can read.
const MAX_CONSOLE_MESSAGES: usize = 256;
/// Maximum bytes of the messages of one execution: a message may be as large as the memory of its contract.
const MAX_CONSOLE_BYTES: usize = 64 * 1024;

/// Records the calls to the console and the outcome.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConsoleTracer;

/// The part of an execution that a development chain prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleTrace {
    /// The input of each call to the console, including reverted ones.
    pub messages: Vec<Bytes>,
    /// Number of calls to the console that were not recorded because of the limits.
    pub omitted: u64,
    /// How the execution ended.
    pub outcome: CallOutcome,
}

/// The inspector of [`ConsoleTracer`].
#[derive(Debug, Default)]
pub struct ConsoleInspector {
    messages: Vec<Bytes>,
    bytes: usize,
    omitted: u64,
}

impl<C: ContextTr> Inspector<C> for ConsoleInspector {
    fn call(&mut self, context: &mut C, inputs: &mut CallInputs) -> Option<FrameOutcome> {
        if inputs.bytecode_address != CONSOLE {
            return None;
        }
        let bytes = self.bytes.saturating_add(inputs.input.len());
        if self.messages.len() == MAX_CONSOLE_MESSAGES || bytes > MAX_CONSOLE_BYTES {
            self.omitted += 1;
            return None;
        }
        self.bytes = bytes;
        self.messages.push(inputs.input.bytes(context));
        None
    }
}

impl<S> Tracer<S> for ConsoleTracer
where
    S: StateRead<Error: Error + Send + Sync + 'static> + 'static,
{
    type Inspector = ConsoleInspector;
    type Trace = ConsoleTrace;

    fn watch(&self) -> Result<Watch<ConsoleInspector>, TraceError> {
        let calls = Recorded { calls: true, inputs: false, outputs: false, steps: None };
        Ok((TraceMemory::new(calls), CompletingTracer::new(ConsoleInspector::default())))
    }

    fn is_exceeded(_: &ConsoleInspector) -> bool {
        false
    }

    fn trace(
        &self,
        inspector: &mut CompletingTracer<ConsoleInspector>,
        tx: &FinishedTx<'_>,
        _: &mut Overlay<'_, S>,
    ) -> Result<ConsoleTrace, TraceError> {
        let ConsoleInspector { messages, omitted, .. } = mem::take(&mut inspector.tracer);
        let outcome = outcome(tx.result.result.clone()).outcome;
        Ok(ConsoleTrace { messages, omitted, outcome })
    }

    fn trace_cosmos(&self, _: &RecoveredTx, _: u64) -> ConsoleTrace {
        let outcome = CallOutcome::Success(Bytes::new());
        ConsoleTrace { messages: Vec::new(), omitted: 0, outcome }
    }
}
