//! Passes the calls of a development chain to the observer that prints them. On other chains, and if nothing is
//! printed, there is no observer, and this module does nothing.

use super::call::gas_cap;
use crate::{
    development::{CallObserver, ObservedCall},
    method::Call,
};
use evm::{Call as Execution, CallSite, ConsoleTracer};
use rpc_types::error::Error;
use state::StateReader;
use std::sync::atomic::Ordering;

fn observer(call: &Call) -> Option<&dyn CallObserver> {
    let development = call.context.development.as_deref()?;
    development.observer.as_deref().filter(|_| development.shown.load(Ordering::Relaxed))
}

/// Returns whether the calls of clients are passed to an observer.
pub(super) fn is_observed(call: &Call) -> bool {
    observer(call).is_some()
}

/// Passes a call to the observer, if there is one. The call is executed once more to record its messages, so that the
/// first execution is the same as on other chains. `error` is the error that the client receives.
pub(super) fn observe(
    call: &Call,
    site: &CallSite<'_, StateReader>,
    execution: &Execution,
    error: Option<&Error>,
) {
    let Some(observer) = observer(call) else { return };
    // The sender may not be able to pay for the gas cap, so the price is removed.
    let unpriced = Execution {
        max_fee_per_gas: 0,
        max_priority_fee_per_gas: None,
        wide_prices: None,
        ..execution.clone()
    };
    observer.observe(&ObservedCall {
        method: call.method.name,
        from: execution.from,
        to: execution.to.to().copied(),
        trace: site.trace(&unpriced, &ConsoleTracer, gas_cap(call)).ok(),
        error: error.map(Error::message),
    });
}
