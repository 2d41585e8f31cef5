//! Blocks run again to be watched: what `debug_`, `trace_` and `ots_` show of mined transactions.

use super::{
    error::Error,
    eth::{Hashes, call_error},
    lines::Deadline,
    method::Call,
    stored::StoredBlock,
    text::Json,
};
use crate::{
    execution::{StateError, TraceError, TracedBlock, Tracer},
    view::StateReader,
};
use alloy_primitives::{Address, B256};
use serde::Serialize;
use std::ops::{ControlFlow, RangeBounds};
use storage::StateChanges;

/// Most bytes of the traces of one answer.
const BYTES_MAX: usize = 256 * 1024 * 1024;

/// A transaction in its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) index: usize,
    pub(super) hash: B256,
}

/// Time to run blocks again.
#[derive(Debug)]
pub(super) struct Replay<'a> {
    call: &'a Call,
    deadline: Deadline,
}

impl<'a> Replay<'a> {
    /// As much as the settings give a call.
    pub(super) fn new(call: &'a Call) -> Self {
        Self { call, deadline: call.interrupt.within(call.services.limits.trace_time) }
    }

    /// The error if the time is over.
    pub(super) fn in_time(&self) -> Result<(), Error> {
        if self.deadline.passed() { Err(self.late()) } else { Ok(()) }
    }

    fn late(&self) -> Error {
        Error::timed_out("tracing", self.call.services.limits.trace_time)
    }

    /// The trace of the transaction at `index`, which is there.
    pub(super) fn transaction<T: Tracer<StateReader>>(
        &self,
        stored: &StoredBlock,
        index: usize,
        tracer: T,
    ) -> Result<T::Trace, Error> {
        let mut traced = None;
        self.block(stored, tracer, index..=index, |_, trace| {
            traced = Some(trace);
            Ok(ControlFlow::Break(()))
        })?;
        traced.ok_or_else(|| Error::internal("a transaction is not in its block"))
    }

    /// Runs a block again, giving the traces of the wanted transactions, until `take` breaks off or there
    /// are no more.
    pub(super) fn block<T: Tracer<StateReader>>(
        &self,
        stored: &StoredBlock,
        tracer: T,
        wanted: impl RangeBounds<usize>,
        mut take: impl FnMut(Place, T::Trace) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let call = self.call;
        let header = &stored.block.header;
        let parent = header.number.checked_sub(1);
        let parent = parent.ok_or_else(|| Error::server("genesis is not traceable"))?;
        let state = call.view.state.reader_at(parent)?;
        // Receipts are thrown away, so their roots need not be right.
        let no_root = |_: &StateChanges| Ok::<_, StateError>(B256::ZERO);
        let hashes = Hashes { view: &call.view, deadline: &self.deadline };
        let spec = &call.context.spec;
        let modules = super::evmd::modules_after(call, parent)?;
        let (hash, modules) = (stored.block.hash, modules.as_deref());
        let failed = |error| match self.deadline.passed() {
            true => self.late(),
            false => trace_error(error, Address::ZERO),
        };
        let block = TracedBlock::start(spec, &state, &hashes, header, hash, modules, tracer);
        let mut block = block.map_err(failed)?;
        for tx in stored.txs() {
            self.in_time()?;
            let tx = tx?;
            let place = Place { index: tx.index, hash: tx.hash };
            let tx = tx.recovered();
            if !wanted.contains(&place.index) {
                block.pass(&tx, &no_root).map_err(failed)?;
                continue;
            }
            let trace = block.trace(&tx, &no_root).map_err(failed)?;
            if take(place, trace)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Why there is no trace, to a client that wanted one of a call by `from`.
pub(super) fn trace_error(error: TraceError, from: Address) -> Error {
    match error {
        TraceError::Tracer(text) => Error::server(text),
        TraceError::TooLarge => Error::server(error.to_string()),
        TraceError::Call(error) => call_error(error, from),
        error => Error::internal(error),
    }
}

/// A list being written as JSON, of bounded length.
#[derive(Debug, Default)]
pub(super) struct Rows(Vec<u8>);

impl Rows {
    /// Adds a row.
    ///
    /// # Errors
    /// When the list is too long.
    pub(super) fn push(&mut self, row: &impl Serialize) -> Result<(), Error> {
        self.0.push(if self.0.is_empty() { b'[' } else { b',' });
        serde_json::to_writer(&mut self.0, row).map_err(Error::internal)?;
        if self.0.len() > BYTES_MAX {
            let message = format!("traces exceed {BYTES_MAX} bytes");
            return Err(Error::limit(message, BYTES_MAX as u64, None));
        }
        Ok(())
    }

    /// The whole list.
    pub(super) fn end(mut self) -> Json {
        if self.0.is_empty() {
            self.0.push(b'[');
        }
        self.0.push(b']');
        Json::from_text(self.0)
    }
}
