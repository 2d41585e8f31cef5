//! Scenario `soak`: sends transfers and reads at fixed rates for a long time, and compares memory,
//! disk usage and latency with bounds.

use crate::{
    cpu::Process,
    drive::{Plan, Source, Watch, drive},
    figures::quantile_us,
    fund::{self, Senders},
    options::{Common, Node, bar},
    publish::publish,
    reads,
    report::Report,
    round::{Round, Row},
    rounds::{RepeatedRequests, measure},
    sample::Sample,
    stats::Stats,
    tx::{self, TxSettings, append_call},
    wire::Endpoint,
};
use alloy_primitives::U256;
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    time::{Duration, Instant},
};

/// Maximum number of batches that are signed in advance.
const MAX_AHEAD_BATCHES: usize = 1024;
/// Maximum observations printed.
const MAX_LINES: usize = 20;
/// Bytes in a GiB.
const GIB: f64 = (1u64 << 30) as f64;
/// Unit of `st_blocks`, in bytes.
const SECTOR: u64 = 512;
/// Share of the run that is the warm-up, in which caches fill. Bounds on growth compare the rest with it.
const WARM_UP_SHARE: f64 = 0.2;

#[derive(Debug, clap::Args)]
pub(crate) struct SoakArgs {
    #[command(flatten)]
    common: Common,
    /// Duration in minutes
    #[arg(long, value_name = "MINUTES", default_value_t = 30.0)]
    minutes: f64,
    /// Transfers per second
    #[arg(long, value_name = "PER_SECOND", default_value_t = 2000.0)]
    tx_rate: f64,
    /// Transfers per JSON-RPC batch, or signed together for the ingest
    #[arg(long, value_name = "N", default_value_t = 50)]
    batch: usize,
    /// Send over evmd's TCP ingest instead of in batches
    #[arg(long, value_name = "HOST:PORT")]
    ingest: Option<SocketAddr>,
    /// Reads per second, from the mix of `reads`
    #[arg(long, value_name = "PER_SECOND", default_value_t = 500.0)]
    read_rate: f64,
    /// Home folder of the node, whose growth is measured
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Interval between observations, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    every: f64,
    /// Maximum growth of anonymous memory after the warm-up (first 20 % of the run), in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256.0)]
    memory_bound: f64,
    /// Maximum growth of the p99 latency of reads after the warm-up, as a factor
    #[arg(long, value_name = "FACTOR", default_value_t = 3.0)]
    latency_bound: f64,
    /// Maximum growth of the home folder, in bytes per transfer
    #[arg(long, value_name = "BYTES", default_value_t = 2000.0)]
    disk_bound: f64,
    /// Minimum accepted share of --tx-rate
    #[arg(long, value_name = "PART", default_value_t = 0.95)]
    rate_bound: f64,
    /// Maximum transactions in the node's pool at the end
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pool_bound: u64,
    /// End the run when the home folder reaches this size, in GiB
    #[arg(long, value_name = "GIB", requires = "home")]
    disk_limit: Option<f64>,
    /// Number of sending accounts
    #[arg(long, value_name = "N", default_value_t = 1000)]
    senders: usize,
    /// The senders are funded by `loadtest genesis` with the same seed; they also receive
    #[arg(long)]
    prefunded: bool,
    /// Maximum fee of a transfer, in gwei per gas
    #[arg(long, value_name = "GWEI", default_value_t = 200.0)]
    fee_cap: f64,
}

/// Measurements at one time.
#[derive(Clone, Copy, Debug)]
struct Observation {
    seconds: f64,
    transfers: u64,
    /// Anonymous memory, in bytes.
    anonymous: u64,
    /// Resident memory including mapped files, in bytes.
    resident: u64,
    /// Disk usage of the home folder, in bytes.
    disk: u64,
    /// Size of the data file of each LMDB environment, in bytes.
    chain_map: u64,
    index_map: u64,
    /// Pending transactions in the node's pool.
    pooled: u64,
    /// Latency of the reads since the last observation, in microseconds.
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    reads: u64,
}

impl Observation {
    fn json(&self) -> Value {
        json!({
            "seconds": self.seconds, "transfers": self.transfers,
            "memoryBytes": self.anonymous, "residentBytes": self.resident,
            "diskBytes": self.disk, "chainMapBytes": self.chain_map,
            "indexMapBytes": self.index_map, "pooled": self.pooled, "reads": self.reads,
            "readP50Us": self.p50_us, "readP99Us": self.p99_us, "readP999Us": self.p999_us,
        })
    }
}

