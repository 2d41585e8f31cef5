//! Adds details of calls that the tracers of `revm-inspectors` do not record: a self-destruct that transfers no
//! balance, the reason of a failure as geth's error text, and calls that geth's flat tracer hides.

use alloy_primitives::{Address, Bytes, Log, U256};
use alloy_rpc_types_trace::geth::CallFrame;
use revm::{
    Inspector,
    context_interface::{ContextTr, JournalTr as _},
    handler::FrameResult,
    inspector::JournalExt,
    interpreter::{
        CallInputs, CallOutcome, CallScheme, CreateInputs, CreateOutcome, FrameInput,
        InstructionResult, Interpreter, InterpreterAction,
        interpreter_types::{Jumps as _, LoopControl as _, RuntimeFlag as _},
    },
    primitives::hardfork::SpecId,
};

use crate::geth_errors::{CODE_STORAGE, LastStep, failure_text, precompile_text};

/// Notes about a call or a creation.
#[derive(Clone, Debug, Default)]
pub(super) struct Note {
    /// The reason of the failure, as geth's error text.
    pub(super) failure: Option<String>,
    /// Whether it is a call of a precompile that geth's flat tracer hides.
    pub(super) is_hidden: bool,
}

/// A tracer, and notes about the calls and creations that it observes, in the order in which they begin.
#[derive(Debug)]
pub struct CompletingTracer<I> {
    pub tracer: I,
    pub(super) notes: Vec<Note>,
    /// Target addresses of creations, including those that failed before they began.
    pub(super) created: Vec<Address>,
    /// Indices in `notes` of calls and creations that have not ended, outermost first.
    open: Vec<usize>,
    last: LastStep,
    is_destruction_reported: bool,
    /// Output of the last call or creation that returned. It is recorded before Homestead only.
    returned: Bytes,
}

impl<I> CompletingTracer<I> {
    pub(super) const fn new(tracer: I) -> Self {
        Self {
            tracer,
            notes: Vec::new(),
            created: Vec::new(),
            open: Vec::new(),
            last: LastStep { opcode: 0, stack: 0 },
            is_destruction_reported: false,
            returned: Bytes::new(),
        }
    }

    fn begin(&mut self, is_hidden: bool) {
        self.returned = Bytes::new();
        self.open.push(self.notes.len());
        self.notes.push(Note { failure: None, is_hidden });
    }

    fn end(&mut self, failure: Option<String>) {
        self.is_destruction_reported = false;
        if let Some(note) = self.open.pop().and_then(|index| self.notes.get_mut(index)) {
            note.failure = failure;
        }
    }
}

/// Sets the errors of a call and of its inner calls to geth's error texts. The first of `notes` belongs to the call.
pub(super) fn set_geth_errors(root: &mut CallFrame, notes: &[Note]) {
    set_next_errors(root, &mut notes.iter());
}

fn set_next_errors(frame: &mut CallFrame, notes: &mut std::slice::Iter<'_, Note>) {
    let failure = notes.next().and_then(|note| note.failure.as_ref());
    if let (Some(error), Some(failure)) = (&mut frame.error, failure) {
        error.clone_from(failure);
    }
    // A self-destruct is shown as a call, but has no note.
    for call in frame.calls.iter_mut().filter(|call| call.typ != "SELFDESTRUCT") {
        set_next_errors(call, notes);
    }
}

impl<C, I> Inspector<C> for CompletingTracer<I>
where
    C: ContextTr<Journal: JournalExt>,
    I: Inspector<C>,
{
    fn initialize_interp(&mut self, interpreter: &mut Interpreter, context: &mut C) {
        self.tracer.initialize_interp(interpreter, context);
    }

    fn step(&mut self, interpreter: &mut Interpreter, context: &mut C) {
        let opcode = interpreter.bytecode.opcode();
        self.last = LastStep { opcode, stack: interpreter.stack.len() };
        self.tracer.step(interpreter, context);
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, context: &mut C) {
        if !SpecId::is_enabled_in(interpreter.runtime_flag.spec_id(), SpecId::HOMESTEAD)
            && let Some(InterpreterAction::Return(result)) = interpreter.bytecode.action()
        {
            self.returned = result.output.clone();
        }
        self.tracer.step_end(interpreter, context);
    }

    fn log(&mut self, context: &mut C, log: Log) {
        self.tracer.log(context, log);
    }

    fn log_full(&mut self, interpreter: &mut Interpreter, context: &mut C, log: Log) {
        self.tracer.log_full(interpreter, context, log);
    }

    fn frame_start(&mut self, context: &mut C, input: &mut FrameInput) -> Option<FrameResult> {
        self.tracer.frame_start(context, input)
    }

    fn frame_end(&mut self, context: &mut C, input: &FrameInput, result: &mut FrameResult) {
        self.tracer.frame_end(context, input, result);
    }

    fn call(&mut self, context: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        // geth's flat tracer hides nested calls of precompiles. `revm-inspectors` shows those that transfer value.
        let is_hidden = matches!(inputs.scheme, CallScheme::Call | CallScheme::StaticCall)
            && !self.open.is_empty()
            && context.journal_ref().precompile_addresses().contains(&inputs.target_address);
        self.begin(is_hidden);
        self.tracer.call(context, inputs)
    }

    fn call_end(&mut self, context: &mut C, inputs: &CallInputs, outcome: &mut CallOutcome) {
        let result = outcome.result.result;
        // Since Cancun, a self-destruct with the contract itself as beneficiary changes nothing. `revm` then has no
        // journal entry to report, and the tracer would show zero addresses.
        if result == InstructionResult::SelfDestruct && !self.is_destruction_reported {
            let contract = inputs.target_address;
            let account = context.journal_ref().evm_state().get(&contract);
            let balance = account.map(|account| account.info.balance).unwrap_or_default();
            self.tracer.selfdestruct(contract, contract, balance);
        }
        self.end(match result {
            InstructionResult::PrecompileError => {
                Some(precompile_text(inputs.bytecode_address, inputs.input.len()).to_owned())
            }
            result => failure_text(result, self.last),
        });
        self.tracer.call_end(context, inputs, outcome);
    }

    fn create(&mut self, context: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.begin(false);
        let creator = context.journal_ref().evm_state().get(&inputs.caller());
        let nonce = creator.map(|account| account.info.nonce).unwrap_or_default();
        self.created.push(inputs.created_address(nonce));
        self.tracer.create(context, inputs)
    }

    fn create_end(&mut self, context: &mut C, inputs: &CreateInputs, outcome: &mut CreateOutcome) {
        let result = &outcome.result;
        // `revm` also returns `OutOfGas` if the gas does not suffice to store the code. Only then is there an output.
        let is_not_stored =
            result.result == InstructionResult::OutOfGas && !result.output.is_empty();
        self.end(match is_not_stored {
            true => Some(CODE_STORAGE.to_owned()),
            false => failure_text(result.result, self.last),
        });
        let returned = std::mem::take(&mut self.returned);
        if result.result == InstructionResult::Return && result.output.is_empty() {
            // Before Homestead, a creation succeeds even if the gas does not suffice to store its code. `revm`
            // discards the code, but geth shows it.
            let mut shown = outcome.clone();
            shown.result.output = returned;
            self.tracer.create_end(context, inputs, &mut shown);
        } else {
            self.tracer.create_end(context, inputs, outcome);
        }
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        self.is_destruction_reported = true;
        self.tracer.selfdestruct(contract, target, value);
    }
}
