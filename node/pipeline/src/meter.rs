//! Counters of one stage. The stage updates them once per batch rather than per transaction, except for refusals. A
//! reader sees the exact value of each counter, but not a consistent snapshot of all of them.

use super::recent_latency::RecentLatency;
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// The counters of a stage.
#[derive(Debug)]
pub(super) struct Meter {
    name: &'static str,
    received: AtomicU64,
    sent: AtomicU64,
    batches: AtomicU64,
    busy_ns: AtomicU64,
    idle_ns: AtomicU64,
    blocked: AtomicU64,
    rejected: Mutex<BTreeMap<&'static str, u64>>,
    latency: Mutex<RecentLatency>,
}

/// A snapshot of a [`Meter`].
#[derive(Clone, Debug, serde::Serialize)]
pub struct Reading {
    /// The name of the stage.
    pub name: &'static str,
    /// Items received.
    #[serde(rename = "in")]
    pub received: u64,
    /// Items sent to the next stage.
    #[serde(rename = "out")]
    pub sent: u64,
    /// Batches received.
    pub batches: u64,
    /// Seconds of work.
    pub busy_seconds: f64,
    /// Seconds parked.
    pub idle_seconds: f64,
    /// Number of times the stage had no credit.
    pub blocked: u64,
    /// Items refused, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Latency of the stage's steps over the last minutes, in seconds: median, 99th percentile, maximum.
    pub latency_seconds: [f64; 3],
}

impl Meter {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
            idle_ns: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
            rejected: Mutex::default(),
            latency: Mutex::new(RecentLatency::new(Instant::now())),
        }
    }

    /// Counts a received batch of `items`.
    pub(super) fn count_received(&self, items: usize) {
        self.received.fetch_add(items as u64, Relaxed);
        self.batches.fetch_add(1, Relaxed);
    }

    /// Counts `items` sent to the next stage.
    pub(super) fn count_sent(&self, items: usize) {
        self.sent.fetch_add(items as u64, Relaxed);
    }

    /// Counts a refused item. Refusals are rare or hostile, so a lock is acceptable.
    pub(super) fn reject(&self, reason: &'static str) {
        self.reject_many(reason, 1);
    }

    pub(super) fn reject_many(&self, reason: &'static str, count: u64) {
        if count > 0 {
            let mut rejected = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
            *rejected.entry(reason).or_default() += count;
        }
    }

    /// Counts a step that did work for `spent`.
    pub(super) fn busy(&self, spent: Duration) {
        let ns = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
        self.busy_ns.fetch_add(ns, Relaxed);
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        latency.record(ns, Instant::now());
    }

    pub(super) fn slept(&self, slept: Duration) {
        self.idle_ns.fetch_add(u64::try_from(slept.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(super) fn found_blocked(&self) {
        self.blocked.fetch_add(1, Relaxed);
    }

    pub(super) fn read(&self) -> Reading {
        let latency =
            self.latency.lock().unwrap_or_else(PoisonError::into_inner).read(Instant::now());
        let seconds = |ns: u64| Duration::from_nanos(ns).as_secs_f64();
        Reading {
            name: self.name,
            received: self.received.load(Relaxed),
            sent: self.sent.load(Relaxed),
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