pub(crate) fn run(args: &SoakArgs) -> anyhow::Result<bool> {
    let common = &args.common;
    common.check()?;
    if common.compare.is_some() {
        bail!("--compare is not supported by soak");
    }
    if !(args.minutes > 0.0 && args.tx_rate > 0.0 && args.read_rate > 0.0 && args.every > 0.0) {
        bail!("--minutes, --tx-rate, --read-rate and --every must be above 0");
    }
    let node = common.nodes()?.remove(0);
    let process = node.process.context("the node's process is unknown: set --pid")?;
    let sample = Sample::take(&node.rpc, common.seed, None)?;
    let reads: Arc<[_]> = reads::mix(&sample, common.seed)?.into();
    let total = (args.tx_rate * args.minutes * 60.0) as u64;
    let settings = TxSettings {
        count: total,
        load: crate::tx_template::Load::Transfer,
        senders: args.senders,
        recipients: 10_000,
        fee_cap: args.fee_cap,
        tip: 1.0,
        prefunded: args.prefunded,
    };
    settings.check()?;
    let senders = fund::prepare(&node, settings.sender_spec(common.seed, 1))?;
    let soak = Soak { args, node: &node, process, total };
    let (observations, transfers, reads) = soak.run(senders, &reads)?;
    let broken = soak.broken_bounds(&observations, &transfers, &reads);
    soak.publish(observations, transfers, reads, &broken)?;
    Ok(broken.is_empty())
}

struct Soak<'a> {
    args: &'a SoakArgs,
    node: &'a Node,
    process: Process,
    /// Total number of transfers.
    total: u64,
}

