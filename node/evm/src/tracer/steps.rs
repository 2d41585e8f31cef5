//! Converts instructions to the form of geth's struct logger.

use alloy_rpc_types_trace::geth::DefaultFrame;

use crate::geth_errors::INVALID;

/// Minimum length of an instruction in JSON: `{"pc":0,"op":"OR","gas":1,"gasCost":3,"depth":1}`.
const MIN_STEP_BYTES: u64 = 48;

/// Returns the number of instructions to record so that their JSON exceeds `limit` bytes. The inspector limits the
/// number of instructions, whereas geth limits bytes. 0 means no limit.
pub(super) fn to_record(limit: u64) -> u64 {
    if limit == 0 { 0 } else { limit / MIN_STEP_BYTES + 2 }
}

/// Truncates a trace after the first instruction whose end exceeds `limit` bytes of JSON, like geth's option
/// `limit`. 0 means no limit.
pub(super) fn cut(frame: &mut DefaultFrame, limit: u64) {
    if limit == 0 {
        return;
    }
    let mut bytes = 0;
    let kept = frame.struct_logs.iter().take_while(|step| {
        let is_within = bytes <= limit;
        bytes += serde_json::to_vec(step).map_or(0, |json| json.len() as u64);
        is_within
    });
    let kept = kept.count();
    frame.struct_logs.truncate(kept);
}

/// Removes what geth does not show, and sets errors to geth's texts.
pub(super) fn complete(frame: &mut DefaultFrame) {
    for step in &mut frame.struct_logs {
        // The inspector shows the three fields with every instruction.
        step.refund_counter = step.refund_counter.filter(|refund| *refund > 0);
        step.memory = step.memory.take().filter(|words| !words.is_empty());
        step.return_data = step.return_data.take().filter(|data| !data.is_empty());
        step.error.iter_mut().for_each(step_text);
    }
}

/// Converts the error of an instruction, which is the debug text of `Option<InstructionResult>`.
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
    fn limit_counts_bytes_and_includes_the_step_that_exceeds_it() {
        let frame = || DefaultFrame {
            struct_logs: vec![StructLog { op: "ADD".into(), ..StructLog::default() }; 4],
            ..DefaultFrame::default()
        };
        let bytes = serde_json::to_vec(&frame().struct_logs[0]).unwrap().len() as u64;
        assert!(bytes >= MIN_STEP_BYTES, "{bytes}");
        for (limit, kept) in [
            (0, 4),
            (1, 1),
            (bytes - 1, 1),
            (bytes, 2),
            (2 * bytes - 1, 2),
            (2 * bytes, 3),
            (9 * bytes, 4),
        ] {
            let mut frame = frame();
            cut(&mut frame, limit);
            assert_eq!(frame.struct_logs.len(), kept, "{limit}");
            assert!(limit == 0 || to_record(limit) >= kept as u64, "{limit}");
        }
    }

    #[test]
    fn errors_of_steps_have_the_texts_of_geth() {
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
