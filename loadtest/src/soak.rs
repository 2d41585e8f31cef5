//! Scenario `soak`: transfers at a fixed rate and reads beside them for a long time, with memory,
//! files and latency watched and held to bounds.

use crate::{
    cpu::Process,
    drive::{Plan, Source, Watch, drive},
    fund::{self, Senders},
    options::{Common, Node, bar},
    reads,
    report::{Report, Row},
    rounds::{Replay, Round, measure},
    sample::Sample,
    stats::Stats,
    tx::{self, What, append_call},
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

/// Requests signed ahead of the sending.
const AHEAD: usize = 1024;
/// Most looks printed.
const LINES: usize = 20;
/// Bytes of a GiB.
const GIB: f64 = (1u64 << 30) as f64;
/// Bytes of a sector in a file's block count.
const SECTOR: u64 = 512;
/// First part of the run that bounds are compared with: caches fill in it.
const SETTLING: f64 = 0.2;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Minutes
    #[arg(long, value_name = "MINUTES", default_value_t = 30.0)]
    minutes: f64,
    /// Transfers a second
    #[arg(long, value_name = "PER_SECOND", default_value_t = 2000.0)]
    tx_rate: f64,
    /// Transfers in a JSON-RPC batch, or signed together for the ingest
    #[arg(long, value_name = "N", default_value_t = 50)]
    batch: usize,
    /// Send over evmd's TCP ingest instead of in batches
    #[arg(long, value_name = "HOST:PORT")]
    ingest: Option<SocketAddr>,
    /// Reads a second, of the public mix
    #[arg(long, value_name = "PER_SECOND", default_value_t = 500.0)]
    read_rate: f64,
    /// The node's home folder, whose growth is watched
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    every: f64,
    /// Most that memory of no file may grow after the first fifth, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256.0)]
    memory_bound: f64,
    /// Most that the p99 of reads may grow from the first fifth to the rest
    #[arg(long, value_name = "FACTOR", default_value_t = 3.0)]
    latency_bound: f64,
    /// Most bytes the home folder may grow by for each transfer
    #[arg(long, value_name = "BYTES", default_value_t = 2000.0)]
    disk_bound: f64,
    /// Least part of --tx-rate that must have been taken
    #[arg(long, value_name = "PART", default_value_t = 0.95)]
    rate_bound: f64,
    /// Most transactions in the node's pool at the end
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pool_bound: u64,
    /// End when the home folder takes so many GiB
    #[arg(long, value_name = "GIB", requires = "home")]
    disk_limit: Option<f64>,
    /// Accounts that send
    #[arg(long, value_name = "N", default_value_t = 1000)]
    senders: usize,
    /// The senders have ether from `loadtest genesis` with the same seed; they receive as well
    #[arg(long)]
    prefunded: bool,
    /// Most a transfer pays, in gwei per gas
    #[arg(long, value_name = "GWEI", default_value_t = 200.0)]
    fee_cap: f64,
}

/// What one look saw.
#[derive(Clone, Copy, Debug)]
struct Look {
    seconds: f64,
    transfers: u64,
    /// Memory that belongs to no file, in bytes.
    anonymous: u64,
    /// All memory, with the mapped files that happen to be in it.
    resident: u64,
    /// Bytes that the home folder takes on disk.
    disk: u64,
    /// Bytes of the maps in use: how far each environment's file reaches.
    chain_map: u64,
    index_map: u64,
    /// Transactions in the node's pool.
    pooled: u64,
    /// Of the reads since the last look, in microseconds.
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    reads: u64,
}

