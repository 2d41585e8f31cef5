//! Instructions as geth's struct logger shows them.

use alloy_rpc_types_trace::geth::DefaultFrame;

use crate::execution::words::INVALID;

/// Leaves out what geth leaves out, and words errors as geth does.
pub(super) fn complete(frame: &mut DefaultFrame) {
    for step in &mut frame.struct_logs {
        // The inspector shows all of them with every instruction.
        step.refund_counter = step.refund_counter.filter(|refund| *refund > 0);
        step.memory = step.memory.take().filter(|words| !words.is_empty());
        step.return_data = step.return_data.take().filter(|data| !data.is_empty());
        step.error.iter_mut().for_each(step_text);
    }
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
    use alloy_rpc_types_trace::geth::StructLog;
    use revm::interpreter::InstructionResult;

    #[test]
    fn steps_speak_as_geth() {
        let text = |result: InstructionResult| {
            let error = Some(format!("{:?}", Some(result)));
            let log = StructLog { error, ..StructLog::default() };
            let mut frame = DefaultFrame { struct_logs: vec![log], ..DefaultFrame::default() };
            complete(&mut frame);
            frame.struct_logs[0].error.clone().unwrap()
        };
        assert_eq!(text(InstructionResult::StackUnderflow), "stack underflow");
        assert_eq!(text(InstructionResult::MemoryOOG), "out of gas");
        assert_eq!(text(InstructionResult::OutOfGas), "out of gas");
        assert_eq!(text(InstructionResult::InvalidJump), "invalid jump destination");
        assert_eq!(text(InstructionResult::InvalidFEOpcode), "invalid opcode: INVALID");
        assert_eq!(text(InstructionResult::OpcodeNotFound), "invalid opcode");
    }
}