impl Soak<'_> {
    /// Runs the load and returns the observations and the results of transfers and reads.
    fn run(
        &self,
        senders: Senders,
        reads: &Arc<[Vec<u8>]>,
    ) -> anyhow::Result<(Vec<Observation>, Round, Round)> {
        let duration = Duration::from_secs_f64(self.args.minutes * 60.0);
        let watch = Watch::default();
        let over = AtomicBool::new(false);
        let nonces = {
            let addresses: Vec<_> = senders.keys.iter().map(|key| key.address).collect();
            self.node.rpc.nonces(&addresses)?
        };
        let (requests, signed) = mpsc::sync_channel(MAX_AHEAD_BATCHES);
        std::thread::scope(|scope| {
            let batches = self.total.div_ceil(self.args.batch as u64);
            let batch = self.args.batch;
            let format = match self.args.ingest {
                Some(_) => tx::RequestFormat::Raw,
                None => tx::RequestFormat::Batch(batch),
            };
            scope.spawn(move || sign(&senders, nonces, batches, batch, format, &requests));
            let (watch, over) = (&watch, &over);
            let transfers = scope.spawn(move || {
                let source = Signed { requests: signed, format, at: 0, bytes: Vec::new() };
                let transfers = self.transfers(source, duration, watch);
                over.store(true, Relaxed);
                transfers
            });
            let observed = self.observe(reads, duration, watch, over);
            if observed.is_err() {
                watch.stop.store(true, Relaxed);
            }
            let transfers = transfers.join();
            let transfers =
                transfers.map_err(|_| anyhow::anyhow!("sending transfers panicked"))??;
            let (observations, reads) = observed?;
            Ok((observations, transfers, reads))
        })
    }

    fn transfers(
        &self,
        source: Signed,
        duration: Duration,
        watch: &Watch,
    ) -> anyhow::Result<Round> {
        let (endpoint, rate) = match self.args.ingest {
            Some(address) => (Endpoint::Ingest(address), self.args.tx_rate),
            None => (self.node.endpoint(), self.args.tx_rate / self.args.batch as f64),
        };
        let plan = Plan {
            connections: self.args.common.connections,
            duration: Some(duration),
            rate: Some(rate),
            ..self.args.common.plan()
        };
        let source: Box<dyn Source> = Box::new(source);
        let bar = bar("soak");
        let round =
            measure(Some(self.process), || drive(&endpoint, &plan, vec![source], watch, &bar));
        bar.finish_and_clear();
        round
    }

    /// Sends reads, and observes the node after each interval.
    fn observe(
        &self,
        reads: &Arc<[Vec<u8>]>,
        duration: Duration,
        watch: &Watch,
        over: &AtomicBool,
    ) -> anyhow::Result<(Vec<Observation>, Round)> {
        let (begun, mut observations, mut sum) = (Instant::now(), Vec::new(), Stats::new());
        while begun.elapsed() < duration && !over.load(Relaxed) {
            let left = duration.saturating_sub(begun.elapsed());
            let interval = Duration::from_secs_f64(self.args.every).min(left);
            let plan = Plan {
                connections: self.args.common.connections,
                duration: Some(interval.max(Duration::from_millis(100))),
                rate: Some(self.args.read_rate),
                ..self.args.common.plan()
            };
            let source: Box<dyn Source> =
                Box::new(RepeatedRequests::new(Arc::clone(reads), plan.connections));
            let hidden = indicatif::ProgressBar::hidden();
            let endpoint = self.node.endpoint();
            let stats = drive(&endpoint, &plan, vec![source], &Watch::default(), &hidden)?;
            let observation = self.observe_once(begun, watch, &stats)?;
            observations.push(observation);
            if self.args.disk_limit.is_some_and(|limit| observation.disk as f64 > limit * GIB) {
                watch.stop.store(true, Relaxed);
                over.store(true, Relaxed);
            }
            sum.add(&stats);
            sum.elapsed += stats.elapsed;
        }
        let elapsed = begun.elapsed();
        let round = Round::from_stats(sum, elapsed);
        Ok((observations, round))
    }

    fn observe_once(
        &self,
        begun: Instant,
        watch: &Watch,
        reads: &Stats,
    ) -> anyhow::Result<Observation> {
        let us = |quantile| quantile_us(&reads.latency, quantile);
        let home = self.args.home.as_deref();
        let map = |folder: &str| {
            let file = home.map(|home| home.join(folder).join("data.mdb"));
            // Only homes of evmd have these files.
            file.and_then(|file| std::fs::metadata(file).ok()).map_or(0, |found| found.len())
        };
        let pool = self.node.rpc.call("txpool_status", json!([]));
        let pooled = pool.ok().and_then(|pool| crate::rpc::quantity(&pool["pending"]).ok());
        Ok(Observation {
            seconds: begun.elapsed().as_secs_f64(),
            transfers: watch.operations.load(Relaxed),
            anonymous: self.process.memory("RssAnon:").context("the node has ended")?,
            resident: self.process.memory("VmRSS:").context("the node has ended")?,
            disk: home.map(disk_bytes).transpose()?.unwrap_or(0),
            chain_map: map("chain"),
            index_map: map("index"),
            pooled: pooled.unwrap_or(0),
            p50_us: us(0.5),
            p99_us: us(0.99),
            p999_us: us(0.999),
            reads: reads.requests,
        })
    }

    /// Descriptions of the bounds that were exceeded.
    fn broken_bounds(
        &self,
        observations: &[Observation],
        transfers: &Round,
        reads: &Round,
    ) -> Vec<String> {
        let mut broken = Vec::new();
        let failed = transfers.stats.errors + reads.stats.errors;
        if failed > 0 {
            broken.push(format!("{failed} operations failed"));
        }
        let warm_up = ((observations.len() as f64 * WARM_UP_SHARE) as usize).max(1);
        let (Some(first), Some(last)) = (observations.get(warm_up - 1), observations.last()) else {
            return broken;
        };
        let grown = (last.anonymous as f64 - first.anonymous as f64) / f64::from(1 << 20);
        let rate = last.transfers as f64 / last.seconds.max(1e-3);
        if rate < self.args.tx_rate * self.args.rate_bound {
            broken.push(format!(
                "{rate:.0} transfers per second were accepted, the minimum is {:.0}",
                self.args.tx_rate * self.args.rate_bound
            ));
        }
        if last.pooled > self.args.pool_bound {
            broken.push(format!(
                "{} transactions are left in the pool, the maximum is {}",
                last.pooled, self.args.pool_bound
            ));
        }
        if grown > self.args.memory_bound {
            broken.push(format!(
                "memory grew by {grown:.0} MiB after the warm-up, the maximum is {:.0}",
                self.args.memory_bound
            ));
        }
        let (before, after) = observations.split_at(warm_up.min(observations.len() - 1));
        let median = |observations: &[Observation]| {
            let mut values: Vec<_> =
                observations.iter().map(|observation| observation.p99_us).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        // A run with a single observation has nothing to compare.
        let factor = median(before).zip(median(after)).map(|(old, new)| new / old.max(1.0));
        if let Some(factor) = factor.filter(|factor| *factor > self.args.latency_bound) {
            broken.push(format!(
                "the p99 of reads grew {factor:.2}x, the maximum is {:.2}x",
                self.args.latency_bound
            ));
        }
        let sent = last.transfers.saturating_sub(first.transfers).max(1) as f64;
        let each = (last.disk as f64 - first.disk as f64) / sent;
        if each > self.args.disk_bound {
            broken.push(format!(
                "the home folder grew by {each:.0} bytes per transfer, the maximum is {:.0}",
                self.args.disk_bound
            ));
        }
        broken
    }

    fn publish(
        &self,
        observations: Vec<Observation>,
        transfers: Round,
        reads: Round,
        broken: &[String],
    ) -> anyhow::Result<()> {
        let common = &self.args.common;
        let row = |name: &str, round| Row { part: name.to_owned(), rounds: vec![round] };
        let elapsed = transfers.elapsed;
        let rows = vec![vec![row("transfers", transfers), row("reads", reads)]];
        let nodes = std::slice::from_ref(self.node);
        let mut report = Report::new("soak", common, nodes, rows, elapsed);
        report.observations = observations.iter().map(Observation::json).collect();
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let step = observations.len().div_ceil(MAX_LINES).max(1);
        report.notes.push(
            " seconds   transfers  tx/s  pooled  memory MiB  with files  disk MiB  chain map  index \
             map  read p50 us    p99  p99.9"
                .to_owned(),
        );
        let skipped = observations.len().saturating_sub(1) % step;
        let mut before = (0.0, 0);
        for observation in observations.iter().skip(skipped).step_by(step) {
            let rate = (observation.transfers - before.1) as f64
                / (observation.seconds - before.0).max(1e-3);
            before = (observation.seconds, observation.transfers);
            report.notes.push(format!(
                "{:>8.0} {:>11} {rate:>5.0} {:>7} {:>11.0} {:>11.0} {:>9.0} {:>10.0} {:>10.0} \
                 {:>12.0} {:>6.0} {:>6.0}",
                observation.seconds,
                observation.transfers,
                observation.pooled,
                mib(observation.anonymous),
                mib(observation.resident),
                mib(observation.disk),
                mib(observation.chain_map),
                mib(observation.index_map),
                observation.p50_us,
                observation.p99_us,
                observation.p999_us,
            ));
        }
        if let (Some(first), Some(last)) = (observations.first(), observations.last()) {
            let txs = last.transfers.saturating_sub(first.transfers).max(1) as f64;
            let each = last.disk.saturating_sub(first.disk) as f64 / txs;
            report.notes.push(format!("disk: {each:.0} bytes per transfer"));
        }
        if broken.is_empty() {
            report.notes.push("all bounds held".to_owned());
        }
        report.notes.extend(broken.iter().map(|bound| format!("BROKEN: {bound}")));
        publish(&report, common)
    }
}

