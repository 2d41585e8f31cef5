//! The table of metrics: names, kinds, help and where each value comes from. `/metrics` is written
//! from it, so that nothing can be told that is not described. Names carry base units; rates are
//! the reader's to compute.

use super::Context;
use budget::ResourceReading;
use mempool::Level;
use pipeline::{Reading, RingReading};
use rpc::{CallReading, LATENCY_BOUNDS_US};
use std::{fmt::Write, time::Duration};
use storage::EnvStats;
use tokio::{task::spawn_blocking, time::timeout};

/// Time for which the metrics wait for those of the pool, which may wait for a disk that does not respond.
const POOL_WAIT: Duration = Duration::from_secs(1);

/// What kind of values a metric has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while the node runs.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by upper bound.
    Histogram,
}

impl Kind {
    /// Its name in the text format of Prometheus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A row of the table.
#[derive(Debug)]
pub struct Metric {
    /// Its name, with the unit last.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// What it says.
    pub help: &'static str,
    /// The labels of its samples.
    pub labels: &'static [&'static str],
    write: fn(&Snapshot, &mut Samples<'_>),
}

/// Every figure at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    stages: Vec<Reading>,
    rings: Vec<RingReading>,
    head_number: u64,
    head_timestamp: u64,
    clock_step_seconds: i64,
    next_base_fee: u64,
    /// `None` on an Ethereum chain.
    block_gas: Option<u64>,
    /// `None` while it is too busy to be asked, or waits for the disk.
    pool: Option<Level>,
    environments: Vec<(&'static str, EnvStats)>,
    calls: Vec<CallReading>,
    /// Connections of JSON-RPC by thread.
    connections: Vec<(String, usize)>,
    /// What clients use.
    resources: Vec<ResourceReading>,
    backend: &'static str,
}

impl Snapshot {
    pub(super) async fn take(context: &Context) -> Self {
        let view = context.published.load();
        let (chain, index) = (view.chain.clone(), context.index.clone());
        // This reads files, for which a disk that does not respond may keep the thread.
        let environments =
            spawn_blocking(move || [("chain", chain.stats()), ("index", index.stats())]);
        let environments = environments.await.ok();
        Self {
            stages: context.monitor.readings(),
            rings: context.monitor.rings(),
            head_number: view.number(),
            head_timestamp: view.head.header.timestamp,
            clock_step_seconds: context.monitor.clock_step_seconds(),
            next_base_fee: view.head.next_base_fee,
            block_gas: view.head.market().map(feemarket::Market::block_gas),
            pool: timeout(POOL_WAIT, context.pool.level()).await.ok().and_then(Result::ok),
            environments: environments.into_iter().flatten().collect(),
            calls: context.calls.readings(),
            connections: context
                .seats
                .taken()
                .map(|(name, taken)| (name.to_owned(), taken))
                .collect(),
            resources: context.budget.readings().collect(),
            backend: context.backend.name(),
        }
    }
}

/// Writes the samples of one metric.
struct Samples<'a> {
    out: &'a mut String,
    metric: &'static Metric,
}

impl Samples<'_> {
    /// One sample; `labels` are the values of the metric's labels in order.
    fn add(&mut self, labels: &[&str], value: impl std::fmt::Display) {
        self.add_suffixed("", labels, None, value);
    }

    fn add_suffixed(
        &mut self,
        suffix: &str,
        labels: &[&str],
        bound: Option<&str>,
        value: impl std::fmt::Display,
    ) {
        debug_assert_eq!(labels.len(), self.metric.labels.len(), "{}", self.metric.name);
        let pairs = self.metric.labels.iter().copied().zip(labels.iter().copied());
        let pairs: Vec<_> = pairs
            .chain(bound.map(|bound| ("le", bound)))
            .map(|(label, value)| format!("{label}=\"{value}\""))
            .collect();
        let name = self.metric.name;
        let labels =
            if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
        writeln!(self.out, "{name}{suffix}{labels} {value}").expect("a string takes any text");
    }
}

