//! The load loop, which sends requests over several connections and measures latencies. In a closed
//! loop, a connection sends its next request when the last one is answered; in an open loop, requests
//! are sent at a fixed rate, independently of the responses.
//!
//! In an open loop, latency is measured from the time at which the request was due, so a stall of
//! the node affects every request that should have been sent during the stall (this avoids
//! "coordinated omission"). The only delay that is not charged to the node is that of this client's
//! own timer while a connection is free.

use crate::{
    interrupt,
    stats::Stats,
    wire::{Connection, Endpoint, Response},
};
use anyhow::bail;
use indicatif::ProgressBar;
use mio::{Events, Interest, Poll, Token};
use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Maximum sleep. It bounds how late a deadline is noticed.
const MAX_SLEEP: Duration = Duration::from_millis(50);
/// Maximum number of losses of connections without a response in between, before the run fails.
const MAX_LOST: u32 = 20;
/// Connections lost within this time count as one loss: a node that restarts closes all of them.
const SAME_LOSS_WINDOW: Duration = Duration::from_millis(100);
/// Maximum wait for a node that accepts no connection, and the pause between two attempts. Each
/// failed attempt counts as a failed request.
const RECONNECT_WAIT: Duration = Duration::from_secs(10);
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// Polling interval of a source that is not ready.
const HOLD_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum number of requests that an open loop sends before it reads responses.
const MAX_BURST: usize = 256;
/// If the interval between requests of an open loop is shorter than this, all requests of a tick
/// are sent together. One wake-up per request would cost more than the request.
const MIN_GAP: Duration = Duration::from_micros(100);
/// Resolution of the poll timeout.
const TICK: Duration = Duration::from_millis(1);

/// A source of requests.
pub(crate) trait Source: Send {
    /// Writes the next request of a connection and returns its number of operations, or `None` if
    /// the connection has nothing left to send.
    fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> anyhow::Result<Option<u32>>;

    /// Returns whether a request can be sent now. A source that is not ready is polled again.
    fn is_ready(&mut self) -> bool {
        true
    }

    /// Checks a JSON-RPC response. Returns the number of failed operations and the first error, or
    /// `None` if all operations succeeded.
    fn check(&mut self, response: &[u8], operations: u32) -> Option<(u32, String)> {
        check_json(response, operations)
    }
}

/// Counts the errors in a response or in the responses of a batch.
pub(crate) fn check_json(response: &[u8], operations: u32) -> Option<(u32, String)> {
    const ERROR: &[u8] = b"\"error\":";
    let text = |at: usize| {
        let end = response.len().min(at + 200);
        String::from_utf8_lossy(&response[at..end]).into_owned()
    };
    if response.first() == Some(&b'[') {
        // None of the methods that are sent in batches here returns a member of this name.
        let mut errors = memchr::memmem::find_iter(response, ERROR);
        let first = errors.next()?;
        return Some((1 + errors.count() as u32, text(first)));
    }
    let front = &response[..response.len().min(200)];
    match (memchr::memmem::find(front, ERROR), memchr::memmem::find(front, b"\"result\":")) {
        (Some(error), Some(result)) if result < error => None,
        (Some(error), _) => Some((operations, text(error))),
        (None, Some(_)) => None,
        (None, None) => Some((operations, format!("not a JSON-RPC answer: {}", text(0)))),
    }
}

/// Amount and duration of the load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) connections: usize,
    /// Maximum requests in flight per connection, if the protocol allows several.
    pub(crate) depth: Option<usize>,
    /// How long requests are sent; `None` means until the source is exhausted.
    pub(crate) duration: Option<Duration>,
    /// Requests per second over all connections; `None` means a closed loop.
    pub(crate) rate: Option<f64>,
    /// Timeout of a request.
    pub(crate) timeout: Duration,
}

/// Progress and control of a run, shared with other threads.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Operations that succeeded.
    pub(crate) operations: AtomicU64,
    /// Stops sending; requests in flight are completed.
    pub(crate) stop: AtomicBool,
    /// Ends the run without waiting for requests in flight.
    pub(crate) abandon: AtomicBool,
}

