//! How much a tracer keeps of a transaction: counted before it is kept, and bounded. Gas does not bound
//! it, for an instruction of three gas is kept with its whole stack, and a call with its whole input.

use revm::{
    Inspector,
    bytecode::OpCode,
    context_interface::{ContextError, ContextTr},
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, Interpreter,
        interpreter_types::{Jumps as _, LoopControl as _, MemoryTr as _},
    },
};

/// Most bytes kept of one transaction: half a million instructions with their stacks. An answer may have
/// less, and a thread for each two cores traces at once.
pub(crate) const KEPT_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes of an instruction, apart from stack and memory.
const STEP_BYTES: usize = 256;
/// Bytes of a call or creation, apart from its input and output.
const CALL_BYTES: usize = 512;
/// Bytes of a word of the stack.
const WORD_BYTES: usize = 32;
/// What instructions push is copied once more when the trace is told.
const PUSH_COPIES: usize = 2;

/// What a tracer keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct What {
    /// Calls, with what they give.
    pub(super) calls: bool,
    /// What calls are given.
    pub(super) inputs: bool,
    /// The memory that calls return to.
    pub(super) outputs: bool,
    /// Instructions.
    pub(super) steps: Option<Steps>,
}

/// What is kept of each instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    /// The stack before it.
    pub(super) stack: bool,
    /// The memory before it.
    pub(super) memory: bool,
    /// What it pushes.
    pub(super) pushes: bool,
    /// How many instructions.
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

/// Counts, and ends the execution when it is too much.
#[derive(Clone, Debug)]
pub struct Kept {
    bytes: usize,
    what: What,
}

impl Kept {
    pub(super) const fn new(what: What) -> Self {
        Self { bytes: 0, what }
    }

    /// Whether the execution was ended because of it.
    pub const fn is_exceeded(&self) -> bool {
        self.bytes > KEPT_BYTES_MAX
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
