//! Adapts frames to geth's `flatCallTracer`, which does not hide the same frames as the `trace_` methods and uses other
//! texts for failures.

use alloy_rpc_types_trace::parity::{Action, LocalizedTransactionTrace};

use super::completed::Note;
use crate::geth_errors::parity_text;

/// Sets the errors of frames to geth's texts, and removes hidden frames unless `precompiles` is set.
pub(super) fn complete(
    frames: &mut Vec<LocalizedTransactionTrace>,
    notes: &[Note],
    parity_errors: bool,
    precompiles: bool,
) {
    let mut notes = notes.iter();
    frames.retain_mut(|frame| {
        if matches!(frame.trace.action, Action::Selfdestruct(_)) {
            return true;
        }
        let Some(note) = notes.next() else { return true };
        if let (Some(error), Some(failure)) = (&mut frame.trace.error, &note.failure) {
            let text = if parity_errors { parity_text(failure) } else { failure };
            text.clone_into(error);
        }
        precompiles || !note.is_hidden
    });
    if !precompiles {
        number(frames);
    }
}

/// Sets the trace addresses of frames. Each frame precedes its inner frames.
fn number(frames: &mut [LocalizedTransactionTrace]) {
    // The frames on the path to the current one.
    let mut parents: Vec<usize> = Vec::new();
    for index in 0..frames.len() {
        let depth = frames[index].trace.trace_address.len();
        parents.truncate(depth);
        frames[index].trace.subtraces = 0;
        if let Some(parent) = parents.last() {
            let parent = &mut frames[*parent].trace;
            let mut address = parent.trace_address.clone();
            address.push(parent.subtraces);
            parent.subtraces += 1;
            frames[index].trace.trace_address = address;
        }
        parents.push(index);
    }
}