/// Runs one loop per source, each with its share of connections and rate, and shows the progress.
pub(crate) fn drive(
    endpoint: &Endpoint,
    plan: &Plan,
    mut sources: Vec<Box<dyn Source + '_>>,
    watch: &Watch,
    bar: &ProgressBar,
) -> anyhow::Result<Stats> {
    let workers = sources.len().min(plan.connections).max(1);
    sources.truncate(workers);
    let loops: Vec<_> = sources
        .into_iter()
        .enumerate()
        .map(|(worker, source)| {
            let numbers: Vec<_> = (worker..plan.connections).step_by(workers).collect();
            Loop::open(endpoint, plan, numbers, workers, source, watch)
        })
        .collect::<anyhow::Result<_>>()?;
    let begun = Instant::now();
    let stats = std::thread::scope(|scope| {
        let threads: Vec<_> = loops
            .into_iter()
            .map(|one| {
                let run = move || one.run(begun).inspect_err(|_| watch.stop.store(true, Relaxed));
                scope.spawn(run)
            })
            .collect();
        while !threads.iter().all(|thread| thread.is_finished()) {
            show(bar, plan, begun, watch);
            if interrupt::requested() {
                watch.stop.store(true, Relaxed);
            }
            std::thread::park_timeout(MAX_SLEEP);
        }
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a load loop panicked"))?)
            .collect::<anyhow::Result<Vec<_>>>()
    })?;
    let mut sum = Stats::new();
    for stats in &stats {
        sum.add(stats);
        sum.elapsed = sum.elapsed.max(stats.elapsed);
    }
    Ok(sum)
}

fn show(bar: &ProgressBar, plan: &Plan, begun: Instant, watch: &Watch) {
    let done = watch.operations.load(Relaxed);
    match plan.duration {
        Some(duration) => {
            bar.set_length(duration.as_millis() as u64);
            bar.set_position(begun.elapsed().as_millis() as u64);
        }
        None => bar.set_position(done),
    }
    let seconds = begun.elapsed().as_secs_f64().max(1e-3);
    bar.set_message(format!("{:.0} op/s", done as f64 / seconds));
}

/// A connection and its requests in flight.
struct Slot {
    /// Its index among the connections of all loops.
    number: usize,
    connection: Connection,
    /// Due time and number of operations of each request in flight.
    in_flight: VecDeque<(Instant, u32)>,
    /// Whether the source has no more requests for this connection.
    done: bool,
}

struct Loop<'a> {
    endpoint: &'a Endpoint,
    plan: Plan,
    depth: usize,
    /// Interval between requests of an open loop.
    gap: Option<Duration>,
    /// Time at which sending ends.
    end: Option<Instant>,
    source: Box<dyn Source + 'a>,
    watch: &'a Watch,
    poll: Poll,
    slots: Vec<Slot>,
    stats: Stats,
    payload: Vec<u8>,
    lost: u32,
    /// Time of the last counted loss.
    lost_at: Option<Instant>,
    /// The slot to try first for the next request of an open loop.
    next_slot: usize,
}

impl<'a> Loop<'a> {
    fn open(
        endpoint: &'a Endpoint,
        plan: &Plan,
        numbers: Vec<usize>,
        workers: usize,
        source: Box<dyn Source + 'a>,
        watch: &'a Watch,
    ) -> anyhow::Result<Self> {
        let poll = Poll::new()?;
        let mut slots = Vec::new();
        for number in numbers {
            let mut connection = Connection::open(endpoint)?;
            register(&poll, slots.len(), &mut connection)?;
            slots.push(Slot { number, connection, in_flight: VecDeque::new(), done: false });
        }
        let gap = plan.rate.map(|rate| Duration::from_secs_f64(workers as f64 / rate));
        Ok(Self {
            endpoint,
            plan: *plan,
            depth: endpoint.depth(plan.depth),
            gap,
            end: None,
            source,
            watch,
            poll,
            slots,
            stats: Stats::new(),
            payload: Vec::new(),
            lost: 0,
            lost_at: None,
            next_slot: 0,
        })
    }

