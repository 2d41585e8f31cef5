//! Executes blocks again for the traces of `debug_`, `trace_` and `ots_`.

use alloy_primitives::{Address, B256};
use evm::{StateError, TraceError, TracedBlock, Tracer};
use rpc_eth::{
    eth::{CallHost, call_error},
    method::{Answer, Call},
};
use rpc_types::{error::Error, text::Json, trace_timeout::TraceTimeout};
use serde::Serialize;
use server::interrupt::Deadline;
use state::StateReader;
use state::stored::StoredBlock;
use std::{
    io,
    ops::{ControlFlow, RangeBounds},
    time::Duration,
};
use storage::StateChanges;

/// The position of a transaction in its block.
#[derive(Clone, Copy, Debug)]
pub struct TxPosition {
    /// Index in the block.
    pub index: usize,
    /// Hash of the transaction.
    pub hash: B256,
}

/// A re-execution of blocks within the time limit of a call.
#[derive(Debug)]
pub struct Replay<'a> {
    call: &'a Call,
    deadline: Deadline,
    /// Maximum duration of each traced transaction, if the client set one.
    timeout: Option<Duration>,
}

impl<'a> Replay<'a> {
    /// Limits the time to the maximum of a call in the settings.
    pub fn new(call: &'a Call) -> Self {
        let deadline = call.interrupt.within(call.services.limits.trace_timeout);
        Self { call, deadline, timeout: None }
    }

    /// Does the same as [`Self::new`], and limits the time of each traced transaction to `timeout`.
    pub fn with_timeout(call: &'a Call, timeout: Option<Duration>) -> Self {
        Self { timeout, ..Self::new(call) }
    }

    /// Returns an error if the time has expired.
    pub fn in_time(&self) -> Result<(), Error> {
        if self.deadline.passed() { Err(self.timed_out()) } else { Ok(()) }
    }

    fn timed_out(&self) -> Error {
        Error::timed_out("tracing", self.call.services.limits.trace_timeout)
    }

    /// Returns the trace of the transaction at `index`, which must exist.
    pub fn transaction<T: Tracer<StateReader>>(
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

    /// Executes a block again and passes the traces of the wanted transactions to `take`, until `take` returns `Break`.
    pub fn block<T: Tracer<StateReader>>(
        &self,
        stored: &StoredBlock,
        tracer: T,
        wanted: impl RangeBounds<usize>,
        mut take: impl FnMut(TxPosition, T::Trace) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let call = self.call;
        let header = &stored.block.header;
        let parent = header.number.checked_sub(1);
        let parent = parent.ok_or_else(|| Error::server("genesis is not traceable"))?;
        let state = call.view.state.reader_at(parent)?;
        // The receipts are discarded, so the state roots in them may be wrong.
        let no_root = |_: &StateChanges| Ok::<_, StateError>(B256::ZERO);
        let host = CallHost::new(call, &self.deadline);
        let time = TraceTimeout::new(&host, self.timeout);
        let spec = &call.context.spec;
        let modules = rpc_eth::module_state::modules_within(call, header.number)?;
        let (hash, modules) = (stored.block.hash, modules.as_deref());
        let failed = |error| match self.deadline.passed() {
            true => self.timed_out(),
            false => trace_error(error, Address::ZERO),
        };
        // The error names the transaction, so that a client that traces many can exclude it.
        let error_with_hash = |error, hash: B256| match error {
            TraceError::TooLarge => Error::server(format!("transaction {hash}: {error}")),
            error => failed(error),
        };
        let block = TracedBlock::start(spec, &state, &time, header, hash, modules, tracer);
        let mut block = block.map_err(failed)?;
        for tx in stored.txs() {
            self.in_time()?;
            let tx = tx?;
            let position = TxPosition { index: tx.index, hash: tx.hash };
            let tx = tx.recovered();
            if !wanted.contains(&position.index) {
                block.pass(&tx, &no_root).map_err(failed)?;
                continue;
            }
            time.begin();
            let trace = block.trace(&tx, &no_root);
            // If the deadline of the call has passed, its error takes precedence.
            if !self.deadline.passed() {
                time.end()?;
            }
            let trace = trace.map_err(|error| error_with_hash(error, position.hash))?;
            if take(position, trace)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Converts the error of a trace to the error of a method. `from` is the sender of the traced call.
pub fn trace_error(error: TraceError, from: Address) -> Error {
    match error {
        TraceError::Tracer(text) => Error::server(text),
        TraceError::TooLarge => Error::server(error.to_string()),
        TraceError::Call(error) => call_error(error, from),
        error => Error::internal(error),
    }
}

/// Serialises a trace, limited in length and time. A small execution can have a huge trace, for example if each of a
/// million instructions repeats the same memory.
pub fn trace_json(call: &Call, trace: &impl Serialize) -> Answer {
    let mut list = TraceList::new(call);
    list.write(trace)?;
    Ok(Json::from_text(list.out))
}

/// Serialises a list of traces with the same limits.
#[derive(Debug)]
pub struct TraceList<'a> {
    call: &'a Call,
    deadline: Deadline,
    out: Vec<u8>,
}

impl<'a> TraceList<'a> {
    /// Creates an empty list.
    pub fn new(call: &'a Call) -> Self {
        let deadline = call.interrupt.within(call.services.limits.trace_timeout);
        Self { call, deadline, out: Vec::new() }
    }

    /// Adds an item.
    ///
    /// # Errors
    /// Returns an error if the list exceeds the limits of length or time.
    pub fn push(&mut self, item: &impl Serialize) -> Result<(), Error> {
        self.out.push(if self.out.is_empty() { b'[' } else { b',' });
        self.write(item)
    }

    fn write(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let limits = &self.call.services.limits;
        let deadline = &self.deadline;
        let mut writer =
            Writer { out: &mut self.out, limit: limits.max_response_bytes, deadline, writes: 0 };
        match serde_json::to_writer(&mut writer, value) {
            Ok(()) => Ok(()),
            Err(_) if writer.out.len() >= limits.max_response_bytes => {
                Err(Error::too_large("response", limits.max_response_bytes))
            }
            Err(_) if deadline.passed() => Err(Error::timed_out("tracing", limits.trace_timeout)),
            Err(error) => Err(Error::internal(error)),
        }
    }

    /// Completes the list.
    pub fn end(mut self) -> Json {
        if self.out.is_empty() {
            self.out.push(b'[');
        }
        self.out.push(b']');
        Json::from_text(self.out)
    }
}

/// Number of writes between two checks of the deadline. Each write is a number, a word or a run of bytes.
const WRITES_PER_DEADLINE_CHECK: u32 = 4_096;

/// A writer that fails after a maximum number of bytes or after a deadline.
struct Writer<'a> {
    out: &'a mut Vec<u8>,
    limit: usize,
    deadline: &'a Deadline,
    writes: u32,
}

impl io::Write for Writer<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.writes = self.writes.wrapping_add(1);
        if self.writes.is_multiple_of(WRITES_PER_DEADLINE_CHECK) && self.deadline.passed() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let bytes_left = self.limit.saturating_sub(self.out.len());
        self.out.extend_from_slice(&piece[..piece.len().min(bytes_left)]);
        if piece.len() > bytes_left {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
