//! Counts and limits the memory of a trace. Gas does not limit it: an instruction that costs three gas is recorded with
//! its whole stack, and a call with its whole input.

use revm::{
    Inspector,
    bytecode::OpCode,
    context_interface::{ContextError, ContextTr},
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, Interpreter,
        interpreter_types::{Jumps as _, LoopControl as _, MemoryTr as _},
    },
};

/// Maximum memory of the trace of one transaction, in bytes: about half a million instructions with their stacks. The
/// limit of a response may be lower. At most one trace for every two cores runs at a time.
pub(crate) const MAX_TRACE_BYTES: usize = 256 * 1024 * 1024;
/// Memory of a recorded instruction in bytes, without stack and memory contents.
const STEP_BYTES: usize = 256;
/// Memory of a recorded call or creation in bytes, without input and output.
const CALL_BYTES: usize = 512;
/// Memory of a stack item in bytes.
const WORD_BYTES: usize = 32;
/// Number of copies of the items that an instruction pushes: one is made when the trace is written.
const PUSH_COPIES: usize = 2;

/// What a tracer records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded {
    /// Calls, with their output.
    pub(super) calls: bool,
    /// Input of calls.
    pub(super) inputs: bool,
    /// Memory areas for the output of calls.
    pub(super) outputs: bool,
    /// Instructions.
    pub(super) steps: Option<Steps>,
}

/// What a tracer records about each instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    /// The stack before it.
    pub(super) stack: bool,
    /// The memory before it.
    pub(super) memory: bool,
    /// The items that it pushes.
    pub(super) pushes: bool,
    /// Maximum number of instructions that are recorded.
    pub(super) max_steps: u64,
}

impl Steps {
    pub(super) const fn pushes() -> Self {
        Self { stack: false, memory: false, pushes: true, max_steps: u64::MAX }
    }

    fn bytes(self, interpreter: &Interpreter) -> usize {
        let stack = if self.stack { interpreter.stack.len() } else { 0 };
        let pushed = match OpCode::new(interpreter.bytecode.opcode()) {
            Some(opcode) if self.pushes => usize::from(opcode.outputs()) * PUSH_COPIES,
            _ => 0,
        };
        let memory = if self.memory { interpreter.memory.size() } else { 0 };
        STEP_BYTES + (stack + pushed) * WORD_BYTES + memory
    }
}

/// Counts the memory of a trace, and ends the execution above the limit.
#[derive(Clone, Debug)]
pub struct TraceMemory {
    bytes: usize,
    recorded: Recorded,
}

impl TraceMemory {
    pub(super) const fn new(recorded: Recorded) -> Self {
        Self { bytes: 0, recorded }
    }

    /// Returns whether the trace exceeds the limit, which ends the execution.
    pub const fn is_exceeded(&self) -> bool {
        self.bytes > MAX_TRACE_BYTES
    }

    fn add(&mut self, bytes: usize, context: &mut impl ContextTr) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.is_exceeded() && context.error().is_ok() {
            *context.error() = Err(ContextError::Custom("too much to keep".into()));
        }
    }

    fn begin_call(&mut self, input: usize, context: &mut impl ContextTr) {
        if self.recorded.calls {
            let input = if self.recorded.inputs { input } else { 0 };
            self.add(CALL_BYTES + input, context);
        }
    }

    fn end_call(&mut self, output: usize, context: &mut impl ContextTr) {
        if self.recorded.calls {
            self.add(output, context);
        }
    }
}

impl<C: ContextTr> Inspector<C> for TraceMemory {
    fn step(&mut self, interpreter: &mut Interpreter, context: &mut C) {
        let Some(steps) = &mut self.recorded.steps else { return };
        let Some(left) = steps.max_steps.checked_sub(1) else { return };
        steps.max_steps = left;
        let bytes = steps.bytes(interpreter);
        self.add(bytes, context);
        if self.is_exceeded() {
            interpreter.bytecode.action().take();
            interpreter.halt_fatal();
        }
    }

    fn call(&mut self, context: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.begin_call(inputs.input.len(), context);
        if self.recorded.outputs {
            self.add(inputs.return_memory_offset.len(), context);
        }
        None
    }

    fn call_end(&mut self, context: &mut C, _: &CallInputs, outcome: &mut CallOutcome) {
        self.end_call(outcome.output().len(), context);
    }

    fn create(&mut self, context: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.begin_call(inputs.init_code().len(), context);
        None
    }

    fn create_end(&mut self, context: &mut C, _: &CreateInputs, outcome: &mut CreateOutcome) {
        self.end_call(outcome.output().len(), context);
    }
}
