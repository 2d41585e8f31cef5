//! Ingest: reads raw transactions from TCP connections, in order, in batches.
//!
//! Input: bytes from sockets (frames).
//! Output: batches of raw transactions, as slices of the read buffers.
//! State: the connections with their buffers.
//! Limits: connections and memory, which the clients of all servers share ([`budget`]); frame size, replies
//! waiting per connection, transactions and bytes per batch.
//! Back-pressure: stops reading sockets, so that TCP flow control slows the clients down.
//!
//! A frame is a 4-byte big-endian length, followed by the EIP-2718 bytes. There is one reply per frame, in
//! order: a status byte 0 and the 32-byte transaction hash, or a status byte 1, a 4-byte big-endian length
//! and UTF-8 text.

mod connection;

use super::{
    batch::{BATCH_TXS, RawBatch, RawTx, ReplyBatch},
    fault::{Fault, ListenError},
    meter::Meter,
    ring::{Inbox, Outbox},
    stage::{Progress, Stage},
    submit::Gate,
    sync::Parker,
    worker_waker::WorkerWaker,
};
use budget::{Budget, Evictable};
use connection::Connection;
use mio::{Events, Interest, Poll, Token, net::TcpListener};
use std::{
    collections::BTreeMap,
    io, mem,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Maximum bytes of one frame. A longer one cannot be skipped safely and ends the connection.
pub const MAX_FRAME_BYTES: usize = 1024 * 1024;
/// Maximum bytes of the transactions of a batch, excluding the last one. Together with the depth of the
/// rings, this limits the memory of large transactions in flight.
const MAX_BATCH_BYTES: usize = 1024 * 1024;
/// How long the stage keeps writing replies to slow clients at shutdown.
const LINGER: Duration = Duration::from_secs(1);

/// The name of this server in errors, and the flag that sets its address.
pub const INGEST_NAME: &str = "ingest";
/// See [`INGEST_NAME`].
pub const INGEST_FLAG: &str = "--ingest.address";

const LISTENER: Token = Token(0);
const WAKE: Token = Token(1);
const FIRST_CONNECTION: u64 = 2;

/// The sockets. They are opened before the stage, so that an unavailable port is reported at start.
#[derive(Debug)]
pub(super) struct Sockets {
    poll: Poll,
    listener: Option<TcpListener>,
    /// The actual address of the listener.
    pub address: Option<SocketAddr>,
    /// Wakes the stage.
    pub waker: WorkerWaker,
    budget: Arc<Budget>,
}

impl Sockets {
    /// Listens on `address`, if there is one.
    pub(super) fn open(address: Option<SocketAddr>, budget: &Arc<Budget>) -> Result<Self, Fault> {
        let socket = |what: &str| {
            let what = what.to_owned();
            move |source| Fault::Socket { what, source }
        };
        let poll = Poll::new().map_err(socket("ingest: epoll"))?;
        let waker = mio::Waker::new(poll.registry(), WAKE).map_err(socket("ingest: eventfd"))?;
        let mut listener = None;
        let mut bound = None;
        if let Some(address) = address {
            let error = |source| {
                let (server, flag) = (INGEST_NAME, INGEST_FLAG);
                Fault::Listen(vec![ListenError { server, address, flag, source }])
            };
            let mut socket_at = TcpListener::bind(address).map_err(error)?;
            bound = Some(socket_at.local_addr().map_err(error)?);
            let registry = poll.registry();
            let listening = registry.register(&mut socket_at, LISTENER, Interest::READABLE);
            listening.map_err(error)?;
            listener = Some(socket_at);
        }
        let budget = Arc::clone(budget);
        Ok(Self { poll, listener, address: bound, waker: WorkerWaker::poll(waker), budget })
    }
}

/// The stage; see the module documentation.
#[derive(Debug)]
pub(super) struct Ingest {
    sockets: Sockets,
    events: Events,
    connections: BTreeMap<u64, Connection>,
    /// Accepting failed, for example because no file descriptor was free, and must be tried again: the kernel reports
    /// waiting connections only once.
    accept_again: bool,
    next_connection: u64,
    /// The connection that was read last. The next batch begins with the connection after it.
    last_read: u64,
    /// Closes when this stage stops reading, so that RPC submissions end together with those from the sockets.
    submissions: Option<Gate>,
    replies: Inbox<ReplyBatch>,
    out: Option<Outbox<RawBatch>>,
    batch: Vec<RawTx>,
    seq: u64,
    stop: Arc<AtomicBool>,
    /// The time at which, after a shutdown request, all replies had been passed to their connections.
    answered: Option<Instant>,
    meter: Arc<Meter>,
}

impl Ingest {
    /// Creates the stage. When `stop` is set, it reads no new transactions, but still sends replies to earlier ones.
    pub(super) fn new(
        sockets: Sockets,
        submissions: Gate,
        replies: Inbox<ReplyBatch>,
        out: Outbox<RawBatch>,
        stop: Arc<AtomicBool>,
        meter: Arc<Meter>,
    ) -> Self {
        Self {
            sockets,
            events: Events::with_capacity(256),
            connections: BTreeMap::new(),
            accept_again: false,
            next_connection: FIRST_CONNECTION,
            last_read: 0,
            submissions: Some(submissions),
            replies,
            out: Some(out),
            batch: Vec::with_capacity(BATCH_TXS),
            seq: 0,
            stop,
            answered: None,
            meter,
        }
    }

    /// Polls for readiness events for at most `timeout`; returns whether there were any.
    fn poll(&mut self, timeout: Duration) -> bool {
        // An interrupted poll is treated as one without events.
        if self.sockets.poll.poll(&mut self.events, Some(timeout)).is_err() {
            return false;
        }
        let again = mem::take(&mut self.accept_again);
        let mut accept = false;
        let mut any = false;
        for event in &self.events {
            match event.token() {
                LISTENER => accept = true,
                WAKE => {}
                Token(id) => {
                    if let Some(connection) = self.connections.get_mut(&(id as u64)) {
                        connection.became_ready(event.is_readable(), event.is_writable());
                    }
                    any = true;
                }
            }
        }
        if accept || again {
            self.accept();
        }
        // A repeated attempt to accept does not count as work: without a descriptor it would keep the stage
        // awake.
        any || accept
    }

    fn accept(&mut self) {
        let Some(listener) = &self.sockets.listener else { return };
        loop {
            let (mut stream, from) = match listener.accept() {
                Ok((stream, from)) => (stream, from.ip()),
                Err(error) => {
                    self.accept_again = error.kind() != io::ErrorKind::WouldBlock;
                    return;
                }
            };
            let budget = &self.sockets.budget;
            let owner = Arc::<Evictable>::default();
            let is_proxy = budget.proxies.contains(from);
            let Ok(permit) = budget.ingest.acquire_as(from, is_proxy, 1, &owner) else {
                self.meter.reject("too_many_connections");
                continue; // Dropping the stream closes it.
            };
            let account = budget.account(from, &owner);
            let id = self.next_connection;
            self.next_connection += 1;
            let token = Token(usize::try_from(id).expect("64-bit platform"));
            let interest = Interest::READABLE | Interest::WRITABLE;
            if self.sockets.poll.registry().register(&mut stream, token, interest).is_ok() {
                self.connections.insert(id, Connection::new(stream, account, permit));
            }
        }
    }

    /// Passes results to their connections; returns whether there were any.
    fn answer(&mut self) -> bool {
        let mut worked = false;
        while let Some(ReplyBatch(replies)) = self.replies.take() {
            worked = true;
            for (id, submitted) in replies {
                // The connection may have been closed.
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.answer(&submitted);
                }
            }
        }
        worked
    }

    /// Fills the batch from the connections, round-robin.
    fn gather(&mut self) {
        let first = self.last_read + 1;
        let mut space = BatchSpace::default();
        for ids in [first..u64::MAX, 0..first] {
            for (id, connection) in self.connections.range_mut(ids) {
                if space.is_full() {
                    return;
                }
                connection.read(*id, &mut self.batch, &mut space, &self.meter);
                self.last_read = *id;
            }
        }
    }

    /// Returns whether all replies have been written, or the time for writing them has passed.
    fn is_flushed(&mut self) -> bool {
        let since = self.answered.get_or_insert_with(Instant::now);
        since.elapsed() > LINGER || self.connections.values().all(Connection::is_flushed)
    }

    fn write_and_reap(&mut self) {
        let registry = self.sockets.poll.registry();
        self.connections.retain(|_, connection| {
            connection.write();
            if connection.is_evicted() {
                self.meter.reject("evicted_connection");
            }
            let keep = !connection.is_over();
            if !keep {
                connection.deregister(registry);
            }
            keep
        });
    }
}

