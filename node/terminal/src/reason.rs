//! Describes why an execution failed.

use evm::{CallOutcome, halt_text};
use pages::text::{hex, printable};
use rpc_types::revert::revert_reason;

/// Returns the reason of a failure; `None` if the execution succeeded. The text of a custom error has its selector and
/// arguments in hex, because the node does not know the contract's ABI.
pub(super) fn failure(outcome: &CallOutcome) -> Option<String> {
    match outcome {
        CallOutcome::Success(_) => None,
        CallOutcome::Revert(data) if data.is_empty() => {
            Some("reverted without a reason".to_owned())
        }
        CallOutcome::Revert(data) => Some(match revert_reason(data) {
            Some(reason) => format!("reverted: {}", printable(&reason)),
            None => format!("reverted: custom error {}", hex(data)),
        }),
        CallOutcome::Halt(reason) => Some(format!("failed: {}", halt_text(reason))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Bytes, hex};

    #[test]
    fn reasons_are_decoded() {
        let text = hex!(
            "08c379a0"
            "0000000000000000000000000000000000000000000000000000000000000020"
            "0000000000000000000000000000000000000000000000000000000000000009"
            "6e6f74206f776e65720000000000000000000000000000000000000000000000"
        );
        let panic = hex!(
            "4e487b71"
            "0000000000000000000000000000000000000000000000000000000000000011"
        );
        let reverted = |data: &[u8]| failure(&CallOutcome::Revert(Bytes::copy_from_slice(data)));
        assert_eq!(reverted(&text).unwrap(), "reverted: not owner");
        assert_eq!(reverted(&panic).unwrap(), "reverted: arithmetic underflow or overflow");
        assert_eq!(reverted(&[1, 2, 3, 4]).unwrap(), "reverted: custom error 0x01020304");
        assert_eq!(reverted(&[]).unwrap(), "reverted without a reason");
        assert_eq!(failure(&CallOutcome::Success(Bytes::new())), None);
    }
}