impl Look {
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

pub(crate) fn run(args: &Args) -> anyhow::Result<bool> {
    let common = &args.common;
    common.check()?;
    if common.compare.is_some() {
        bail!("--compare: a soak is of one node");
    }
    if !(args.minutes > 0.0 && args.tx_rate > 0.0 && args.read_rate > 0.0 && args.every > 0.0) {
        bail!("--minutes, --tx-rate, --read-rate and --every must be above 0");
    }
    let node = common.nodes()?.remove(0);
    let process = node.process.context("the node's process is not known (--pid)")?;
    let sample = Sample::take(&node.rpc, common.seed, None)?;
    let reads: Arc<[_]> = reads::mix(&sample, common.seed)?.into();
    let total = (args.tx_rate * args.minutes * 60.0) as u64;
    let what = What {
        count: total,
        load: crate::txs::Load::Transfer,
        senders: args.senders,
        recipients: 10_000,
        fee_cap: args.fee_cap,
        tip: 1.0,
        prefunded: args.prefunded,
    };
    what.check()?;
    let senders = fund::prepare(&node, what.wanted(common.seed, 1))?;
    let soak = Soak { args, node: &node, process, total };
    let (looks, transfers, reads) = soak.run(senders, &reads)?;
    let broken = soak.judge(&looks, &transfers, &reads);
    soak.publish(looks, transfers, reads, &broken)?;
    Ok(broken.is_empty())
}

struct Soak<'a> {
    args: &'a Args,
    node: &'a Node,
    process: Process,
    /// Transfers in all.
    total: u64,
}

