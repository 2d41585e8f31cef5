//! geth's words for how executions end, where those of the interpreter and the tracers are others.

use alloy_rpc_types_trace::geth::{
    AccountState, CallFrame, GethDebugTracingOptions, GethTrace, PreStateFrame,
};
use revm::context_interface::result::HaltReason;

/// The words for an execution that halted.
pub(crate) fn halt_text(reason: &HaltReason) -> String {
    let text = match reason {
        HaltReason::OutOfGas(_) => "out of gas",
        HaltReason::OpcodeNotFound | HaltReason::InvalidFEOpcode | HaltReason::NotActivated => {
            "invalid opcode"
        }
        HaltReason::InvalidJump => "invalid jump destination",
        HaltReason::StackUnderflow => "stack underflow",
        HaltReason::StackOverflow => "stack limit reached 1024 (1023)",
        HaltReason::OutOfOffset => "return data out of bounds",
        HaltReason::CreateCollision => "contract address collision",
        HaltReason::CreateContractSizeLimit => "max code size exceeded",
        HaltReason::CreateInitCodeSizeLimit => "max initcode size exceeded",
        HaltReason::CreateContractStartingWithEF => "invalid code: must not begin with 0xef",
        HaltReason::NonceOverflow => "nonce uint64 overflow",
        HaltReason::OutOfFunds | HaltReason::OverflowPayment => "insufficient balance for transfer",
        HaltReason::CallTooDeep => "max call depth exceeded",
        HaltReason::StateChangeDuringStaticCall | HaltReason::CallNotAllowedInsideStatic => {
            "write protection"
        }
        HaltReason::PrecompileError => "precompile failed",
        HaltReason::PrecompileErrorWithContext(text) => return text.clone(),
    };
    text.to_owned()
}

/// What a trace's options say about its form.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Form {
    /// `flatCallTracer`: errors in parity's words.
    parity_errors: bool,
    /// `prestateTracer`: accounts that were not there too.
    include_empty: bool,
}

impl Form {
    pub(super) fn of(options: &GethDebugTracingOptions) -> Self {
        let is_set = |name: &str| options.tracer_config.0[name].as_bool().unwrap_or_default();
        let (parity_errors, include_empty) = ("convertParityErrors", "includeEmpty");
        Self { parity_errors: is_set(parity_errors), include_empty: is_set(include_empty) }
    }
}

/// Gives a trace geth's form.
pub(super) fn translate(mut trace: GethTrace, form: Form) -> GethTrace {
    match &mut trace {
        GethTrace::Default(frame) => {
            let errors = frame.struct_logs.iter_mut().filter_map(|log| log.error.as_mut());
            errors.for_each(step_text);
        }
        GethTrace::CallTracer(frame) => translate_calls(frame),
        GethTrace::FlatCallTracer(frames) if !form.parity_errors => {
            frames.iter_mut().filter_map(|frame| frame.trace.error.as_mut()).for_each(flat_text);
        }
        GethTrace::PreStateTracer(frame) if !form.include_empty => {
            let pre = match frame {
                PreStateFrame::Default(mode) => &mut mode.0,
                PreStateFrame::Diff(diff) => &mut diff.pre,
            };
            pre.retain(|_, account| !is_empty(account));
        }
        _ => {}
    }
    trace
}

fn translate_calls(frame: &mut CallFrame) {
    if let Some(error) = &mut frame.error {
        if error == "Out of stack" {
            "stack limit reached 1024 (1023)".clone_into(error);
        } else if error.starts_with("out of gas: ") {
            error.truncate("out of gas".len());
        }
    }
    frame.calls.iter_mut().for_each(translate_calls);
}

/// The account was not there.
fn is_empty(account: &AccountState) -> bool {
    account.balance.is_none_or(|balance| balance.is_zero())
        && account.nonce.unwrap_or_default() == 0
        && account.code.as_ref().is_none_or(|code| code.is_empty())
        && account.storage.is_empty()
}

