//! Counters of one stage. The stage adds to them once a batch, never once a transaction; readers
//! see each counter exactly and the set of them loosely.

use hdrhistogram::Histogram;
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Longest latency told apart, in nanoseconds: a minute. Anything longer counts as that.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// Significant digits of the latency histogram.
const LATENCY_DIGITS: u8 = 2;

/// What a stage did so far.
#[derive(Debug)]
pub(super) struct Meter {
    name: &'static str,
    taken: AtomicU64,
    given: AtomicU64,
    batches: AtomicU64,
    busy_ns: AtomicU64,
    idle_ns: AtomicU64,
    blocked: AtomicU64,
    rejected: Mutex<BTreeMap<&'static str, u64>>,
    latency_ns: Mutex<Histogram<u64>>,
}

/// A reading of a [`Meter`].
#[derive(Clone, Debug, serde::Serialize)]
pub struct Reading {
    /// The stage.
    pub name: &'static str,
    /// Items taken in.
    pub taken: u64,
    /// Items given on.
    pub given: u64,
    /// Batches worked on.
    pub batches: u64,
    /// Seconds at work.
    pub busy_seconds: f64,
    /// Seconds asleep.
    pub idle_seconds: f64,
    /// Times the stage found no credit.
    pub blocked: u64,
    /// Items turned away, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Latency of a batch in the stage, in seconds: median, 99th percentile, largest.
    pub latency_seconds: [f64; 3],
}

impl Meter {
    /// All at zero.
    pub(super) fn new(name: &'static str) -> Self {
        let latency = Histogram::new_with_max(LATENCY_NS_MAX, LATENCY_DIGITS);
        Self {
            name,
            taken: AtomicU64::new(0),
            given: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
            idle_ns: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
            rejected: Mutex::default(),
            latency_ns: Mutex::new(latency.expect("constant bounds are valid")),
        }
    }

    /// Counts a batch of `items` taken in.
    pub(super) fn take(&self, items: usize) {
        self.taken.fetch_add(items as u64, Relaxed);
        self.batches.fetch_add(1, Relaxed);
    }

    /// Counts `items` given on.
    pub(super) fn give(&self, items: usize) {
        self.given.fetch_add(items as u64, Relaxed);
    }

    /// Counts an item turned away. Rejections are rare or hostile; both can afford a lock.
    pub(super) fn reject(&self, reason: &'static str) {
        self.reject_many(reason, 1);
    }

    /// Counts some items turned away.
    pub(super) fn reject_many(&self, reason: &'static str, count: u64) {
        if count > 0 {
            let mut rejected = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
            *rejected.entry(reason).or_default() += count;
        }
    }

    /// Counts a step that worked for `spent`.
    pub(super) fn busy(&self, spent: Duration) {
        let ns = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
        self.busy_ns.fetch_add(ns, Relaxed);
        let mut latency = self.latency_ns.lock().unwrap_or_else(PoisonError::into_inner);
        latency.saturating_record(ns);
    }

    pub(super) fn slept(&self, slept: Duration) {
        self.idle_ns.fetch_add(u64::try_from(slept.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(super) fn found_blocked(&self) {
        self.blocked.fetch_add(1, Relaxed);
    }

    /// The counters now.
    pub(super) fn read(&self) -> Reading {
        let latency = self.latency_ns.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = |ns: u64| Duration::from_nanos(ns).as_secs_f64();
        Reading {
            name: self.name,
            taken: self.taken.load(Relaxed),
            given: self.given.load(Relaxed),
            batches: self.batches.load(Relaxed),
            busy_seconds: seconds(self.busy_ns.load(Relaxed)),
            idle_seconds: seconds(self.idle_ns.load(Relaxed)),
            blocked: self.blocked.load(Relaxed),
            rejected: self.rejected.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            latency_seconds: [
                seconds(latency.value_at_quantile(0.5)),
                seconds(latency.value_at_quantile(0.99)),
                seconds(latency.max()),
            ],
        }
    }
}
