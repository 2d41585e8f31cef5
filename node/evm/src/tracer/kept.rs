//! Counts and limits the memory of a trace. Gas does not limit it: an instruction of three gas is recorded
//! with its whole stack, and a call with its whole input.

use revm::{
    Inspector,
    bytecode::OpCode,
    context_interface::{ContextError, ContextTr},
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, Interpreter,
        interpreter_types::{Jumps as _, LoopControl as _, MemoryTr as _},
    },
};

/// Maximum bytes recorded of one transaction: half a million instructions with their stacks. The limit of a
/// response may be lower, and one thread for every two cores traces at a time.
pub(crate) const MAX_TRACE_BYTES: usize = 256 * 1024 * 1024;
/// Bytes of an instruction, without stack and memory.
const STEP_BYTES: usize = 256;
/// Bytes of a call or creation, without input and output.
const CALL_BYTES: usize = 512;
/// Bytes of a stack item.
const WORD_BYTES: usize = 32;
/// Results of instructions are copied once more when the trace is written.
const PUSH_COPIES: usize = 2;

/// What a tracer records.
#[derive(Clone, Copy, Debug)]
pub(super) struct What {
    /// Calls, with their output.
    pub(super) calls: bool,
    /// Input of calls.
    pub(super) inputs: bool,
    /// Memory areas for the output of calls.
    pub(super) outputs: bool,
    /// Instructions.
    pub(super) steps: Option<Steps>,
}

/// What is recorded of each instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    /// The stack before it.
    pub(super) stack: bool,
    /// The memory before it.
    pub(super) memory: bool,
    /// The items it pushes.
    pub(super) pushes: bool,
    /// Number of instructions.
    pub(super) most: u64,
}

impl Steps {
    pub(super) const fn pushes() -> Self {
        Self { stack: false, memory: false, pushes: true, most: u64::MAX }
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

/// Counts recorded bytes, and ends the execution above the limit.
#[derive(Clone, Debug)]
pub struct Kept {
    bytes: usize,
    what: What,
}

impl Kept {
    pub(super) const fn new(what: What) -> Self {
        Self { bytes: 0, what }
    }

    /// Whether the execution was ended for this reason.
    pub const fn is_exceeded(&self) -> bool {
        self.bytes > MAX_TRACE_BYTES
    }

    fn keep(&mut self, bytes: usize, context: &mut impl ContextTr) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.is_exceeded() && context.error().is_ok() {
            *context.error() = Err(ContextError::Custom("too much to keep".into()));
        }
    }

    fn begin_call(&mut self, input: usize, context: &mut impl ContextTr) {
        if self.what.calls {
            let input = if self.what.inputs { input } else { 0 };
            self.keep(CALL_BYTES + input, context);
        }
    }

    fn end_call(&mut self, output: usize, context: &mut impl ContextTr) {
        if self.what.calls {
            self.keep(output, context);
        }
    }
}

impl<C: ContextTr> Inspector<C> for Kept {
    fn step(&mut self, interpreter: &mut Interpreter, context: &mut C) {
        let Some(steps) = &mut self.what.steps else { return };
        let Some(left) = steps.most.checked_sub(1) else { return };
        steps.most = left;
        let bytes = steps.bytes(interpreter);
        self.keep(bytes, context);
        if self.is_exceeded() {
            interpreter.bytecode.action().take();
            interpreter.halt_fatal();
        }
    }

    fn call(&mut self, context: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.begin_call(inputs.input.len(), context);
        if self.what.outputs {
            self.keep(inputs.return_memory_offset.len(), context);
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
