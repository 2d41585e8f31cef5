//! geth's words for how executions end, where those of the interpreter and the tracers are others.

use alloy_rpc_types_trace::geth::{CallFrame, GethTrace};
use revm::context_interface::result::HaltReason;

/// The words for the instruction that is there to be invalid, 0xfe.
pub(super) const INVALID: &str = "invalid opcode: INVALID";

/// The words for an execution that halted.
pub(crate) fn halt_text(reason: &HaltReason) -> String {
    let text = match reason {
        HaltReason::OutOfGas(_) => "out of gas",
        HaltReason::OpcodeNotFound | HaltReason::NotActivated => "invalid opcode",
        HaltReason::InvalidFEOpcode => INVALID,
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

/// Gives a trace geth's words. Errors of the flat tracer stay in parity's where those are asked for.
pub(super) fn translate(mut trace: GethTrace, parity_errors: bool) -> GethTrace {
    match &mut trace {
        GethTrace::Default(frame) => {
            let errors = frame.struct_logs.iter_mut().filter_map(|log| log.error.as_mut());
            errors.for_each(step_text);
        }
        GethTrace::CallTracer(frame) => translate_calls(frame),
        GethTrace::FlatCallTracer(frames) if !parity_errors => {
            frames.iter_mut().filter_map(|frame| frame.trace.error.as_mut()).for_each(flat_text);
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
        Some("InvalidFEOpcode") => INVALID,
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
    use alloy_rpc_types_trace::geth::{DefaultFrame, StructLog};
    use revm::interpreter::InstructionResult;

    #[test]
    fn ends_speak_as_geth() {
        for (reason, text) in [
            (HaltReason::InvalidFEOpcode, "invalid opcode: INVALID"),
            (HaltReason::OpcodeNotFound, "invalid opcode"),
            (HaltReason::NotActivated, "invalid opcode"),
            (HaltReason::InvalidJump, "invalid jump destination"),
        ] {
            assert_eq!(halt_text(&reason), text);
        }
    }

    #[test]
    fn steps_speak_as_geth() {
        let told = |result: InstructionResult| {
            let error = Some(format!("{:?}", Some(result)));
            let log = StructLog { error, ..StructLog::default() };
            let frame = DefaultFrame { struct_logs: vec![log], ..DefaultFrame::default() };
            let GethTrace::Default(frame) = translate(GethTrace::Default(frame), false) else {
                panic!("another trace");
            };
            frame.struct_logs[0].error.clone().unwrap()
        };
        assert_eq!(told(InstructionResult::StackUnderflow), "stack underflow");
        assert_eq!(told(InstructionResult::MemoryOOG), "out of gas");
        assert_eq!(told(InstructionResult::OutOfGas), "out of gas");
        assert_eq!(told(InstructionResult::InvalidJump), "invalid jump destination");
        assert_eq!(told(InstructionResult::InvalidFEOpcode), "invalid opcode: INVALID");
        assert_eq!(told(InstructionResult::OpcodeNotFound), "invalid opcode");
    }

    #[test]
    fn calls_within_calls_speak_as_geth() {
        let failed =
            |error: &str| CallFrame { error: Some(error.to_owned()), ..CallFrame::default() };
        let calls = vec![failed("Out of stack")];
        let outer = CallFrame { calls, ..failed("out of gas: out of memory") };
        let GethTrace::CallTracer(outer) = translate(GethTrace::CallTracer(outer), false) else {
            panic!("another trace");
        };
        assert_eq!(outer.error.as_deref(), Some("out of gas"));
        assert_eq!(outer.calls[0].error.as_deref(), Some("stack limit reached 1024 (1023)"));
    }
}
