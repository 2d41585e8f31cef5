//! Prints lines about calls of clients of a development chain: messages of contracts, and failures.

use super::{CALL, Printed, console, reason};
use alloy_primitives::Address;
use pages::text::printable;
use rpc_eth::development::{CallObserver, ObservedCall};
use std::sync::Arc;

/// Prints the calls.
#[derive(Debug)]
pub struct CallPrinter(Printed);

impl CallPrinter {
    /// Returns the observer of the calls; `None` if nothing about them is printed.
    pub fn observer(printed: Printed) -> Option<Arc<dyn CallObserver>> {
        let is_needed = printed.calls || printed.console;
        is_needed.then(|| Arc::new(Self(printed)) as Arc<dyn CallObserver>)
    }
}

impl CallObserver for CallPrinter {
    fn observe(&self, call: &ObservedCall<'_>) {
        let trace = call.trace.as_ref();
        if let Some(trace) = trace.filter(|_| self.0.console) {
            console::print(trace);
        }
        if !self.0.calls {
            return;
        }
        let failed = trace.and_then(|trace| reason::failure(&trace.outcome));
        let refused = || call.error.map(|error| format!("refused: {}", printable(error)));
        let Some(reason) = failed.or_else(refused) else { return };
        let ObservedCall { method, from, to, .. } = *call;
        tracing::info!(
            target: CALL,
            method,
            %from,
            to = to.map(tracing::field::display),
            status = "failed",
            reason,
            "{method} {from} {} {reason}",
            callee(to)
        );
    }
}

/// Returns the text of the callee.
pub(super) fn callee(to: Option<Address>) -> String {
    to.map_or_else(|| "-> contract creation".to_owned(), |to| format!("-> {to}"))
}
