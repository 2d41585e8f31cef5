//! How much a tracer keeps of a transaction: counted before it is kept, and bounded. Gas does not bound
//! it, for an instruction of three gas is kept with its whole stack, and a call with its whole input.

use revm::{
    Inspector,
    context_interface::{ContextError, ContextTr},
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, Interpreter,
        interpreter_types::{LoopControl as _, MemoryTr as _},
    },
};

/// Most bytes kept of one transaction: a million instructions with their stacks. The long line
/// traces a few at once.
pub(crate) const KEPT_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Bytes of an instruction, apart from stack and memory.
const STEP_BYTES: usize = 256;
/// Bytes of a call or creation, apart from its input.
const CALL_BYTES: usize = 512;
/// Bytes of a word of the stack.
const WORD_BYTES: usize = 32;

/// What is kept of each instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    /// The stack before it.
    pub(super) stack: bool,
    /// The memory before it.
    pub(super) memory: bool,
    /// How many instructions.
    pub(super) most: u64,
}

/// Counts, and ends the execution when it is too much.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    bytes: usize,
    steps: Option<Steps>,
}

impl Kept {
    pub(super) const fn new(steps: Option<Steps>) -> Self {
        Self { bytes: 0, steps }
    }

    /// Whether the execution was ended because of it.
    pub(crate) const fn is_exceeded(&self) -> bool {
        self.bytes > KEPT_BYTES_MAX
    }

    fn keep(&mut self, bytes: usize, context: &mut impl ContextTr) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.is_exceeded() && context.error().is_ok() {
            *context.error() = Err(ContextError::Custom("too much to keep".into()));
        }
    }
}

impl<C: ContextTr> Inspector<C> for Kept {
    fn step(&mut self, interpreter: &mut Interpreter, context: &mut C) {
        let Some(steps) = &mut self.steps else { return };
        let Some(left) = steps.most.checked_sub(1) else { return };
        steps.most = left;
        let stack = if steps.stack { interpreter.stack.len() * WORD_BYTES } else { 0 };
        let memory = if steps.memory { interpreter.memory.size() } else { 0 };
        self.keep(STEP_BYTES + stack + memory, context);
        if self.is_exceeded() {
            interpreter.bytecode.action().take();
            interpreter.halt_fatal();
        }
    }

    fn call(&mut self, context: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.keep(CALL_BYTES + inputs.input.len(), context);
        None
    }

    fn create(&mut self, context: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.keep(CALL_BYTES + inputs.init_code().len(), context);
        None
    }
}