/// Writes all metrics in the text format of Prometheus.
pub(super) fn render(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    for metric in METRICS {
        let Metric { name, kind, help, .. } = metric;
        writeln!(out, "# HELP {name} {help}\n# TYPE {name} {}", kind.name())
            .expect("a string takes any text");
        (metric.write)(snapshot, &mut Samples { out: &mut out, metric });
    }
    out
}

const fn metric(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    labels: &'static [&'static str],
    write: fn(&Snapshot, &mut Samples<'_>),
) -> Metric {
    Metric { name, kind, help, labels, write }
}

/// All metrics.
pub const METRICS: &[Metric] = &[
    metric(
        "build_info",
        Kind::Gauge,
        "Always 1; the labels say what is running.",
        &["version", "backend"],
        |now, samples| samples.add(&[env!("CARGO_PKG_VERSION"), now.backend], 1),
    ),
    metric(
        "head_number",
        Kind::Gauge,
        "Number of the newest block served.",
        &[],
        |now, samples| samples.add(&[], now.head_number),
    ),
    metric(
        "head_timestamp_seconds",
        Kind::Gauge,
        "Time of the newest block served, in seconds since 1970.",
        &[],
        |now, samples| samples.add(&[], now.head_timestamp),
    ),
    metric(
        "clock_step_seconds",
        Kind::Gauge,
        "Seconds by which the system clock is ahead of the time used for new blocks after a clock step that was not followed; otherwise 0.",
        &[],
        |now, samples| samples.add(&[], now.clock_step_seconds),
    ),
    metric(
        "next_base_fee_wei",
        Kind::Gauge,
        "Base fee of the block after the newest.",
        &[],
        |now, samples| samples.add(&[], now.next_base_fee),
    ),
    metric(
        "block_gas",
        Kind::Gauge,
        "Gas of the newest block from which the next base fee follows; native chains only.",
        &[],
        |now, samples| {
            if let Some(gas) = now.block_gas {
                samples.add(&[], gas);
            }
        },
    ),
    metric(
        "pool_transactions",
        Kind::Gauge,
        "Transactions waiting in the pool: pending ones can run now, queued ones wait for a nonce.",
        &["state"],
        |now, samples| {
            if let Some(pool) = now.pool {
                samples.add(&["pending"], pool.pending);
                samples.add(&["queued"], pool.queued);
            }
        },
    ),
    metric(
        "stage_in_total",
        Kind::Counter,
        "Items a stage took in: transactions or blocks.",
        &["stage"],
        |now, samples| each_stage(now, samples, |stage| stage.taken),
    ),
    metric(
        "stage_out_total",
        Kind::Counter,
        "Items a stage gave on.",
        &["stage"],
        |now, samples| each_stage(now, samples, |stage| stage.given),
    ),
    metric(
        "stage_rejected_total",
        Kind::Counter,
        "Items a stage turned away.",
        &["stage", "reason"],
        |now, samples| {
            for stage in &now.stages {
                for (reason, count) in &stage.rejected {
                    samples.add(&[stage.name, reason], count);
                }
            }
        },
    ),
    metric(
        "stage_batches_total",
        Kind::Counter,
        "Batches a stage worked on.",
        &["stage"],
        |now, samples| each_stage(now, samples, |stage| stage.batches),
    ),
    metric(
        "stage_busy_seconds_total",
        Kind::Counter,
        "Time a stage worked, summed over its threads.",
        &["stage"],
        |now, samples| each_stage(now, samples, |stage| stage.busy_seconds),
    ),
    metric(
        "stage_idle_seconds_total",
        Kind::Counter,
        "Time a stage slept for want of input or credit.",
        &["stage"],
        |now, samples| each_stage(now, samples, |stage| stage.idle_seconds),
    ),
    metric(
        "stage_blocked_total",
        Kind::Counter,
        "Times a stage had input and no credit to give it on.",
        &["stage"],
        |now, samples| each_stage(now, samples, |stage| stage.blocked),
    ),
    metric(
        "stage_latency_seconds",
        Kind::Gauge,
        "Time of a batch in a stage since the start: median, 99th percentile, longest.",
        &["stage", "quantile"],
        |now, samples| {
            for stage in &now.stages {
                for (quantile, seconds) in ["0.5", "0.99", "1"].iter().zip(stage.latency_seconds) {
                    samples.add(&[stage.name, quantile], seconds);
                }
            }
        },
    ),
    metric(
        "ring_depth_batches",
        Kind::Gauge,
        "Batches waiting in a ring.",
        &["ring"],
        |now, samples| now.rings.iter().for_each(|ring| samples.add(&[ring.name], ring.depth)),
    ),
    metric(
        "ring_capacity_batches",
        Kind::Gauge,
        "Batches a ring has room for.",
        &["ring"],
        |now, samples| now.rings.iter().for_each(|ring| samples.add(&[ring.name], ring.capacity)),
    ),
    metric(
        "storage_map_bytes",
        Kind::Gauge,
        "Bytes an environment may grow to.",
        &["environment"],
        |now, samples| each_environment(now, samples, |stats| stats.map_bytes as f64),
    ),
    metric(
        "storage_used_bytes",
        Kind::Gauge,
        "Bytes of an environment up to its last page in use.",
        &["environment"],
        |now, samples| each_environment(now, samples, |stats| stats.used_bytes as f64),
    ),
    metric(
        "storage_readers",
        Kind::Gauge,
        "Read transactions in use in an environment, by this process and by others.",
        &["environment"],
        |now, samples| each_environment(now, samples, |stats| f64::from(stats.readers)),
    ),
    metric(
        "storage_readers_max",
        Kind::Gauge,
        "Read transactions an environment has room for.",
        &["environment"],
        |now, samples| each_environment(now, samples, |stats| f64::from(stats.readers_max)),
    ),
    metric(
        "storage_oldest_reader_seconds",
        Kind::Gauge,
        "How long the oldest read transaction has been in use, whose pages cannot be reused; one of another process, since the metrics showed it first.",
        &["environment"],
        |now, samples| {
            let age = |stats: &EnvStats| stats.oldest_reader_age.unwrap_or_default().as_secs_f64();
            each_environment(now, samples, age);
        },
    ),
    metric(
        "rpc_connections",
        Kind::Gauge,
        "JSON-RPC connections on each thread that serves them: `serve` those with small answers, `bulk` others.",
        &["thread"],
        |now, samples| {
            now.connections.iter().for_each(|(name, taken)| samples.add(&[name.as_str()], taken));
        },
    ),
    metric(
        "client_resource_used",
        Kind::Gauge,
        "Use of a resource that all clients share: bytes of memory, connections of each server, or filters.",
        &["resource"],
        |now, samples| {
            now.resources.iter().for_each(|resource| samples.add(&[resource.name], resource.used));
        },
    ),
    metric(
        "client_resource_limit",
        Kind::Gauge,
        "Limit of a resource that all clients share.",
        &["resource"],
        |now, samples| {
            now.resources.iter().for_each(|resource| samples.add(&[resource.name], resource.limit));
        },
    ),
    metric(
        "client_resource_refused_total",
        Kind::Counter,
        "Refused requests for a part of a resource that all clients share.",
        &["resource"],
        |now, samples| {
            let resources = now.resources.iter();
            resources.for_each(|resource| samples.add(&[resource.name], resource.refused));
        },
    ),
    metric(
        "client_resource_evicted_total",
        Kind::Counter,
        "Connections and filters that were closed because another client needed a part of the resource.",
        &["resource"],
        |now, samples| {
            let resources = now.resources.iter();
            resources.for_each(|resource| samples.add(&[resource.name], resource.evicted));
        },
    ),
    metric(
        "rpc_errors_total",
        Kind::Counter,
        "JSON-RPC calls answered with an error.",
        &["method", "code"],
        |now, samples| {
            for call in &now.calls {
                for (code, count) in &call.errors {
                    samples.add(&[call.method, &code.to_string()], count);
                }
            }
        },
    ),
    metric(
        "rpc_call_seconds",
        Kind::Histogram,
        "Time to answer a JSON-RPC call, from its decoding to its encoding.",
        &["method"],
        |now, samples| now.calls.iter().for_each(|call| latency(call, samples)),
    ),
];

