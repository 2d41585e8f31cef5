//! Measures a run, and prints its figures.

use crate::settings::Settings;
use benches::threads::{self, Use};
use home::Home;
use pipeline::Pipeline;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Sampling interval of the CPU time of threads.
const THREAD_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum cores in the table of recovery threads.
const MAX_CORES: usize = 64;

/// The measurements of one run.
pub(crate) struct Run {
    txs: u64,
    blocks: u64,
    seconds: f64,
    /// Seconds until half of the transactions were durable.
    half_seconds: f64,
    /// Bytes written to storage.
    written: u64,
    /// Durable transactions at the start of each second.
    series: Vec<u64>,
    threads: BTreeMap<String, Use>,
    peak_kib: u64,
    anonymous_kib: u64,
    stages: Vec<pipeline::Reading>,
}

impl Run {
    pub(crate) fn print(&self, settings: &Settings) {
        let txs = self.txs as f64;
        println!(
            "{:.0} tx/s: {} transactions in {} blocks, {:.2} s",
            txs / self.seconds,
            self.txs,
            self.blocks,
            self.seconds
        );
        let mut rates: Vec<_> = self.series.windows(2).map(|pair| pair[1] - pair[0]).collect();
        rates.sort_unstable();
        if let (Some(min), Some(max)) = (rates.first(), rates.last()) {
            let median = rates[rates.len() / 2];
            println!(
                "transactions made durable per second: minimum {min}, median {median}, maximum {max}"
            );
        }
        println!(
            "second half: {:.0} tx/s; written: {:.2} KB per transaction; {} of {} seconds without a durable block",
            self.second_half(),
            self.written as f64 / 1000.0 / txs,
            self.idle_seconds(),
            rates.len(),
        );
        println!(
            "memory: peak resident {} MiB (including mapped files), maximum anonymous {} MiB",
            self.peak_kib / 1024,
            self.anonymous_kib / 1024
        );
        println!("{:<12} {:>10} {:>10} {:>8}", "thread", "us/tx cpu", "us/tx wait", "of wall");
        let (mut cpu, mut feeder) = (0.0, 0.0);
        for (name, used) in &self.threads {
            let per_tx = |ns: u64| ns as f64 / 1000.0 / txs;
            let share = used.cpu_ns as f64 / 1e9 / self.seconds;
            cpu += per_tx(used.cpu_ns);
            if name.starts_with("feeder") {
                feeder += per_tx(used.cpu_ns);
            }
            if per_tx(used.cpu_ns) >= 0.005 {
                println!(
                    "{name:<12} {:>10.2} {:>10.2} {:>7.1}%",
                    per_tx(used.cpu_ns),
                    per_tx(used.waiting_ns),
                    share * 100.0
                );
            }
        }
        println!("{:<12} {:>10.2}  without the feeder {:.2}", "sum", cpu, cpu - feeder);
        println!("{:<12} {:>10} {:>8} {:>9}", "stage", "us/tx busy", "idle s", "blocked");
        for stage in &self.stages {
            println!(
                "{:<12} {:>10.2} {:>8.2} {:>9}",
                stage.name,
                stage.busy_seconds * 1e6 / txs,
                stage.idle_seconds,
                stage.blocked
            );
        }
        let rejected: Vec<_> = self.stages.iter().flat_map(|stage| &stage.rejected).collect();
        if !rejected.is_empty() {
            println!("rejected: {rejected:?}");
        }
        assert_eq!(self.txs, settings.count, "every transaction is in a block");
    }

    /// Transactions per second in the second half of the run.
    fn second_half(&self) -> f64 {
        (self.txs - self.txs / 2) as f64 / (self.seconds - self.half_seconds)
    }

    /// Number of seconds in which no block became durable.
    fn idle_seconds(&self) -> usize {
        self.series.windows(2).filter(|pair| pair[0] == pair[1]).count()
    }

