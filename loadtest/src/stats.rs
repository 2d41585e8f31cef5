//! Statistics of a run: latencies, operations over time, errors.

use hdrhistogram::Histogram;
use std::time::Duration;

/// Maximum latency of the histogram, in nanoseconds: two minutes.
const MAX_LATENCY_NS: u64 = 120_000_000_000;
/// Significant digits of latencies.
const DIGITS: u8 = 3;
/// Time step of [`Stats::series`].
pub(crate) const STEP: Duration = Duration::from_millis(250);
/// Maximum number of different error texts kept.
const MAX_ERROR_TEXTS: usize = 5;

/// Creates an empty histogram of latencies in nanoseconds.
pub(crate) fn latencies() -> Histogram<u64> {
    Histogram::new_with_max(MAX_LATENCY_NS, DIGITS).expect("the constants are in range")
}

#[derive(Clone, Debug)]
pub(crate) struct Stats {
    /// Time from when a request was due until its complete response, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// Requests that were answered.
    pub(crate) requests: u64,
    /// Operations of these requests that succeeded: whole requests, or single transactions.
    pub(crate) operations: u64,
    /// Bytes of JSON-RPC responses.
    pub(crate) bytes: u64,
    /// Operations that were refused or not answered, and failed attempts to reconnect.
    pub(crate) errors: u64,
    /// The first few different error texts.
    pub(crate) error_texts: Vec<String>,
    /// Operations that succeeded in each [`STEP`] since the start.
    pub(crate) series: Vec<u64>,
    /// Time from the start of sending to the end, including the wait for requests in flight.
    pub(crate) elapsed: Duration,
}

impl Stats {
    pub(crate) fn new() -> Self {
        Self {
            latency: latencies(),
            requests: 0,
            operations: 0,
            bytes: 0,
            errors: 0,
            error_texts: Vec::new(),
            series: Vec::new(),
            elapsed: Duration::ZERO,
        }
    }

    /// Counts a response with this number of successful operations.
    pub(crate) fn answered(&mut self, since_start: Duration, latency: Duration, operations: u64) {
        self.latency.saturating_record(latency.as_nanos() as u64);
        self.requests += 1;
        self.operations += operations;
        let step = (since_start.as_nanos() / STEP.as_nanos()) as usize;
        if self.series.len() <= step {
            self.series.resize(step + 1, 0);
        }
        self.series[step] += operations;
    }

    /// Counts operations that failed.
    pub(crate) fn failed(&mut self, operations: u64, text: impl FnOnce() -> String) {
        self.errors += operations;
        if self.error_texts.len() < MAX_ERROR_TEXTS {
            let text = text();
            if !self.error_texts.contains(&text) {
                self.error_texts.push(text);
            }
        }
    }

    /// Adds the statistics of another worker or round, except its elapsed time: rounds run one
    /// after another, but workers run concurrently.
    pub(crate) fn add(&mut self, other: &Self) {
        self.latency.add(&other.latency).expect("both have the same bounds");
        self.requests += other.requests;
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.errors += other.errors;
        for text in &other.error_texts {
            if self.error_texts.len() < MAX_ERROR_TEXTS && !self.error_texts.contains(text) {
                self.error_texts.push(text.clone());
            }
        }
        if self.series.len() < other.series.len() {
            self.series.resize(other.series.len(), 0);
        }
        for (sum, count) in self.series.iter_mut().zip(&other.series) {
            *sum += count;
        }
    }

    /// Returns the number of operations per second.
    pub(crate) fn per_second(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}
