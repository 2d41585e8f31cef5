//! The time that a client gives the trace of a transaction: the `timeout` of a tracer's options. As in geth it is
//! counted for each transaction that is traced, and not for those that run before it.

use crate::{error::Error, go_duration};
use alloy_primitives::B256;
use alloy_rpc_types_trace::geth::GethDebugTracingOptions;
use evm::{ExecutionCaches, ExecutionHost, StateError};
use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// The timeout in a tracer's options. Without one, only the time of the whole call is limited.
///
/// # Errors
/// If it is not a duration as Go writes it.
pub fn timeout(options: &GethDebugTracingOptions) -> Result<Option<Duration>, Error> {
    let timeout = options.timeout.as_deref().map(go_duration::parse).transpose();
    timeout.map_err(|error| Error::server(error.to_string()))
}

/// Gives an execution up when the time of its trace is over, or when something else would.
#[expect(missing_debug_implementations, reason = "`ExecutionHost` does not require it")]
pub struct TraceTime<'a> {
    /// Hashes of blocks, and why else to give up.
    below: &'a dyn ExecutionHost,
    timeout: Option<Duration>,
    /// When the time of the current trace is over.
    end: Cell<Option<Instant>>,
}

impl<'a> TraceTime<'a> {
    /// No time passes before [`Self::begin`].
    pub const fn new(below: &'a dyn ExecutionHost, timeout: Option<Duration>) -> Self {
        Self { below, timeout, end: Cell::new(None) }
    }

    /// A trace begins.
    pub fn begin(&self) {
        // A time beyond what the clock can tell is never over.
        self.end.set(self.timeout.and_then(|timeout| Instant::now().checked_add(timeout)));
    }

    /// The trace has ended.
    ///
    /// # Errors
    /// If its time was over, in geth's words.
    pub fn end(&self) -> Result<(), Error> {
        let is_over = self.is_over();
        self.end.set(None);
        if is_over { Err(Error::server("execution timeout")) } else { Ok(()) }
    }

    fn is_over(&self) -> bool {
        self.end.get().is_some_and(|end| Instant::now() >= end)
    }
}

impl ExecutionHost for TraceTime<'_> {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        self.below.block_hash(number)
    }

    fn may_be_given_up(&self) -> bool {
        true
    }

    fn is_given_up(&self) -> bool {
        self.below.is_given_up() || self.is_over()
    }

    fn caches(&self) -> Option<&ExecutionCaches> {
        self.below.caches()
    }
}
