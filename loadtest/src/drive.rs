//! The loop that loads: sends requests over some connections, closed loop (the next when the last
//! is answered) or open loop (at a fixed rate, whatever the answers do), and measures latencies.
//!
//! In an open loop a latency counts from the moment the request was due, so a stall of the node is
//! seen by every request that should have been sent during it (the correction for "coordinated
//! omission"); only a late wake-up of this client's own timer, with a connection free, is not
//! charged to the node.

use crate::{
    interrupt,
    stats::Stats,
    wire::{Answer, Connection, Endpoint},
};
use anyhow::bail;
use indicatif::ProgressBar;
use mio::{Events, Interest, Poll, Token};
use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Longest sleep: bounds how late a deadline is seen.
const MAX_SLEEP: Duration = Duration::from_millis(50);
/// Connections lost one after another, without an answer between, before the run is given up.
const MAX_LOST: u32 = 20;
/// Connections lost within this time count as one: a node that restarts closes all of them.
const SAME_LOSS_WINDOW: Duration = Duration::from_millis(100);
/// Maximum wait for a node that accepts no connection, and the pause between two attempts. Each attempt stands for a
/// request that could not be sent, and counts as a failed one.
const RECONNECT_WAIT: Duration = Duration::from_secs(10);
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// Time between two looks at a source that holds its requests back.
const HOLD_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Most requests of an open loop sent before looking at answers again.
const MAX_BURST: usize = 256;
/// Requests closer than this in an open loop are sent a tick's worth together: a wake-up for each
/// would cost more than the request.
const MIN_GAP: Duration = Duration::from_micros(100);
/// A tick of the poll.
const TICK: Duration = Duration::from_millis(1);

/// Where requests come from.
pub(crate) trait Source: Send {
    /// Writes the next request of a connection; gives the operations in it, `None` when that
    /// connection has sent all it has to.
    fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> anyhow::Result<Option<u32>>;

    /// Whether there is something to be sent now: what holds back is asked again a little later.
    fn is_ready(&mut self) -> bool {
        true
    }

    /// Looks at a JSON answer: how many of its operations failed, and the first failure in words.
    fn check(&mut self, answer: &[u8], operations: u32) -> Option<(u32, String)> {
        check_json(answer, operations)
    }
}

/// Errors in an answer, or in the answers of a batch.
pub(crate) fn check_json(answer: &[u8], operations: u32) -> Option<(u32, String)> {
    const ERROR: &[u8] = b"\"error\":";
    let text = |at: usize| {
        let end = answer.len().min(at + 200);
        String::from_utf8_lossy(&answer[at..end]).into_owned()
    };
    if answer.first() == Some(&b'[') {
        // Results of what is sent in batches here hold no member of that name.
        let mut places = memchr::memmem::find_iter(answer, ERROR);
        let first = places.next()?;
        return Some((1 + places.count() as u32, text(first)));
    }
    let front = &answer[..answer.len().min(200)];
    match (memchr::memmem::find(front, ERROR), memchr::memmem::find(front, b"\"result\":")) {
        (Some(error), Some(result)) if result < error => None,
        (Some(error), _) => Some((operations, text(error))),
        (None, Some(_)) => None,
        (None, None) => Some((operations, format!("no JSON-RPC answer: {}", text(0)))),
    }
}

/// How much load, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) connections: usize,
    /// Requests under way on a connection, where the protocol can have several.
    pub(crate) depth: Option<usize>,
    /// Sends for so long; `None` until the source has no more.
    pub(crate) duration: Option<Duration>,
    /// Requests a second in all; `None` is a closed loop.
    pub(crate) rate: Option<f64>,
    /// Longest wait for an answer.
    pub(crate) timeout: Duration,
}

/// Progress of a run, seen from outside.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Operations answered.
    pub(crate) operations: AtomicU64,
    /// Ends the sending; what is under way is waited for.
    pub(crate) stop: AtomicBool,
    /// Ends at once.
    pub(crate) abandon: AtomicBool,
}

/// Runs one loop a source, each with its share of connections and rate, while a bar shows it.
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

/// One connection with what is under way on it.
struct Slot {
    /// Its number among the connections of all loops.
    number: usize,
    connection: Connection,
    /// When each request under way was due, and the operations in it.
    in_flight: VecDeque<(Instant, u32)>,
    /// Has sent all it has to.
    done: bool,
}