/// The flat tracer speaks as parity does.
fn flat_text(error: &mut String) {
    let text = match error.as_str() {
        "Reverted" => "execution reverted",
        "Out of gas" => "out of gas",
        "Bad instruction" => "invalid opcode",
        "Bad jump destination" => "invalid jump destination",
        "Stack underflow" => "stack underflow",
        "Out of stack" => "stack limit reached 1024 (1023)",
        "Mutable Call In Static Context" => "write protection",
        "Insufficient balance for transfer" => "insufficient balance for transfer",
        _ => return,
    };
    text.clone_into(error);
}

/// An instruction's error is given as the debug text of an option of the interpreter's result.
fn step_text(error: &mut String) {
    let result = error.strip_prefix("Some(").and_then(|text| text.strip_suffix(')'));
    let text = match result {
        Some("Revert") => "execution reverted",
        Some(text) if text.ends_with("OutOfGas") || text.ends_with("OOG") => "out of gas",
        Some("OpcodeNotFound" | "NotActivated") => "invalid opcode",
        Some("InvalidFEOpcode") => "invalid opcode: INVALID",
        Some("InvalidJump") => "invalid jump destination",
        Some("StackUnderflow") => "stack underflow",
        Some("StackOverflow") => "stack limit reached 1024 (1023)",
        Some("OutOfOffset") => "return data out of bounds",
        Some("StateChangeDuringStaticCall" | "CallNotAllowedInsideStatic") => "write protection",
        _ => return,
    };
    text.clone_into(error);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, U256};
    use alloy_rpc_types_trace::geth::{DefaultFrame, DiffMode, GethDebugTracerConfig, StructLog};
    use revm::interpreter::InstructionResult;
    use std::collections::BTreeMap;

    #[test]
    fn steps_speak_as_geth() {
        let told = |result: InstructionResult| {
            let error = Some(format!("{:?}", Some(result)));
            let log = StructLog { error, ..StructLog::default() };
            let frame = DefaultFrame { struct_logs: vec![log], ..DefaultFrame::default() };
            let GethTrace::Default(frame) = translate(GethTrace::Default(frame), Form::default())
            else {
                panic!("another trace");
            };
            frame.struct_logs[0].error.clone().unwrap()
        };
        assert_eq!(told(InstructionResult::StackUnderflow), "stack underflow");
        assert_eq!(told(InstructionResult::MemoryOOG), "out of gas");
        assert_eq!(told(InstructionResult::OutOfGas), "out of gas");
        assert_eq!(told(InstructionResult::InvalidJump), "invalid jump destination");
    }

    #[test]
    fn accounts_that_were_not_there_are_left_out_unless_asked_for() {
        let (there, not) = (Address::with_last_byte(1), Address::with_last_byte(2));
        let state =
            |balance| AccountState { balance: Some(U256::from(balance)), ..Default::default() };
        let pre = BTreeMap::from([(there, state(1)), (not, state(0))]);
        let given = |config: serde_json::Value| {
            let tracer_config = GethDebugTracerConfig(config);
            let options = GethDebugTracingOptions { tracer_config, ..Default::default() };
            let trace = GethTrace::PreStateTracer(PreStateFrame::Diff(DiffMode {
                pre: pre.clone(),
                post: BTreeMap::new(),
            }));
            match translate(trace, Form::of(&options)) {
                GethTrace::PreStateTracer(PreStateFrame::Diff(diff)) => diff.pre.len(),
                _ => panic!("another trace"),
            }
        };
        assert_eq!(given(serde_json::json!({ "diffMode": true })), 1);
        assert_eq!(given(serde_json::json!({ "diffMode": true, "includeEmpty": true })), 2);
        assert_eq!(given(serde_json::Value::Null), 1);
    }

    #[test]
    fn calls_within_calls_speak_as_geth() {
        let failed =
            |error: &str| CallFrame { error: Some(error.to_owned()), ..CallFrame::default() };
        let calls = vec![failed("Out of stack")];
        let outer = CallFrame { calls, ..failed("out of gas: out of memory") };
        let GethTrace::CallTracer(outer) = translate(GethTrace::CallTracer(outer), Form::default())
        else {
            panic!("another trace");
        };
        assert_eq!(outer.error.as_deref(), Some("out of gas"));
        assert_eq!(outer.calls[0].error.as_deref(), Some("stack limit reached 1024 (1023)"));
    }
}