/// Returns the disk usage of a folder in bytes. Holes in sparse files are not counted.
fn disk_bytes(folder: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        // The node may remove a file at any time, for example a replaced journal.
        let Ok(metadata) = entry.metadata() else { continue };
        sum +=
            if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.blocks() * SECTOR };
    }
    Ok(sum)
}

/// Signs batches of transfers of alternating senders, and waits while the channel is full.
fn sign(
    senders: &Senders,
    mut nonces: Vec<u64>,
    batches: u64,
    batch: usize,
    format: tx::RequestFormat,
    requests: &mpsc::SyncSender<Vec<u8>>,
) {
    let mut index = 0;
    for _ in 0..batches {
        let mut body = Vec::with_capacity(batch * 384);
        for position in 0..batch {
            let sender = index % senders.keys.len();
            let to = senders.recipient(1, index as u64);
            let raw =
                senders.template.transfer(&senders.keys[sender], nonces[sender], to, U256::ONE);
            nonces[sender] += 1;
            index += 1;
            match format {
                tx::RequestFormat::Raw => {
                    body.extend_from_slice(&(raw.len() as u32).to_be_bytes());
                    body.extend_from_slice(&raw);
                }
                tx::RequestFormat::Call | tx::RequestFormat::Batch(_) => {
                    body.push(if position == 0 { b'[' } else { b',' });
                    append_call(&mut body, &raw);
                }
            }
        }
        if !matches!(format, tx::RequestFormat::Raw) {
            body.push(b']');
        }
        // The receiver is dropped when the run has ended.
        if requests.send(body).is_err() {
            return;
        }
    }
}

/// Requests in the order of signing. Transactions of one sender may overtake each other on
/// different connections; a node queues a later nonce until the earlier one arrives.
struct Signed {
    requests: mpsc::Receiver<Vec<u8>>,
    format: tx::RequestFormat,
    /// Frames for the ingest, of which those before `at` have been sent.
    bytes: Vec<u8>,
    at: usize,
}

impl Signed {
    fn next_frame(&mut self) -> anyhow::Result<Option<&[u8]>> {
        if self.at == self.bytes.len() {
            let Ok(bytes) = self.requests.recv() else { return Ok(None) };
            (self.bytes, self.at) = (bytes, 0);
        }
        let (length, rest) =
            self.bytes[self.at..].split_first_chunk().context("an incomplete frame")?;
        let length = u32::from_be_bytes(*length) as usize;
        self.at += 4 + length;
        Ok(Some(&rest[..length]))
    }
}

impl Source for Signed {
    fn next(&mut self, _: usize, out: &mut Vec<u8>) -> anyhow::Result<Option<u32>> {
        let tx::RequestFormat::Batch(count) = self.format else {
            let Some(raw) = self.next_frame()? else { return Ok(None) };
            out.extend_from_slice(raw);
            return Ok(Some(1));
        };
        let Ok(body) = self.requests.recv() else { return Ok(None) };
        out.extend_from_slice(&body);
        Ok(Some(count as u32))
    }
}
