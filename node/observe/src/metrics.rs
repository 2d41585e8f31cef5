//! Defines the table of metrics: name, kind, help text, labels and value of each. `/metrics` and `docs/metrics.md` are
//! generated from it, so a metric cannot be exported without a description. Names have the prefix `evmd_`, or
//! `process_` if Prometheus's client libraries export the metric under this name, and end with the base unit.
//! Prometheus computes rates.

use super::{Observed, status::Health};
use budget::ResourceReading;
use mempool::Level;
use pipeline::{Reading, RingReading};
use platform::{memory::available_memory, process::ProcessUsage};
use rpc::{CallReading, LATENCY_BOUNDS_US};
use state::{FollowingReading, VotingReading};
use std::{
    fmt::Write,
    sync::atomic::Ordering,
    time::{Duration, UNIX_EPOCH},
};
use storage::EnvStats;
use tokio::{task::spawn_blocking, time::timeout};

/// Maximum wait for the figures of the pool, which may wait for a disk that does not respond.
const POOL_WAIT: Duration = Duration::from_secs(1);

/// The type of a metric in Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while the node runs.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by upper bound.
    Histogram,
    /// Values by quantile. The only type that may have the label `quantile`.
    Summary,
}

impl Kind {
    /// The name of the type in the text format of Prometheus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// A row of the table.
#[derive(Debug)]
pub struct Metric {
    /// The name: the prefix `evmd_` or `process_`, what is measured, and the unit last.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// What it measures, as a sentence.
    pub help: &'static str,
    /// The labels of its samples.
    pub labels: &'static [&'static str],
    write: fn(&Snapshot, &mut Samples<'_>),
}

/// All values at one moment.
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
    /// `None` if the pool did not respond within [`POOL_WAIT`].
    pool: Option<Level>,
    environments: Vec<(&'static str, EnvStats)>,
    calls: Vec<CallReading>,
    /// JSON-RPC connections by thread.
    connections: Vec<(String, usize)>,
    /// Use of the resources that clients share.
    resources: Vec<ResourceReading>,
    health: Health,
    process: ProcessUsage,
    started_seconds: f64,
    backend: &'static str,
    /// The block of the newest scheduled snapshot.
    snapshot_block: u64,
    /// Scheduled snapshots that failed.
    snapshots_failed: u64,
    /// The figures of a node that follows others.
    replica: Option<FollowingReading>,
    /// The figures of a validator.
    voting: Option<VotingReading>,
}

impl Snapshot {
    pub(super) async fn take(context: &Observed) -> Self {
        let view = context.published.load();
        let (chain, index) = (view.chain.db().clone(), context.index.clone());
        // This reads files, which can block the thread if the disk does not respond.
        let environments =
            spawn_blocking(move || [("chain", chain.stats()), ("index", index.stats())]);
        let environments = environments.await.ok();
        let started = context.started.duration_since(UNIX_EPOCH).unwrap_or_default();
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
                .connections_per_thread
                .iter()
                .map(|(name, taken)| (name.to_owned(), taken))
                .collect(),
            resources: context.budget.readings().collect(),
            health: Health::take(context),
            process: ProcessUsage::read(),
            started_seconds: started.as_secs_f64(),
            backend: context.backend.name(),
            snapshot_block: context.snapshots.newest.load(Ordering::Relaxed),
            snapshots_failed: context.snapshots.failed.load(Ordering::Relaxed),
            replica: context.published.following(),
            voting: context.published.voting(),
        }
    }
}

/// Writes the samples of one metric.
struct Samples<'a> {
    out: &'a mut String,
    metric: &'static Metric,
}

impl Samples<'_> {
    /// Writes one sample; `labels` are the values of the metric's labels in order.
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
        writeln!(self.out, "{name}{suffix}{labels} {value}")
            .expect("writing to a string cannot fail");
    }
}