fn each_stage<T: std::fmt::Display>(
    now: &Snapshot,
    samples: &mut Samples<'_>,
    value: impl Fn(&Reading) -> T,
) {
    for stage in &now.stages {
        samples.add(&[stage.name], value(stage));
    }
}

fn each_environment(now: &Snapshot, samples: &mut Samples<'_>, value: impl Fn(&EnvStats) -> f64) {
    for (name, stats) in &now.environments {
        samples.add(&[name], value(stats));
    }
}

fn latency(call: &CallReading, samples: &mut Samples<'_>) {
    let labels = [call.method];
    let mut below = 0;
    for (bound, count) in LATENCY_BOUNDS_US.iter().zip(call.buckets) {
        below += count;
        let bound = Duration::from_micros(*bound).as_secs_f64().to_string();
        samples.add_suffixed("_bucket", &labels, Some(&bound), below);
    }
    let all: u64 = call.buckets.iter().sum();
    samples.add_suffixed("_bucket", &labels, Some("+Inf"), all);
    samples.add_suffixed("_sum", &labels, None, call.seconds);
    samples.add_suffixed("_count", &labels, None, all);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn snapshot() -> Snapshot {
        let stats = || EnvStats {
            map_bytes: 1 << 40,
            used_bytes: 4096,
            last_txn_id: 1,
            readers: 2,
            readers_max: 126,
            oldest_reader_age: None,
        };
        let stage = Reading {
            name: "ante",
            taken: 5,
            given: 4,
            batches: 2,
            busy_seconds: 0.5,
            idle_seconds: 1.5,
            blocked: 0,
            rejected: BTreeMap::from([("already_known", 1)]),
            latency_seconds: [0.001, 0.002, 0.003],
        };
        let mut buckets = [0; LATENCY_BOUNDS_US.len() + 1];
        (buckets[0], buckets[20]) = (3, 1);
        let call = CallReading {
            method: "eth_chainId",
            calls: 4,
            errors: BTreeMap::from([(-32602, 1)]),
            seconds: 14.0,
            buckets,
        };
        Snapshot {
            clock_step_seconds: 0,
            stages: vec![stage],
            rings: vec![RingReading { name: "raw", depth: 1, capacity: 64 }],
            head_number: 7,
            head_timestamp: 1000,
            next_base_fee: 875_000_000,
            block_gas: Some(21_000),
            pool: Some(Level { pending: 3, queued: 2, bytes: 500 }),
            environments: vec![("chain", stats()), ("index", stats())],
            calls: vec![call],
            connections: vec![("serve-0".to_owned(), 2)],
            resources: vec![ResourceReading {
                name: "filters",
                limit: 10,
                used: 3,
                refused: 2,
                evicted: 1,
            }],
            backend: "scalar",
        }
    }

    #[test]
    fn every_metric_is_described_and_has_samples() {
        let text = render(&snapshot());
        let names: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len(), "a name is listed twice");
        for metric in METRICS {
            let suffix = if metric.kind == Kind::Histogram { "_count" } else { "" };
            let sample = format!("\n{}{suffix}", metric.name);
            assert!(text.contains(&format!("# HELP {} ", metric.name)), "{}", metric.name);
            assert!(text.contains(&sample), "{}", metric.name);
        }
    }

    #[test]
    fn samples_are_in_the_text_format() {
        let text = render(&snapshot());
        for line in [
            "head_number 7",
            "pool_transactions{state=\"queued\"} 2",
            "stage_rejected_total{stage=\"ante\",reason=\"already_known\"} 1",
            "rpc_connections{thread=\"serve-0\"} 2",
            "client_resource_used{resource=\"filters\"} 3",
            "rpc_errors_total{method=\"eth_chainId\",code=\"-32602\"} 1",
            "rpc_call_seconds_bucket{method=\"eth_chainId\",le=\"0.000025\"} 3",
            "rpc_call_seconds_bucket{method=\"eth_chainId\",le=\"+Inf\"} 4",
            "rpc_call_seconds_sum{method=\"eth_chainId\"} 14",
            "storage_used_bytes{environment=\"chain\"} 4096",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