struct Loop<'a> {
    endpoint: &'a Endpoint,
    plan: Plan,
    depth: usize,
    /// Time between two requests in an open loop.
    gap: Option<Duration>,
    /// Until when requests are sent.
    end: Option<Instant>,
    source: Box<dyn Source + 'a>,
    watch: &'a Watch,
    poll: Poll,
    slots: Vec<Slot>,
    stats: Stats,
    payload: Vec<u8>,
    lost: u32,
    /// When the last one of them was counted.
    lost_at: Option<Instant>,
    /// Looked at first for the next request of an open loop.
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
            // What a handshake left in the buffer, and the first requests.
            self.take_answers(slot, begun)?;
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
                    self.take_answers(slot, begun)?;
                }
            }
            self.check_timeouts(now, sent_all)?;
        }
        self.stats.elapsed = begun.elapsed();
        Ok(self.stats)
    }

    /// Waits for the sockets; what is shorter than a tick of the poll is waited for awake, giving
    /// way to others.
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

    /// Closed loop: every connection has as many requests under way as it may.
    fn fill(&mut self, now: Instant) -> anyhow::Result<()> {
        for slot in 0..self.slots.len() {
            self.refill(slot, now)?;
        }
        Ok(())
    }

    fn refill(&mut self, slot: usize, now: Instant) -> anyhow::Result<()> {
        // Answers come in bursts: half a window is refilled at once, not one for one.
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

    /// Open loop: sends what has become due; gives when the next is.
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
            // Due since the last look, at which a connection was free: only our timer was late.
            let from = if due >= last_poll { now } else { due };
            self.send(slot, from)?;
            due += gap;
        }
        // What was due together on a connection goes out in one write.
        for slot in &mut self.slots {
            slot.connection.write()?;
        }
        Ok(due)
    }

    /// A connection with room for another request.
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

    fn take_answers(&mut self, number: usize, begun: Instant) -> anyhow::Result<()> {
        let now = Instant::now();
        let slot = &mut self.slots[number];
        let (stats, source) = (&mut self.stats, &mut self.source);
        let mut answered = 0;
        while !slot.in_flight.is_empty() {
            let in_flight = &mut slot.in_flight;
            let mut take = |answer: Answer<'_>| {
                let (due, operations) = in_flight.pop_front().expect("looked at above");
                let failed = match answer {
                    Answer::Taken => None,
                    Answer::Refused(text) => Some((operations, text)),
                    Answer::Json(json) => {
                        stats.bytes += json.len() as u64;
                        source.check(json, operations)
                    }
                };
                let bad = failed.as_ref().map_or(0, |(bad, _)| (*bad).min(operations));
                if let Some((_, text)) = failed {
                    stats.failed(u64::from(bad), || text);
                }
                let good = u64::from(operations - bad);
                stats.answered(now - begun, now.saturating_duration_since(due), good);
                answered += u64::from(operations);
            };
            if !slot.connection.answer(&mut take)? {
                break;
            }
        }
        if answered > 0 {
            self.lost = 0;
            self.watch.operations.fetch_add(answered, Relaxed);
        }
        if self.slots[number].connection.is_closed() {
            return self.reopen(number, "the node closed the connection".to_owned());
        }
        Ok(())
    }

    /// A lost connection is opened again; what was under way on it has failed for this reason.
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
                "{MAX_LOST} connections to {address} were lost one after another without an answer"
            );
        }
        let mut connection = self.reconnect()?;
        register(&self.poll, number, &mut connection)?;
        self.slots[number].connection = connection;
        Ok(())
    }

    /// Opens a connection; waits for a node that restarts.
    fn reconnect(&mut self) -> anyhow::Result<Connection> {
        let begun = Instant::now();
        loop {
            let error = match Connection::open(self.endpoint) {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            if begun.elapsed() >= RECONNECT_WAIT || self.watch.abandon.load(Relaxed) {
                return Err(error.context("opening a connection again"));
            }
            self.stats.failed(1, || format!("{error:#}"));
            std::thread::park_timeout(RECONNECT_PAUSE);
        }
    }

    /// A request without an answer for too long has failed, and whatever waits behind it.
    /// `sent_all` is when the last was sent: an open loop waits so long at most from then on.
    fn check_timeouts(&mut self, now: Instant, sent_all: Option<Instant>) -> anyhow::Result<()> {
        let (longest, before) = (self.plan.timeout, self.lost);
        for number in 0..self.slots.len() {
            let Some((due, _)) = self.slots[number].in_flight.front() else { continue };
            // In an open loop a request may have waited for a connection first.
            let since =
                if self.gap.is_none() { Some(*due) } else { sent_all.map(|at| at.max(*due)) };
            if since.is_some_and(|since| now.saturating_duration_since(since) > longest) {
                // All that a pause takes at once are one loss.
                self.lost = before;
                self.reopen(number, format!("no answer in {longest:.1?} (--timeout)"))?;
            }
        }
        Ok(())
    }
}

fn register(poll: &Poll, slot: usize, connection: &mut Connection) -> anyhow::Result<()> {
    let interest = Interest::READABLE | Interest::WRITABLE;
    Ok(poll.registry().register(&mut connection.stream, Token(slot), interest)?)
}
