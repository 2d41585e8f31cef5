//! Blocks run again to be watched: what `debug_`, `trace_` and `ots_` show of mined transactions.

use alloy_primitives::{Address, B256};
use evm::{StateError, TraceError, TracedBlock, Tracer};
use rpc_eth::{
    eth::{CallHost, call_error},
    method::{Answer, Call},
};
use rpc_types::{error::Error, text::Json, trace_time::TraceTime};
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

/// A transaction in its block.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its index in the block.
    pub index: usize,
    /// Its hash.
    pub hash: B256,
}

/// Time to run blocks again.
#[derive(Debug)]
pub struct Replay<'a> {
    call: &'a Call,
    deadline: Deadline,
    /// Maximum time of each transaction that is traced, if the client has named one.
    timeout: Option<Duration>,
}

impl<'a> Replay<'a> {
    /// As much as the settings give a call.
    pub fn new(call: &'a Call) -> Self {
        let deadline = call.interrupt.within(call.services.limits.trace_time);
        Self { call, deadline, timeout: None }
    }

    /// The same, and each transaction that is traced has at most this time.
    pub fn with_timeout(call: &'a Call, timeout: Option<Duration>) -> Self {
        Self { timeout, ..Self::new(call) }
    }

    /// The error if the time is over.
    pub fn in_time(&self) -> Result<(), Error> {
        if self.deadline.passed() { Err(self.late()) } else { Ok(()) }
    }

    fn late(&self) -> Error {
        Error::timed_out("tracing", self.call.services.limits.trace_time)
    }

    /// The trace of the transaction at `index`, which is there.
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

    /// Runs a block again, giving the traces of the wanted transactions, until `take` breaks off or there
    /// are no more.
    pub fn block<T: Tracer<StateReader>>(
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
        let host = CallHost::new(call, &self.deadline);
        let time = TraceTime::new(&host, self.timeout);
        let spec = &call.context.spec;
        let modules = rpc_eth::module_state::modules_within(call, header.number)?;
        let (hash, modules) = (stored.block.hash, modules.as_deref());
        let failed = |error| match self.deadline.passed() {
            true => self.late(),
            false => trace_error(error, Address::ZERO),
        };
        // Who goes through many has to know which one to leave out.
        let named = |error, hash: B256| match error {
            TraceError::TooLarge => Error::server(format!("transaction {hash}: {error}")),
            error => failed(error),
        };
        let block = TracedBlock::start(spec, &state, &time, header, hash, modules, tracer);
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
            time.begin();
            let trace = block.trace(&tx, &no_root);
            // Not when the node's own time is over, which has an error of its own.
            if !self.deadline.passed() {
                time.end()?;
            }
            let trace = trace.map_err(|error| named(error, place.hash))?;
            if take(place, trace)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Why there is no trace, to a client that wanted one of a call by `from`.
pub fn trace_error(error: TraceError, from: Address) -> Error {
    match error {
        TraceError::Tracer(text) => Error::server(text),
        TraceError::TooLarge => Error::server(error.to_string()),
        TraceError::Call(error) => call_error(error, from),
        error => Error::internal(error),
    }
}

/// A trace as JSON, of bounded length and in bounded time: the same bytes may be written out for each of
/// a million instructions.
pub fn text(call: &Call, trace: &impl Serialize) -> Answer {
    let mut rows = Rows::new(call);
    rows.write(trace)?;
    Ok(Json::from_text(rows.out))
}

/// A list of traces being written so.
#[derive(Debug)]
pub struct Rows<'a> {
    call: &'a Call,
    deadline: Deadline,
    out: Vec<u8>,
}

impl<'a> Rows<'a> {
    /// An empty list.
    pub fn new(call: &'a Call) -> Self {
        let deadline = call.interrupt.within(call.services.limits.trace_time);
        Self { call, deadline, out: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// When the list is too long, or takes too long.
    pub fn push(&mut self, row: &impl Serialize) -> Result<(), Error> {
        self.out.push(if self.out.is_empty() { b'[' } else { b',' });
        self.write(row)
    }

    fn write(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let limits = &self.call.services.limits;
        let deadline = &self.deadline;
        let mut writer = Writer { out: &mut self.out, most: limits.bytes, deadline, pieces: 0 };
        match serde_json::to_writer(&mut writer, value) {
            Ok(()) => Ok(()),
            Err(_) if writer.out.len() >= limits.bytes => {
                Err(Error::too_large("response", limits.bytes))
            }
            Err(_) if deadline.passed() => Err(Error::timed_out("tracing", limits.trace_time)),
            Err(error) => Err(Error::internal(error)),
        }
    }

    /// The whole list.
    pub fn end(mut self) -> Json {
        if self.out.is_empty() {
            self.out.push(b'[');
        }
        self.out.push(b']');
        Json::from_text(self.out)
    }
}

/// Pieces written between two looks at the clock: each is a number, a word or a run of bytes.
const PIECES_A_LOOK: u32 = 4_096;

/// Writes at most this number of bytes, and not after the deadline.
struct Writer<'a> {
    out: &'a mut Vec<u8>,
    most: usize,
    deadline: &'a Deadline,
    pieces: u32,
}

impl io::Write for Writer<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.pieces = self.pieces.wrapping_add(1);
        if self.pieces.is_multiple_of(PIECES_A_LOOK) && self.deadline.passed() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let room = self.most.saturating_sub(self.out.len());
        self.out.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() > room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