/// The remaining space of a batch.
#[derive(Debug)]
struct BatchSpace {
    txs: usize,
    bytes: usize,
}

impl Default for BatchSpace {
    fn default() -> Self {
        Self { txs: BATCH_TXS, bytes: MAX_BATCH_BYTES }
    }
}

impl BatchSpace {
    const fn is_full(&self) -> bool {
        self.txs == 0 || self.bytes == 0
    }

    const fn take(&mut self, bytes: usize) {
        self.txs -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Stage for Ingest {
    fn name(&self) -> &'static str {
        "ingest"
    }

    fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        let mut worked = self.poll(Duration::ZERO);
        worked |= self.answer();
        let stopping = self.stop.load(Ordering::Relaxed);
        if let Some(out) = &mut self.out {
            if !out.ready() {
                self.write_and_reap();
                return Ok(if worked { Progress::Worked } else { Progress::Blocked });
            } else if stopping {
                self.out = None; // Lets the stages behind drain.
                self.submissions = None;
            }
        }
        if self.out.is_some() {
            self.gather();
        }
        if !self.batch.is_empty() {
            worked = true;
            let txs = mem::replace(&mut self.batch, Vec::with_capacity(BATCH_TXS));
            self.meter.count_received(txs.len());
            self.meter.count_sent(txs.len());
            if let Some(out) = &mut self.out {
                out.send(RawBatch { seq: self.seq, txs });
            }
            self.seq += 1;
        }
        self.write_and_reap();
        if worked {
            return Ok(Progress::Worked);
        }
        // Ante closes the ring of replies when it has answered all transactions.
        let over = self.out.is_none() && self.replies.is_finished() && self.is_flushed();
        Ok(if over { Progress::Finished } else { Progress::Idle })
    }

    fn wake_after(&self) -> Duration {
        if self.answered.is_some() { LINGER } else { Duration::MAX }
    }

    fn sleep(&mut self, _parker: &Parker, timeout: Duration) {
        self.poll(timeout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::MAX_TX_BYTES;

    #[test]
    fn batch_is_full_at_its_maximum_of_transactions_or_bytes() {
        let mut space = BatchSpace::default();
        (1..BATCH_TXS).for_each(|_| space.take(1));
        assert!(!space.is_full());
        space.take(1);
        assert!(space.is_full());
        let mut space = BatchSpace::default();
        space.take(MAX_BATCH_BYTES - 1);
        assert!(!space.is_full());
        space.take(MAX_TX_BYTES);
        assert!(space.is_full());
    }
}