    fn run(mut self, begun: Instant) -> anyhow::Result<Stats> {
        let mut events = Events::with_capacity(256);
        self.end = self.plan.duration.map(|duration| begun + duration);
        let mut due = begun;
        let mut last_poll = begun;
        let mut sent_all = None;
        for slot in 0..self.slots.len() {
            // The handshake may have left responses in the buffer.
            self.take_responses(slot, begun)?;
        }
        loop {
            let now = Instant::now();
            let sending = self.end.is_none_or(|end| now < end) && !self.watch.stop.load(Relaxed);
            if !sending {
                sent_all.get_or_insert(now);
            }
            let wait = if !sending {
                MAX_SLEEP
            } else if let Some(gap) = self.gap {
                due = self.send_due(due, gap, last_poll, now)?;
                let wait = due.saturating_duration_since(Instant::now()).min(MAX_SLEEP);
                if gap < MIN_GAP { wait.max(TICK) } else { wait }
            } else {
                self.fill(now)?;
                if self.source.is_ready() { MAX_SLEEP } else { HOLD_POLL_INTERVAL }
            };
            last_poll = now;
            let idle = self.slots.iter().all(|slot| slot.in_flight.is_empty());
            let done = idle && (!sending || self.slots.iter().all(|slot| slot.done));
            if done || self.watch.abandon.load(Relaxed) {
                break;
            }
            self.wait(&mut events, wait, idle)?;
            for event in &events {
                let slot = event.token().0;
                if event.is_writable() {
                    self.slots[slot].connection.write()?;
                }
                if event.is_readable() {
                    self.slots[slot].connection.read();
                    self.take_responses(slot, begun)?;
                }
            }
            self.check_timeouts(now, sent_all)?;
        }
        self.stats.elapsed = begun.elapsed();
        Ok(self.stats)
    }