/// Writes all metrics in the text format of Prometheus.
pub(super) fn render(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    for metric in METRICS {
        let Metric { name, kind, help, .. } = metric;
        writeln!(out, "# HELP {name} {help}\n# TYPE {name} {}", kind.name())
            .expect("writing to a string cannot fail");
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
        "evmd_build_info",
        Kind::Gauge,
        "Always 1. The labels name the version of the program and the backend of signature recovery.",
        &["version", "backend"],
        |now, samples| samples.add(&[env!("CARGO_PKG_VERSION"), now.backend], 1),
    ),
    metric(
        "evmd_health_check_passed",
        Kind::Gauge,
        "1 if a check of `/health` passes, otherwise 0. `head_readable`: the head block can be read. `blocks_produced`: no block has been due for ten block times. `stages_running`: no stage has failed.",
        &["check"],
        |now, samples| {
            let health = &now.health;
            samples.add(&["head_readable"], u8::from(health.head_readable));
            samples.add(&["blocks_produced"], u8::from(!health.head_stalled));
            samples.add(&["stages_running"], u8::from(!health.fault));
        },
    ),
    metric(
        "evmd_head_block_number",
        Kind::Gauge,
        "Number of the head block.",
        &[],
        |now, samples| samples.add(&[], now.head_number),
    ),
    metric(
        "evmd_head_timestamp_seconds",
        Kind::Gauge,
        "Timestamp of the head block, in seconds since 1970-01-01 UTC.",
        &[],
        |now, samples| samples.add(&[], now.head_timestamp),
    ),
    metric(
        "evmd_clock_step_seconds",
        Kind::Gauge,
        "Seconds by which the system clock is ahead of the time used for new blocks after a clock step that was not followed; otherwise 0.",
        &[],
        |now, samples| samples.add(&[], now.clock_step_seconds),
    ),
    metric(
        "evmd_next_base_fee_wei",
        Kind::Gauge,
        "Base fee of the next block.",
        &[],
        |now, samples| samples.add(&[], now.next_base_fee),
    ),
    metric(
        "evmd_head_block_gas",
        Kind::Gauge,
        "Gas of the head block from which the next base fee is computed. Native chains only.",
        &[],
        |now, samples| {
            if let Some(gas) = now.block_gas {
                samples.add(&[], gas);
            }
        },
    ),
    metric(
        "evmd_pool_transactions",
        Kind::Gauge,
        "Transactions in the pool. Pending ones are executable, queued ones wait for a missing nonce.",
        &["state"],
        |now, samples| {
            if let Some(pool) = now.pool {
                samples.add(&["pending"], pool.pending);
                samples.add(&["queued"], pool.queued);
            }
        },
    ),
    metric(
        "evmd_stage_items_received_total",
        Kind::Counter,
        "Transactions or blocks that a stage received.",
        &["stage"],
        |now, samples| each_stage(now, samples, |stage| stage.received),
    ),
    metric(
        "evmd_stage_items_sent_total",
        Kind::Counter,
        "Transactions or blocks that a stage sent to the next stage.",
        &["stage"],
        |now, samples| each_stage(now, samples, |stage| stage.sent),
    ),
    metric(
        "evmd_stage_items_rejected_total",
        Kind::Counter,
        "Transactions or blocks that a stage rejected.",
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
        "evmd_stage_batches_total",
        Kind::Counter,
        "Batches that a stage processed.",
        &["stage"],
        |now, samples| each_stage(now, samples, |stage| stage.batches),
    ),
    metric(
        "evmd_stage_busy_seconds_total",
        Kind::Counter,
        "Time spent working, summed over the threads of a stage.",
        &["stage"],
        |now, samples| each_stage(now, samples, |stage| stage.busy_seconds),
    ),
    metric(
        "evmd_stage_idle_seconds_total",
        Kind::Counter,
        "Time parked waiting for input or credit.",
        &["stage"],
        |now, samples| each_stage(now, samples, |stage| stage.idle_seconds),
    ),
    metric(
        "evmd_stage_blocked_total",
        Kind::Counter,
        "Number of times that a stage had input but no credit to send it to the next stage.",
        &["stage"],
        |now, samples| each_stage(now, samples, |stage| stage.blocked),
    ),
    metric(
        "evmd_stage_batch_duration_seconds",
        Kind::Summary,
        "Time to process a batch in the last four to five minutes: median, 99th percentile and maximum.",
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
        "evmd_ring_batches",
        Kind::Gauge,
        "Batches waiting in a ring.",
        &["ring"],
        |now, samples| now.rings.iter().for_each(|ring| samples.add(&[ring.name], ring.depth)),
    ),
    metric(
        "evmd_ring_capacity_batches",
        Kind::Gauge,
        "Maximum number of batches in a ring.",
        &["ring"],
        |now, samples| now.rings.iter().for_each(|ring| samples.add(&[ring.name], ring.capacity)),
    ),
    metric(
        "evmd_storage_map_size_bytes",
        Kind::Gauge,
        "Maximum size of an LMDB environment.",
        &["environment"],
        |now, samples| each_environment(now, samples, |stats| stats.map_bytes as f64),
    ),
    metric(
        "evmd_storage_used_bytes",
        Kind::Gauge,
        "Size of an LMDB environment up to its last used page.",
        &["environment"],
        |now, samples| each_environment(now, samples, |stats| stats.used_bytes as f64),
    ),
    metric(
        "evmd_storage_disk_available_bytes",
        Kind::Gauge,
        "Free space of the file system of an LMDB environment that the node may use.",
        &["environment"],
        |now, samples| {
            for (name, stats) in &now.environments {
                if let Some(bytes) = stats.disk_available_bytes {
                    samples.add(&[name], bytes);
                }
            }
        },
    ),
    metric(
        "evmd_storage_readers",
        Kind::Gauge,
        "Read transactions of this and other processes that are open in an LMDB environment.",
        &["environment"],
        |now, samples| each_environment(now, samples, |stats| f64::from(stats.readers)),
    ),
    metric(
        "evmd_storage_readers_limit",
        Kind::Gauge,
        "Maximum number of open read transactions in an LMDB environment.",
        &["environment"],
        |now, samples| each_environment(now, samples, |stats| f64::from(stats.readers_max)),
    ),
    metric(
        "evmd_storage_oldest_reader_age_seconds",
        Kind::Gauge,
        "Age of the oldest open read transaction, whose pages cannot be reused. The age of a transaction of another process is counted from the first scrape that found it.",
        &["environment"],
        |now, samples| {
            let age = |stats: &EnvStats| stats.oldest_reader_age.unwrap_or_default().as_secs_f64();
            each_environment(now, samples, age);
        },
    ),
    metric(
        "evmd_snapshot_block_number",
        Kind::Gauge,
        "Block of the newest scheduled snapshot; 0 if there is none, or if snapshot.every-blocks is 0.",
        &[],
        |now, samples| samples.add(&[], now.snapshot_block),
    ),
    metric(
        "evmd_snapshots_failed_total",
        Kind::Counter,
        "Scheduled snapshots that could not be made or verified. The log has the reasons.",
        &[],
        |now, samples| samples.add(&[], now.snapshots_failed),
    ),
    metric(
        "evmd_replica_connected",
        Kind::Gauge,
        "1 if the node follows a source now, 0 if it cannot; only on a node that follows others.",
        &[],
        |now, samples| {
            let connected = now.replica.iter().map(|replica| u64::from(replica.source.is_some()));
            connected.for_each(|connected| samples.add(&[], connected));
        },
    ),
    metric(
        "evmd_replica_lag_blocks",
        Kind::Gauge,
        "Blocks by which the node is behind its source; only on a node that follows others.",
        &[],
        |now, samples| {
            now.replica.iter().for_each(|replica| samples.add(&[], replica.lag_blocks));
        },
    ),
    metric(
        "evmd_replica_lag_seconds",
        Kind::Gauge,
        "Time for which the node has been behind its source or without one; only on a node that follows others.",
        &[],
        |now, samples| {
            now.replica.iter().for_each(|replica| samples.add(&[], replica.lag.as_secs_f64()));
        },
    ),
    metric(
        "evmd_replica_sources_refused",
        Kind::Gauge,
        "Sources that were refused since the start because they sent invalid data; only on a node that follows others.",
        &[],
        |now, samples| {
            now.replica.iter().for_each(|replica| samples.add(&[], replica.refused.len()));
        },
    ),
    metric(
        "evmd_consensus_view",
        Kind::Gauge,
        "The newest view of the consensus engine that has ended; only on a validator.",
        &[],
        |now, samples| now.voting.iter().for_each(|voting| samples.add(&[], voting.view)),
    ),
    metric(
        "evmd_consensus_validators",
        Kind::Gauge,
        "Validators of the chain; only on a validator.",
        &[],
        |now, samples| {
            now.voting.iter().for_each(|voting| samples.add(&[], voting.validators.len()));
        },
    ),
    metric(
        "evmd_consensus_validators_present",
        Kind::Gauge,
        "Validators that have voted in the last ten seconds, with this one; only on a validator.",
        &[],
        |now, samples| now.voting.iter().for_each(|voting| samples.add(&[], voting.present())),
    ),
    metric(
        "evmd_consensus_skipped_views_total",
        Kind::Counter,
        "Views without a block, because their leader did not propose one in time; only on a validator.",
        &[],
        |now, samples| now.voting.iter().for_each(|voting| samples.add(&[], voting.skipped_views)),
    ),
    metric(
        "evmd_consensus_contradicting_votes_total",
        Kind::Counter,
        "Pairs of votes of one validator that contradict each other. `evmd validator evidence` prints them; only on a validator.",
        &[],
        |now, samples| {
            now.voting.iter().for_each(|voting| samples.add(&[], voting.contradictions));
        },
    ),
    metric(
        "evmd_consensus_finality_seconds",
        Kind::Summary,
        "Time from a proposal until its block is final, over the newest 1,024 blocks; only on a validator.",
        &["quantile"],
        |now, samples| {
            let finality = now.voting.iter().filter_map(|voting| voting.finality);
            finality.for_each(|[median, late]| {
                samples.add(&["0.5"], median.as_secs_f64());
                samples.add(&["0.95"], late.as_secs_f64());
            });
        },
    ),
    metric(
        "evmd_rpc_connections",
        Kind::Gauge,
        "JSON-RPC connections of each thread. Threads named `serve` send small responses, threads named `bulk` large ones.",
        &["thread"],
        |now, samples| {
            now.connections.iter().for_each(|(name, taken)| samples.add(&[name.as_str()], taken));
        },
    ),
    metric(
        "evmd_client_resource_used",
        Kind::Gauge,
        "Use of a resource that all clients share: bytes of memory, connections of each server, or filters.",
        &["resource"],
        |now, samples| {
            now.resources.iter().for_each(|resource| samples.add(&[resource.name], resource.used));
        },
    ),
    metric(
        "evmd_client_resource_limit",
        Kind::Gauge,
        "Limit of a resource that all clients share.",
        &["resource"],
        |now, samples| {
            now.resources.iter().for_each(|resource| samples.add(&[resource.name], resource.limit));
        },
    ),
    metric(
        "evmd_client_resource_refused_total",
        Kind::Counter,
        "Requests for a shared resource that were refused because a limit was reached.",
        &["resource"],
        |now, samples| {
            let resources = now.resources.iter();
            resources.for_each(|resource| samples.add(&[resource.name], resource.refused));
        },
    ),
    metric(
        "evmd_client_resource_evicted_total",
        Kind::Counter,
        "Connections and filters that were closed because another client needed the resource.",
        &["resource"],
        |now, samples| {
            let resources = now.resources.iter();
            resources.for_each(|resource| samples.add(&[resource.name], resource.evicted));
        },
    ),
    metric(
        "evmd_rpc_errors_total",
        Kind::Counter,
        "JSON-RPC calls that returned an error.",
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
        "evmd_rpc_call_duration_seconds",
        Kind::Histogram,
        "Time to answer a JSON-RPC call, from decoding the request to encoding the response.",
        &["method"],
        |now, samples| now.calls.iter().for_each(|call| latency(call, samples)),
    ),
    metric(
        "evmd_memory_limit_bytes",
        Kind::Gauge,
        "Memory that the node may use: the smallest of the machine's memory and the limits of its cgroups.",
        &[],
        |_, samples| samples.add(&[], available_memory()),
    ),
    metric(
        "evmd_memory_anonymous_bytes",
        Kind::Gauge,
        "Resident memory that is not pages of files. The kernel can reclaim pages of files, but not this memory.",
        &[],
        |now, samples| {
            if let Some(value) = now.process.anonymous_bytes {
                samples.add(&[], value);
            }
        },
    ),
    metric(
        "process_resident_memory_bytes",
        Kind::Gauge,
        "Resident memory, including pages of the mapped data files.",
        &[],
        |now, samples| {
            if let Some(value) = now.process.resident_bytes {
                samples.add(&[], value);
            }
        },
    ),
    metric(
        "process_cpu_seconds_total",
        Kind::Counter,
        "Processor time in user and system mode.",
        &[],
        |now, samples| samples.add(&[], now.process.cpu_time.as_secs_f64()),
    ),
    metric("process_open_fds", Kind::Gauge, "Open file descriptors.", &[], |now, samples| {
        if let Some(value) = now.process.open_files {
            samples.add(&[], value);
        }
    }),
    metric(
        "process_max_fds",
        Kind::Gauge,
        "Maximum number of open file descriptors.",
        &[],
        |now, samples| {
            if let Some(value) = now.process.max_open_files {
                samples.add(&[], value);
            }
        },
    ),
    metric(
        "process_start_time_seconds",
        Kind::Gauge,
        "Start of the node, in seconds since 1970-01-01 UTC.",
        &[],
        |now, samples| samples.add(&[], now.started_seconds),
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
            disk_available_bytes: Some(1 << 30),
            last_txn_id: 1,
            readers: 2,
            readers_max: 126,
            oldest_reader_age: None,
        };
        let stage = Reading {
            name: "ante",
            received: 5,
            sent: 4,
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
            pool: Some(Level { pending: 3, queued: 2, payable: true, bytes: 500, base_fee: 7 }),
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
            health: Health::from_checks(7, true, true, false, Vec::new()),
            process: ProcessUsage {
                resident_bytes: Some(3 << 20),
                anonymous_bytes: Some(2 << 20),
                open_files: Some(40),
                max_open_files: Some(1024),
                cpu_time: Duration::from_millis(1500),
            },
            started_seconds: 1000.5,
            backend: "scalar",
            snapshot_block: 5,
            snapshots_failed: 1,
            replica: Some(FollowingReading {
                source: Some("http://10.0.0.1:9100".to_owned()),
                source_head: 9,
                lag_blocks: 2,
                lag: std::time::Duration::from_millis(1500),
                started_at: 3,
                is_behind: false,
                refused: Vec::new(),
            }),
            voting: Some(VotingReading {
                view: 9,
                validators: vec![
                    (alloy_primitives::B256::repeat_byte(1), true),
                    (alloy_primitives::B256::repeat_byte(2), false),
                ],
                skipped_views: 1,
                contradictions: 0,
                finality: Some([10, 20].map(Duration::from_millis)),
            }),
        }
    }

    #[test]
    fn every_metric_has_help_and_samples() {
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

    /// The rules of `promtool check metrics` that the table could break.
    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        for Metric { name, kind, help, labels, .. } in METRICS {
            assert!(name.starts_with("evmd_") || name.starts_with("process_"), "{name}");
            assert!(name.bytes().all(|c| c.is_ascii_lowercase() || c == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            for unit in ["_seconds", "_bytes", "_wei", "_total"] {
                assert!(name.matches(unit).count() <= 1, "{name}");
                let rest = name.strip_suffix("_total").unwrap_or(name);
                assert!(unit == "_total" || !name.contains(unit) || rest.ends_with(unit), "{name}");
            }
            assert!(!["_count", "_sum", "_bucket"].iter().any(|end| name.ends_with(end)), "{name}");
            assert_eq!(labels.contains(&"quantile"), *kind == Kind::Summary, "{name}");
            assert!(!labels.contains(&"le"), "{name}");
            assert!(help.ends_with('.'), "{name}");
        }
    }

    #[test]
    fn samples_are_in_the_text_format() {
        let text = render(&snapshot());
        for line in [
            "evmd_head_block_number 7",
            "evmd_pool_transactions{state=\"queued\"} 2",
            "evmd_replica_lag_seconds 1.5",
            "evmd_stage_items_rejected_total{stage=\"ante\",reason=\"already_known\"} 1",
            "evmd_rpc_connections{thread=\"serve-0\"} 2",
            "evmd_client_resource_used{resource=\"filters\"} 3",
            "evmd_rpc_errors_total{method=\"eth_chainId\",code=\"-32602\"} 1",
            "evmd_rpc_call_duration_seconds_bucket{method=\"eth_chainId\",le=\"0.000025\"} 3",
            "evmd_rpc_call_duration_seconds_bucket{method=\"eth_chainId\",le=\"+Inf\"} 4",
            "evmd_rpc_call_duration_seconds_sum{method=\"eth_chainId\"} 14",
            "evmd_storage_used_bytes{environment=\"chain\"} 4096",
            "evmd_health_check_passed{check=\"head_readable\"} 1",
            "evmd_health_check_passed{check=\"blocks_produced\"} 0",
            "evmd_health_check_passed{check=\"stages_running\"} 1",
            "process_cpu_seconds_total 1.5",
            "process_open_fds 40",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