    pub(crate) fn json(&self, settings: &Settings) -> serde_json::Value {
        let us = |seconds: f64| seconds * 1e6 / self.txs as f64;
        let threads: BTreeMap<_, _> =
            self.threads.iter().map(|(name, used)| (name, us(used.cpu_ns as f64 / 1e9))).collect();
        let stages: BTreeMap<_, _> =
            self.stages.iter().map(|stage| (stage.name, us(stage.busy_seconds))).collect();
        let rule = config::Pipeline::default();
        let workers: Vec<_> = (1..=MAX_CORES).map(|cores| rule.recover_workers_on(cores)).collect();
        serde_json::json!({
            "accounts": settings.accounts,
            "workload": settings.kind.name(),
            "import": settings.import,
            "transactions": self.txs,
            "blocks": self.blocks,
            "seconds": self.seconds,
            "txPerSecond": self.txs as f64 / self.seconds,
            "txPerSecondSecondHalf": self.second_half(),
            "writtenBytes": self.written,
            "secondsWithoutDurableBlock": self.idle_seconds(),
            "skew": settings.skew,
            "durableBySecond": self.series.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>(),
            "recoverWorkers": settings.recover,
            "recoverWorkersByCores": workers,
            "peakResidentKib": self.peak_kib,
            "peakAnonymousKib": self.anonymous_kib,
            "threadCpuUs": threads,
            "stageBusyUs": stages,
        })
    }
}

/// Observes a pipeline while it runs.
pub(crate) struct RunMonitor {
    begun: Instant,
    /// Half of the transactions, and the seconds until they were durable.
    half: (u64, f64),
    written: u64,
    last_sample: Instant,
    series: Vec<u64>,
    anonymous_kib: u64,
    before: BTreeMap<String, Use>,
    /// The last sample of each thread: some end before the last block is durable.
    seen: BTreeMap<String, Use>,
}

impl RunMonitor {
    pub(crate) fn start(count: u64) -> Self {
        Self {
            begun: Instant::now(),
            half: (count / 2, 0.0),
            written: threads::written_bytes(),
            last_sample: Instant::now(),
            series: Vec::new(),
            anonymous_kib: 0,
            before: threads::snapshot(),
            seen: BTreeMap::new(),
        }
    }

    fn sample_threads(&mut self) {
        for (name, used) in threads::snapshot() {
            let seen = self.seen.entry(name).or_default();
            seen.cpu_ns = seen.cpu_ns.max(used.cpu_ns);
            seen.waiting_ns = seen.waiting_ns.max(used.waiting_ns);
        }
    }

    pub(crate) fn observe(&mut self, durable: u64) {
        if self.last_sample.elapsed() >= THREAD_POLL_INTERVAL {
            self.last_sample = Instant::now();
            self.sample_threads();
        }
        let (half, seconds) = &mut self.half;
        if durable < *half {
            *seconds = self.begun.elapsed().as_secs_f64();
        }
        let second = self.begun.elapsed().as_secs() as usize;
        if self.series.len() <= second {
            self.series.push(durable);
            self.anonymous_kib = self.anonymous_kib.max(threads::memory_kib("RssAnon"));
        }
    }

    pub(crate) fn finish(mut self, first: u64, home: &Home, pipeline: &Pipeline) -> Run {
        let seconds = self.begun.elapsed().as_secs_f64();
        self.anonymous_kib = self.anonymous_kib.max(threads::memory_kib("RssAnon"));
        self.sample_threads();
        let mut threads = self.seen;
        for (name, used) in &mut threads {
            let before = self.before.get(name).copied().unwrap_or_default();
            used.cpu_ns = used.cpu_ns.saturating_sub(before.cpu_ns);
            used.waiting_ns = used.waiting_ns.saturating_sub(before.waiting_ns);
        }
        let stages = pipeline.monitor().readings();
        let blocks = home.chain.reader().expect("a reader");
        let last = pipeline.published.load().number();
        let txs = (first + 1..=last)
            .map(|number| blocks.tx_count(number).expect("readable") as u64)
            .sum();
        Run {
            txs,
            blocks: last - first,
            seconds,
            half_seconds: self.half.1,
            written: threads::written_bytes().saturating_sub(self.written),
            series: self.series,
            threads,
            peak_kib: threads::memory_kib("VmHWM"),
            anonymous_kib: self.anonymous_kib,
            stages,
        }
    }
}
