//! Counts calls, errors and latencies for each method. A call increments a few atomic counters, and only errors take a
//! lock.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Upper bounds of the latency buckets in microseconds, from 25 us to 13 s, each twice the previous one. Longer calls
/// are counted in a further bucket without an upper bound.
pub const LATENCY_BOUNDS_US: [u64; 20] = {
    let mut bounds = [25; 20];
    let mut index = 1;
    while index < bounds.len() {
        bounds[index] = bounds[index - 1] * 2;
        index += 1;
    }
    bounds
};
const BUCKETS: usize = LATENCY_BOUNDS_US.len() + 1;

/// The counters of one method.
#[derive(Debug, Default)]
struct Counters {
    calls: AtomicU64,
    spent_ns: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// The counters of all methods.
#[derive(Debug)]
pub struct CallMeter {
    names: Vec<&'static str>,
    counters: Vec<Counters>,
    errors: Mutex<BTreeMap<(usize, i32), u64>>,
}

/// The values of the counters of one method.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallReading {
    /// The method, or `unknown` for all methods that do not exist.
    pub method: &'static str,
    /// Number of answered calls.
    pub calls: u64,
    /// Number of errors by code.
    pub errors: BTreeMap<i32, u64>,
    /// Total duration in seconds.
    pub seconds: f64,
    /// Number of calls in each bucket, not cumulative: one for each of [`LATENCY_BOUNDS_US`], and one for longer calls.
    pub buckets: [u64; BUCKETS],
}

impl CallMeter {
    /// Creates counters for the methods in `names`, which are identified by their index.
    pub(crate) fn new(names: Vec<&'static str>) -> Self {
        let counters = names.iter().map(|_| Counters::default()).collect();
        Self { names, counters, errors: Mutex::default() }
    }

    /// Counts a call of the method with this index. `error` is the code of its error.
    pub(crate) fn count(&self, index: usize, spent: Duration, error: Option<i32>) {
        let counters = &self.counters[index];
        let bound = |us: &u64| u128::from(*us) < spent.as_micros();
        counters.calls.fetch_add(1, Relaxed);
        let ns = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
        counters.spent_ns.fetch_add(ns, Relaxed);
        counters.buckets[LATENCY_BOUNDS_US.partition_point(bound)].fetch_add(1, Relaxed);
        if let Some(code) = error {
            let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
            *errors.entry((index, code)).or_default() += 1;
        }
    }

    /// Returns the counters of all methods that have been called.
    pub fn readings(&self) -> Vec<CallReading> {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let called = self.counters.iter().enumerate();
        let called = called.filter(|(_, counters)| counters.calls.load(Relaxed) > 0);
        called
            .map(|(index, counters)| CallReading {
                method: self.names[index],
                calls: counters.calls.load(Relaxed),
                errors: errors
                    .range((index, i32::MIN)..=(index, i32::MAX))
                    .map(|((_, code), count)| (*code, *count))
                    .collect(),
                seconds: Duration::from_nanos(counters.spent_ns.load(Relaxed)).as_secs_f64(),
                buckets: std::array::from_fn(|bucket| counters.buckets[bucket].load(Relaxed)),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_fall_into_their_bucket() {
        let meter = CallMeter::new(vec!["a", "b"]);
        meter.count(1, Duration::from_micros(25), None);
        meter.count(1, Duration::from_micros(26), Some(-32000));
        meter.count(1, Duration::from_secs(3600), None);
        let readings = meter.readings();
        assert_eq!(readings.len(), 1, "a method that was never called is omitted");
        let reading = &readings[0];
        assert_eq!((reading.method, reading.calls), ("b", 3));
        assert_eq!((reading.buckets[0], reading.buckets[1], reading.buckets[20]), (1, 1, 1));
        assert_eq!(reading.errors, BTreeMap::from([(-32000, 1)]));
    }
}
