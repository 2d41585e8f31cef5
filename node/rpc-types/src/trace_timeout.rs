//! Implements the `timeout` in the options of a tracer. As in geth, it limits each traced transaction, and not the
//! transactions that are executed before it.

use crate::{error::Error, go_duration};
use alloy_primitives::B256;
use alloy_rpc_types_trace::geth::GethDebugTracingOptions;
use evm::{ExecutionCaches, ExecutionHost, StateError};
use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// Returns the timeout in a tracer's options. Without one, only the time of the whole call is limited.
///
/// # Errors
/// Returns an error if the text is not a duration in Go's syntax.
pub fn timeout(options: &GethDebugTracingOptions) -> Result<Option<Duration>, Error> {
    let timeout = options.timeout.as_deref().map(go_duration::parse).transpose();
    timeout.map_err(|error| Error::server(error.to_string()))
}

/// Cancels an execution when its trace has used up its time, or when the wrapped host cancels it.
#[expect(missing_debug_implementations, reason = "`ExecutionHost` does not require it")]
pub struct TraceTimeout<'a> {
    host: &'a dyn ExecutionHost,
    timeout: Option<Duration>,
    /// The deadline of the current trace.
    end: Cell<Option<Instant>>,
}

impl<'a> TraceTimeout<'a> {
    /// Wraps a host. Time counts only between [`Self::begin`] and [`Self::end`].
    pub const fn new(host: &'a dyn ExecutionHost, timeout: Option<Duration>) -> Self {
        Self { host, timeout, end: Cell::new(None) }
    }

    /// Starts the timeout of a trace.
    pub fn begin(&self) {
        // A timeout that the clock cannot represent never expires.
        self.end.set(self.timeout.and_then(|timeout| Instant::now().checked_add(timeout)));
    }

    /// Ends the timeout of a trace.
    ///
    /// # Errors
    /// Returns geth's error if the trace used up its time.
    pub fn end(&self) -> Result<(), Error> {
        let is_over = self.is_over();
        self.end.set(None);
        if is_over { Err(Error::server("execution timeout")) } else { Ok(()) }
    }

    fn is_over(&self) -> bool {
        self.end.get().is_some_and(|end| Instant::now() >= end)
    }
}

impl ExecutionHost for TraceTimeout<'_> {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        self.host.block_hash(number)
    }

    fn is_cancellable(&self) -> bool {
        true
    }

    fn is_cancelled(&self) -> bool {
        self.host.is_cancelled() || self.is_over()
    }

    fn caches(&self) -> Option<&ExecutionCaches> {
        self.host.caches()
    }
}