    /// Waits for socket events. The poll timeout has a resolution of one tick; a shorter wait
    /// yields the thread or parks it before polling.
    fn wait(&mut self, events: &mut Events, wait: Duration, idle: bool) -> anyhow::Result<()> {
        let ticks = Duration::from_millis(wait.as_millis() as u64);
        if ticks.is_zero() && !wait.is_zero() {
            if idle {
                std::thread::park_timeout(wait);
            } else {
                std::thread::yield_now();
            }
        }
        match self.poll.poll(events, Some(ticks)) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                events.clear();
                Ok(())
            }
            other => Ok(other?),
        }
    }

    /// Closed loop: fills every connection up to its maximum number of requests in flight.
    fn fill(&mut self, now: Instant) -> anyhow::Result<()> {
        for slot in 0..self.slots.len() {
            self.refill(slot, now)?;
        }
        Ok(())
    }

    fn refill(&mut self, slot: usize, now: Instant) -> anyhow::Result<()> {
        // Responses arrive in bursts, so half a window is refilled at once instead of request by request.
        if self.depth > 2 && self.slots[slot].in_flight.len() > self.depth / 2 {
            return Ok(());
        }
        while self.slots[slot].in_flight.len() < self.depth
            && !self.slots[slot].done
            && self.source.is_ready()
        {
            self.send(slot, now)?;
        }
        self.slots[slot].connection.write()
    }

    /// Open loop: sends all requests that are due and returns the time of the next one.
    fn send_due(
        &mut self,
        mut due: Instant,
        gap: Duration,
        last_poll: Instant,
        now: Instant,
    ) -> anyhow::Result<Instant> {
        for _ in 0..MAX_BURST {
            if due > now {
                break;
            }
            let Some(slot) = self.free_slot().filter(|_| self.source.is_ready()) else { break };
            // If the request became due after the last poll, when a connection was free, only the
            // timer was late.
            let from = if due >= last_poll { now } else { due };
            self.send(slot, from)?;
            due += gap;
        }
        // Requests that were due together on a connection are sent in one write.
        for slot in &mut self.slots {
            slot.connection.write()?;
        }
        Ok(due)
    }

    /// Finds a connection that may send another request.
    fn free_slot(&mut self) -> Option<usize> {
        let count = self.slots.len();
        let start = self.next_slot;
        let mut numbers = (0..count).map(|step| (start + step) % count);
        let free = numbers.find(|&slot| {
            let slot = &self.slots[slot];
            !slot.done && slot.in_flight.len() < self.depth
        })?;
        self.next_slot = (free + 1) % count;
        Some(free)
    }

    fn send(&mut self, slot: usize, due: Instant) -> anyhow::Result<()> {
        self.payload.clear();
        let slot = &mut self.slots[slot];
        match self.source.next(slot.number, &mut self.payload)? {
            None => slot.done = true,
            Some(operations) => {
                slot.connection.queue(&self.payload);
                slot.in_flight.push_back((due, operations));
            }
        }
        Ok(())
    }

    fn take_responses(&mut self, number: usize, begun: Instant) -> anyhow::Result<()> {
        let now = Instant::now();
        let slot = &mut self.slots[number];
        let (stats, source) = (&mut self.stats, &mut self.source);
        let (mut has_response, mut total_succeeded) = (false, 0);
        while !slot.in_flight.is_empty() {
            let in_flight = &mut slot.in_flight;
            let mut take = |response: Response<'_>| {
                let (due, operations) =
                    in_flight.pop_front().expect("checked by the loop condition");
                let failure = match response {
                    Response::Accepted => None,
                    Response::Refused(text) => Some((operations, text)),
                    Response::Json(json) => {
                        stats.bytes += json.len() as u64;
                        source.check(json, operations)
                    }
                };
                let failed = failure.as_ref().map_or(0, |(failed, _)| (*failed).min(operations));
                if let Some((_, text)) = failure {
                    stats.failed(u64::from(failed), || text);
                }
                let succeeded = u64::from(operations - failed);
                stats.answered(now - begun, now.saturating_duration_since(due), succeeded);
                has_response = true;
                total_succeeded += succeeded;
            };
            if !slot.connection.next_response(&mut take)? {
                break;
            }
        }
        if has_response {
            self.lost = 0;
        }
        self.watch.operations.fetch_add(total_succeeded, Relaxed);
        if self.slots[number].connection.is_closed() {
            return self.reopen(number, "the node closed the connection".to_owned());
        }
        Ok(())
    }

    /// Reopens a lost connection. Its requests in flight count as failed with `reason`.
    fn reopen(&mut self, number: usize, reason: String) -> anyhow::Result<()> {
        let slot = &mut self.slots[number];
        let lost: u64 = slot.in_flight.drain(..).map(|(_, operations)| u64::from(operations)).sum();
        if lost > 0 {
            self.stats.failed(lost, || reason);
            if self.lost_at.is_none_or(|at| at.elapsed() > SAME_LOSS_WINDOW) {
                self.lost += 1;
                self.lost_at = Some(Instant::now());
            }
        }
        if self.lost > MAX_LOST {
            let address = self.endpoint.address();
            bail!(
                "more than {MAX_LOST} connections to {address} were lost one after another without a response"
            );
        }
        let mut connection = self.reconnect()?;
        register(&self.poll, number, &mut connection)?;
        self.slots[number].connection = connection;
        Ok(())
    }

    /// Opens a connection, retrying for [`RECONNECT_WAIT`] because the node may be restarting.
    fn reconnect(&mut self) -> anyhow::Result<Connection> {
        let begun = Instant::now();
        loop {
            let error = match Connection::open(self.endpoint) {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            if begun.elapsed() >= RECONNECT_WAIT || self.watch.abandon.load(Relaxed) {
                return Err(error.context("cannot reconnect"));
            }
            self.stats.failed(1, || format!("{error:#}"));
            std::thread::park_timeout(RECONNECT_PAUSE);
        }
    }

    /// Fails requests that timed out and those queued behind them. `sent_all` is the time at which
    /// sending ended; in an open loop, the timeout begins only then.
    fn check_timeouts(&mut self, now: Instant, sent_all: Option<Instant>) -> anyhow::Result<()> {
        let (timeout, before) = (self.plan.timeout, self.lost);
        for number in 0..self.slots.len() {
            let Some((due, _)) = self.slots[number].in_flight.front() else { continue };
            // In an open loop, a request may first have waited for a connection.
            let since =
                if self.gap.is_none() { Some(*due) } else { sent_all.map(|at| at.max(*due)) };
            if since.is_some_and(|since| now.saturating_duration_since(since) > timeout) {
                // All connections that time out together count as one loss.
                self.lost = before;
                self.reopen(number, format!("no answer in {timeout:.1?} (--timeout)"))?;
            }
        }
        Ok(())
    }
}

fn register(poll: &Poll, slot: usize, connection: &mut Connection) -> anyhow::Result<()> {
    let interest = Interest::READABLE | Interest::WRITABLE;
    Ok(poll.registry().register(&mut connection.stream, Token(slot), interest)?)
}
