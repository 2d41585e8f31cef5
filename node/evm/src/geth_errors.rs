//! Provides geth's error texts for failed executions. The interpreter and the tracers use other texts.

use alloy_primitives::Address;
use revm::{
    bytecode::OpCode,
    context_interface::result::HaltReason,
    interpreter::{InstructionResult, SuccessOrHalt},
};

/// The text for the designated invalid instruction, 0xfe.
pub(super) const INVALID: &str = "invalid opcode: INVALID";
const REVERTED: &str = "execution reverted";
/// The text for a creation that has too little gas to store the code.
pub(super) const CODE_STORAGE: &str = "contract creation code storage out of gas";
/// Maximum number of words on the stack.
const STACK_LIMIT: usize = 1024;

/// The last instruction before a call ended, which some of geth's texts name.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastStep {
    pub(super) opcode: u8,
    /// Number of words on the stack before it.
    pub(super) stack: usize,
}

/// Returns the text for a call or creation that failed, or `None` if it did not fail.
pub(super) fn failure_text(result: InstructionResult, last: LastStep) -> Option<String> {
    let LastStep { opcode, stack } = last;
    let (inputs, outputs) = OpCode::new(opcode)
        .map_or((0, 0), |code| (usize::from(code.inputs()), usize::from(code.outputs())));
    Some(match result {
        InstructionResult::StackUnderflow => format!("stack underflow ({stack} <=> {inputs})"),
        InstructionResult::StackOverflow => {
            format!("stack limit reached {stack} ({})", STACK_LIMIT + inputs - outputs)
        }
        InstructionResult::OpcodeNotFound | InstructionResult::NotActivated => {
            format!("invalid opcode: {}", opcode_text(opcode))
        }
        InstructionResult::ReentrancySentryOOG => {
            "out of gas: not enough gas for reentrancy sentry".to_owned()
        }
        InstructionResult::InvalidOperandOOG => "gas uint64 overflow".to_owned(),
        result => match SuccessOrHalt::<HaltReason>::from(result) {
            SuccessOrHalt::Halt(reason) => halt_text(&reason),
            SuccessOrHalt::Revert => REVERTED.to_owned(),
            _ => return None,
        },
    })
}

/// Returns the text for an opcode that the fork does not define, which is its name if a later fork defines it.
fn opcode_text(opcode: u8) -> String {
    match OpCode::new(opcode) {
        Some(code) => code.as_str().to_owned(),
        None => format!("opcode {opcode:#x} not defined"),
    }
}

/// Returns the text for a precompile that refused its input. `revm` does not report the reason, but for most
/// precompiles it follows from the length of the input.
pub(super) fn precompile_text(address: Address, input: usize) -> &'static str {
    const WRONG_LENGTH: &str = "invalid input length";
    let number = match address.as_slice().split_last() {
        Some((number, zeros)) if zeros.iter().all(|byte| *byte == 0) => *number,
        _ => 0,
    };
    match number {
        0x08 if !input.is_multiple_of(192) => "bad elliptic curve pairing size",
        0x09 if input != 213 => WRONG_LENGTH,
        0x09 => "invalid final flag",
        0x0a if input != 192 => WRONG_LENGTH,
        0x0b if input != 256 => WRONG_LENGTH,
        0x0c if input == 0 || !input.is_multiple_of(160) => WRONG_LENGTH,
        0x0d if input != 512 => WRONG_LENGTH,
        0x0e if input == 0 || !input.is_multiple_of(288) => WRONG_LENGTH,
        0x0f if input == 0 || !input.is_multiple_of(384) => WRONG_LENGTH,
        0x10 if input != 64 => WRONG_LENGTH,
        0x11 if input != 128 => WRONG_LENGTH,
        _ => "precompiled failed",
    }
}

/// Converts geth's text to parity's with the table of geth's flat tracer. Texts that are not in the table are
/// unchanged.
pub(super) fn parity_text(failure: &str) -> &str {
    match failure {
        CODE_STORAGE | "gas uint64 overflow" | "max code size exceeded" => "Out of gas",
        "invalid jump destination" => "Bad jump destination",
        REVERTED => "Reverted",
        "return data out of bounds" => "Out of bounds",
        "stack limit reached 1024 (1023)" => "Out of stack",
        "precompiled failed" | "invalid input length" => "Built-in failed",
        text if text.starts_with("out of gas") => "Out of gas",
        text if text.starts_with("invalid opcode:") => "Bad instruction",
        text if text.starts_with("stack underflow") => "Stack underflow",
        text => text,
    }
}

/// Returns the text for an execution that halted.
pub fn halt_text(reason: &HaltReason) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halts_have_the_texts_of_geth() {
        for (reason, text) in [
            (HaltReason::InvalidFEOpcode, "invalid opcode: INVALID"),
            (HaltReason::OpcodeNotFound, "invalid opcode"),
            (HaltReason::NotActivated, "invalid opcode"),
            (HaltReason::InvalidJump, "invalid jump destination"),
        ] {
            assert_eq!(halt_text(&reason), text);
        }
    }

    /// Checks geth's texts for failures, and the parity texts to which geth's table converts them.
    #[test]
    fn failures_have_the_texts_of_geth_and_of_parity() {
        let failed = |result, opcode, stack| failure_text(result, LastStep { opcode, stack });
        for (result, opcode, stack, geth, parity) in [
            (InstructionResult::Revert, 0xfd, 2, "execution reverted", "Reverted"),
            (InstructionResult::OutOfGas, 0x01, 2, "out of gas", "Out of gas"),
            (InstructionResult::MemoryOOG, 0x52, 2, "out of gas", "Out of gas"),
            (InstructionResult::InvalidOperandOOG, 0x52, 2, "gas uint64 overflow", "Out of gas"),
            (
                InstructionResult::StackUnderflow,
                0xf1,
                1,
                "stack underflow (1 <=> 7)",
                "Stack underflow",
            ),
            (
                InstructionResult::StackUnderflow,
                0x80,
                0,
                "stack underflow (0 <=> 1)",
                "Stack underflow",
            ),
            (
                InstructionResult::StackOverflow,
                0x60,
                1024,
                "stack limit reached 1024 (1023)",
                "Out of stack",
            ),
            (
                InstructionResult::InvalidFEOpcode,
                0xfe,
                0,
                "invalid opcode: INVALID",
                "Bad instruction",
            ),
            (InstructionResult::NotActivated, 0x5f, 0, "invalid opcode: PUSH0", "Bad instruction"),
            (
                InstructionResult::OpcodeNotFound,
                0x0c,
                0,
                "invalid opcode: opcode 0xc not defined",
                "Bad instruction",
            ),
            (
                InstructionResult::CallTooDeep,
                0xf1,
                7,
                "max call depth exceeded",
                "max call depth exceeded",
            ),
            (
                InstructionResult::OutOfFunds,
                0xf1,
                7,
                "insufficient balance for transfer",
                "insufficient balance for transfer",
            ),
        ] {
            let text = failed(result, opcode, stack).unwrap();
            assert_eq!((text.as_str(), parity_text(&text)), (geth, parity));
        }
        assert_eq!(failed(InstructionResult::Stop, 0, 0), None);
        assert_eq!(failed(InstructionResult::SelfDestruct, 0xff, 1), None);
    }
}
