//! Latencies of the last minutes. Older ones are forgotten, so that quantiles show the current behaviour.

use hdrhistogram::Histogram;
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Maximum latency recorded, in nanoseconds: a minute. Longer ones count as a minute.
const MAX_LATENCY_NS: u64 = 60_000_000_000;
/// Significant digits of the histograms.
const LATENCY_DIGITS: u8 = 2;
/// Number of histograms. Together they cover between four and five minutes.
const PERIODS: usize = 5;
/// Time that one histogram covers.
const PERIOD: Duration = Duration::from_secs(60);

/// A histogram for each of the last minutes.
#[derive(Debug)]
pub(super) struct RecentLatency {
    /// The histograms, newest last.
    periods: VecDeque<Histogram<u64>>,
    /// When the newest period ends.
    end: Instant,
}

impl RecentLatency {
    /// Starts the first period.
    pub(super) fn new(now: Instant) -> Self {
        Self { periods: (0..PERIODS).map(|_| empty()).collect(), end: now + PERIOD }
    }

    pub(super) fn record(&mut self, ns: u64, now: Instant) {
        self.advance(now);
        self.periods[PERIODS - 1].saturating_record(ns);
    }

    /// Returns the latencies of the last minutes.
    pub(super) fn read(&mut self, now: Instant) -> Histogram<u64> {
        self.advance(now);
        let mut all = empty();
        for period in &self.periods {
            all.add(period).expect("the bounds are the same");
        }
        all
    }

    /// Begins the period that contains `now`, and forgets the periods that are too old.
    fn advance(&mut self, now: Instant) {
        for _ in 0..PERIODS {
            if now < self.end {
                return;
            }
            self.periods.rotate_left(1);
            self.periods[PERIODS - 1].reset();
            self.end += PERIOD;
        }
        // After a long pause all histograms are empty.
        if now >= self.end {
            self.end = now + PERIOD;
        }
    }
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_max(MAX_LATENCY_NS, LATENCY_DIGITS).expect("constant bounds are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_forgotten_after_five_minutes() {
        let start = Instant::now();
        let mut recent = RecentLatency::new(start);
        recent.record(1000, start);
        let at = |seconds| start + Duration::from_secs(seconds);
        recent.record(9000, at(61));
        assert_eq!(recent.read(at(299)).len(), 2);
        assert_eq!(recent.read(at(300)).len(), 1, "the first minute");
        assert_eq!(recent.read(at(359)).value_at_quantile(0.5), 9023, "two digits");
        assert_eq!(recent.read(at(360)).len(), 0);
        recent.record(7, at(100_000));
        assert_eq!(recent.read(at(100_001)).len(), 1, "after a long pause");
        assert_eq!(recent.read(at(100_299)).len(), 1);
        assert_eq!(recent.read(at(100_301)).len(), 0);
    }
}