impl Soak<'_> {
    /// Loads for the whole time; gives the looks, and what became of transfers and reads.
    fn run(
        &self,
        senders: Senders,
        reads: &Arc<[Vec<u8>]>,
    ) -> anyhow::Result<(Vec<Look>, Round, Round)> {
        let duration = Duration::from_secs_f64(self.args.minutes * 60.0);
        let watch = Watch::default();
        let over = AtomicBool::new(false);
        let nonces = {
            let addresses: Vec<_> = senders.keys.iter().map(|key| key.address).collect();
            self.node.rpc.nonces(&addresses)?
        };
        let (requests, signed) = mpsc::sync_channel(AHEAD);
        std::thread::scope(|scope| {
            let batches = self.total.div_ceil(self.args.batch as u64);
            let batch = self.args.batch;
            let form = match self.args.ingest {
                Some(_) => tx::Form::Raw,
                None => tx::Form::Batch(batch),
            };
            scope.spawn(move || sign(&senders, nonces, batches, batch, form, &requests));
            let (watch, over) = (&watch, &over);
            let transfers = scope.spawn(move || {
                let source = Signed { requests: signed, form, at: 0, bytes: Vec::new() };
                let transfers = self.transfers(source, duration, watch);
                over.store(true, Relaxed);
                transfers
            });
            let looked = self.look(reads, duration, watch, over);
            if looked.is_err() {
                watch.stop.store(true, Relaxed);
            }
            let transfers = transfers.join();
            let transfers =
                transfers.map_err(|_| anyhow::anyhow!("sending transfers panicked"))??;
            let (looks, reads) = looked?;
            Ok((looks, transfers, reads))
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

    /// Reads, in stretches between looks.
    fn look(
        &self,
        reads: &Arc<[Vec<u8>]>,
        duration: Duration,
        watch: &Watch,
        over: &AtomicBool,
    ) -> anyhow::Result<(Vec<Look>, Round)> {
        let (begun, mut looks, mut sum) = (Instant::now(), Vec::new(), Stats::new());
        while begun.elapsed() < duration && !over.load(Relaxed) {
            let left = duration.saturating_sub(begun.elapsed());
            let stretch = Duration::from_secs_f64(self.args.every).min(left);
            let plan = Plan {
                connections: self.args.common.connections,
                duration: Some(stretch.max(Duration::from_millis(100))),
                rate: Some(self.args.read_rate),
                ..self.args.common.plan()
            };
            let source: Box<dyn Source> =
                Box::new(Replay::new(Arc::clone(reads), plan.connections));
            let hidden = indicatif::ProgressBar::hidden();
            let endpoint = self.node.endpoint();
            let stats = drive(&endpoint, &plan, vec![source], &Watch::default(), &hidden)?;
            let look = self.one_look(begun, watch, &stats)?;
            looks.push(look);
            if self.args.disk_limit.is_some_and(|limit| look.disk as f64 > limit * GIB) {
                watch.stop.store(true, Relaxed);
                over.store(true, Relaxed);
            }
            sum.add(&stats);
            sum.elapsed += stats.elapsed;
        }
        let elapsed = begun.elapsed();
        let round = Round::of(sum, elapsed);
        Ok((looks, round))
    }

    fn one_look(&self, begun: Instant, watch: &Watch, reads: &Stats) -> anyhow::Result<Look> {
        let us = |quantile| crate::report::quantile_us(&reads.latency, quantile);
        let home = self.args.home.as_deref();
        let map = |folder: &str| {
            let file = home.map(|home| home.join(folder).join("data.mdb"));
            // Only evmd's home has these files.
            file.and_then(|file| std::fs::metadata(file).ok()).map_or(0, |found| found.len())
        };
        let pool = self.node.rpc.call("txpool_status", json!([]));
        let pooled = pool.ok().and_then(|pool| crate::rpc::quantity(&pool["pending"]).ok());
        Ok(Look {
            seconds: begun.elapsed().as_secs_f64(),
            transfers: watch.operations.load(Relaxed),
            anonymous: self.process.memory("RssAnon:").context("the node has gone")?,
            resident: self.process.memory("VmRSS:").context("the node has gone")?,
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

    /// The bounds that were broken, in words.
    fn judge(&self, looks: &[Look], transfers: &Round, reads: &Round) -> Vec<String> {
        let mut broken = Vec::new();
        let failed = transfers.stats.errors + reads.stats.errors;
        if failed > 0 {
            broken.push(format!("{failed} operations failed"));
        }
        let settled = ((looks.len() as f64 * SETTLING) as usize).max(1);
        let (Some(first), Some(last)) = (looks.get(settled - 1), looks.last()) else {
            return broken;
        };
        let grown = (last.anonymous as f64 - first.anonymous as f64) / f64::from(1 << 20);
        let rate = last.transfers as f64 / last.seconds.max(1e-3);
        if rate < self.args.tx_rate * self.args.rate_bound {
            broken.push(format!(
                "{rate:.0} transfers a second were taken, bound {:.0}",
                self.args.tx_rate * self.args.rate_bound
            ));
        }
        if last.pooled > self.args.pool_bound {
            broken.push(format!(
                "{} transactions are left in the pool, bound {}",
                last.pooled, self.args.pool_bound
            ));
        }
        if grown > self.args.memory_bound {
            broken.push(format!(
                "memory grew by {grown:.0} MiB after the first fifth, bound {:.0}",
                self.args.memory_bound
            ));
        }
        let (early, late) = looks.split_at(settled.min(looks.len() - 1));
        let median = |looks: &[Look]| {
            let mut values: Vec<_> = looks.iter().map(|look| look.p99_us).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        // A run of one look only has nothing to compare.
        let factor = median(early).zip(median(late)).map(|(early, late)| late / early.max(1.0));
        if let Some(factor) = factor.filter(|factor| *factor > self.args.latency_bound) {
            broken.push(format!(
                "the p99 of reads grew {factor:.2}x, bound {:.2}x",
                self.args.latency_bound
            ));
        }
        let sent = last.transfers.saturating_sub(first.transfers).max(1) as f64;
        let each = (last.disk as f64 - first.disk as f64) / sent;
        if each > self.args.disk_bound {
            broken.push(format!(
                "the home folder grew by {each:.0} bytes a transfer, bound {:.0}",
                self.args.disk_bound
            ));
        }
        broken
    }

    fn publish(
        &self,
        looks: Vec<Look>,
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
        report.looks = looks.iter().map(Look::json).collect();
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let step = looks.len().div_ceil(LINES).max(1);
        report.notes.push(
            " seconds   transfers  tx/s  pooled  memory MiB  with files  disk MiB  chain map  index \
             map  read p50 us    p99  p99.9"
                .to_owned(),
        );
        let skipped = looks.len().saturating_sub(1) % step;
        let mut before = (0.0, 0);
        for look in looks.iter().skip(skipped).step_by(step) {
            let rate = (look.transfers - before.1) as f64 / (look.seconds - before.0).max(1e-3);
            before = (look.seconds, look.transfers);
            report.notes.push(format!(
                "{:>8.0} {:>11} {rate:>5.0} {:>7} {:>11.0} {:>11.0} {:>9.0} {:>10.0} {:>10.0} \
                 {:>12.0} {:>6.0} {:>6.0}",
                look.seconds,
                look.transfers,
                look.pooled,
                mib(look.anonymous),
                mib(look.resident),
                mib(look.disk),
                mib(look.chain_map),
                mib(look.index_map),
                look.p50_us,
                look.p99_us,
                look.p999_us,
            ));
        }
        if let (Some(first), Some(last)) = (looks.first(), looks.last()) {
            let txs = last.transfers.saturating_sub(first.transfers).max(1) as f64;
            let each = last.disk.saturating_sub(first.disk) as f64 / txs;
            report.notes.push(format!("disk: {each:.0} bytes a transfer"));
        }
        if broken.is_empty() {
            report.notes.push("all bounds kept".to_owned());
        }
        report.notes.extend(broken.iter().map(|bound| format!("BROKEN: {bound}")));
        report.publish(common)
    }
}

/// Bytes that a folder takes on disk: sparse files count what they hold.
fn disk_bytes(folder: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        // A file may go while we look: a journal that is replaced.
        let Ok(metadata) = entry.metadata() else { continue };
        sum +=
            if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.blocks() * SECTOR };
    }
    Ok(sum)
}

/// Signs batches of transfers, the senders in turn, as fast as they are taken.
fn sign(
    senders: &Senders,
    mut nonces: Vec<u64>,
    batches: u64,
    batch: usize,
    form: tx::Form,
    requests: &mpsc::SyncSender<Vec<u8>>,
) {
    let mut turn = 0;
    for _ in 0..batches {
        let mut body = Vec::with_capacity(batch * 384);
        for place in 0..batch {
            let sender = turn % senders.keys.len();
            let to = senders.recipient(1, turn as u64);
            let raw = senders.form.transfer(&senders.keys[sender], nonces[sender], to, U256::ONE);
            nonces[sender] += 1;
            turn += 1;
            match form {
                tx::Form::Raw => {
                    body.extend_from_slice(&(raw.len() as u32).to_be_bytes());
                    body.extend_from_slice(&raw);
                }
                tx::Form::Call | tx::Form::Batch(_) => {
                    body.push(if place == 0 { b'[' } else { b',' });
                    append_call(&mut body, &raw);
                }
            }
        }
        if !matches!(form, tx::Form::Raw) {
            body.push(b']');
        }
        // Nobody takes more: the run has ended.
        if requests.send(body).is_err() {
            return;
        }
    }
}

/// Requests as they are signed. Those of one sender may overtake each other between connections;
/// a node keeps the later nonce until the earlier comes.
struct Signed {
    requests: mpsc::Receiver<Vec<u8>>,
    form: tx::Form,
    /// Frames for the ingest: what is left of a batch begins at `at`.
    bytes: Vec<u8>,
    at: usize,
}

impl Signed {
    fn next_frame(&mut self) -> anyhow::Result<Option<&[u8]>> {
        if self.at == self.bytes.len() {
            let Ok(bytes) = self.requests.recv() else { return Ok(None) };
            (self.bytes, self.at) = (bytes, 0);
        }
        let (length, rest) = self.bytes[self.at..].split_first_chunk().context("a whole frame")?;
        let length = u32::from_be_bytes(*length) as usize;
        self.at += 4 + length;
        Ok(Some(&rest[..length]))
    }
}

impl Source for Signed {
    fn next(&mut self, _: usize, out: &mut Vec<u8>) -> anyhow::Result<Option<u32>> {
        let tx::Form::Batch(count) = self.form else {
            let Some(raw) = self.next_frame()? else { return Ok(None) };
            out.extend_from_slice(raw);
            return Ok(Some(1));
        };
        let Ok(body) = self.requests.recv() else { return Ok(None) };
        out.extend_from_slice(&body);
        Ok(Some(count as u32))
    }
}
