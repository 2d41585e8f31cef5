//! Adapts the logs in frames to geth's `callTracer`: only logs that took effect, numbered by their index in the block.
//!
//! The inspector numbers the logs of a transaction in order of execution, including those of calls that fail
//! later.

use alloy_rpc_types_trace::geth::{CallFrame, CallLogFrame};

/// Removes the logs of failed calls, and numbers the others starting with `first`.
pub(super) fn number(root: &mut CallFrame, first: u64) {
    drop_undone(root, false);
    let mut logs = Vec::new();
    gather(root, &mut logs);
    logs.sort_unstable_by_key(|log| log.index);
    for (log, index) in logs.into_iter().zip(first..) {
        log.index = Some(index);
    }
}

/// Removes the logs of a frame that was reverted. A failed call reverts its inner calls too.
fn drop_undone(frame: &mut CallFrame, is_undone: bool) {
    let is_undone = is_undone || frame.error.is_some();
    if is_undone {
        frame.logs.clear();
    }
    for call in &mut frame.calls {
        drop_undone(call, is_undone);
    }
}

fn gather<'a>(frame: &'a mut CallFrame, logs: &mut Vec<&'a mut CallLogFrame>) {
    logs.extend(&mut frame.logs);
    for call in &mut frame.calls {
        gather(call, logs);
    }
}

/// Removes the inner calls of the outermost call, so that the position of its logs among them is 0.
pub(super) fn keep_only_top_call(root: &mut CallFrame) {
    root.calls.clear();
    for log in &mut root.logs {
        log.position = Some(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(logs: &[(u64, u64)], error: Option<&str>, calls: Vec<CallFrame>) -> CallFrame {
        let log = |(index, position): &(u64, u64)| CallLogFrame {
            index: Some(*index),
            position: Some(*position),
            ..CallLogFrame::default()
        };
        CallFrame {
            logs: logs.iter().map(log).collect(),
            error: error.map(str::to_owned),
            calls,
            ..CallFrame::default()
        }
    }

    fn indices_and_positions(frame: &CallFrame) -> Vec<(u64, u64)> {
        frame.logs.iter().map(|log| (log.index.unwrap(), log.position.unwrap())).collect()
    }

    /// Returns a root that emits a log, makes a call that emits one, makes a call that fails after it and its inner
    /// call emitted one each, and emits a log.
    fn root(error: Option<&str>) -> CallFrame {
        let reverted = frame(&[(3, 0)], None, Vec::new());
        let failed = frame(&[(2, 0)], Some("execution reverted"), vec![reverted]);
        frame(&[(0, 0), (4, 2)], error, vec![frame(&[(1, 0)], None, Vec::new()), failed])
    }

    #[test]
    fn only_logs_that_took_effect_are_numbered() {
        let mut root = root(None);
        number(&mut root, 7);
        assert_eq!(indices_and_positions(&root), [(7, 0), (9, 2)]);
        assert_eq!(indices_and_positions(&root.calls[0]), [(8, 0)]);
        let failed = &root.calls[1];
        assert!(failed.logs.is_empty() && failed.calls[0].logs.is_empty());
        keep_only_top_call(&mut root);
        assert!(root.calls.is_empty());
        assert_eq!(indices_and_positions(&root), [(7, 0), (9, 0)]);
    }

    #[test]
    fn failed_transaction_has_no_logs() {
        let mut root = root(Some("out of gas"));
        number(&mut root, 7);
        assert!(root.logs.is_empty() && root.calls.iter().all(|call| call.logs.is_empty()));
    }
}
