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
    tx::{What, append_call},
};
use alloy_primitives::U256;
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::{
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
    /// Transfers in a JSON-RPC batch
    #[arg(long, value_name = "N", default_value_t = 50)]
    batch: usize,
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
    /// Accounts that send
    #[arg(long, value_name = "N", default_value_t = 1000)]
    senders: usize,
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
    /// Of the reads since the last look, in microseconds.
    p50_us: f64,
    p99_us: f64,
    reads: u64,
}

impl Look {
    fn json(&self) -> Value {
        json!({
            "seconds": self.seconds, "transfers": self.transfers,
            "memoryBytes": self.anonymous, "residentBytes": self.resident,
            "diskBytes": self.disk, "reads": self.reads,
            "readP50Us": self.p50_us, "readP99Us": self.p99_us,
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
        prefunded: false,
    };
    what.check()?;
    let senders = fund::prepare(&node, what.wanted(common.seed, total))?;
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
            scope.spawn(move || sign(&senders, nonces, batches, batch, &requests));
            let (watch, over) = (&watch, &over);
            let transfers = scope.spawn(move || {
                let source = Signed { requests: signed, batch };
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
        let plan = Plan {
            connections: self.args.common.connections,
            duration: Some(duration),
            rate: Some(self.args.tx_rate / self.args.batch as f64),
            ..self.args.common.plan()
        };
        let source: Box<dyn Source> = Box::new(source);
        let bar = bar("soak");
        let endpoint = self.node.endpoint();
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
            let us = |quantile| crate::report::quantile_us(&stats.latency, quantile);
            looks.push(Look {
                seconds: begun.elapsed().as_secs_f64(),
                transfers: watch.operations.load(Relaxed),
                anonymous: self.process.memory("RssAnon:").context("the node has gone")?,
                resident: self.process.memory("VmRSS:").context("the node has gone")?,
                disk: self.args.home.as_deref().map(disk_bytes).transpose()?.unwrap_or(0),
                p50_us: us(0.5),
                p99_us: us(0.99),
                reads: stats.requests,
            });
            sum.add(&stats);
            sum.elapsed += stats.elapsed;
        }
        let elapsed = begun.elapsed();
        let round = Round::of(sum, elapsed);
        Ok((looks, round))
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
            values.get(values.len() / 2).copied().unwrap_or(0.0)
        };
        let factor = median(late) / median(early).max(1.0);
        if factor > self.args.latency_bound {
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
        for look in looks.iter().skip(looks.len().saturating_sub(1) % step).step_by(step) {
            report.notes.push(format!(
                "{:>6.0} s  {:>10} transfers  memory {:>6.0} MiB (with files {:>6.0})  disk {:>7.0} \
                 MiB  reads p50 {:>5.0} us, p99 {:>6.0} us",
                look.seconds,
                look.transfers,
                mib(look.anonymous),
                mib(look.resident),
                mib(look.disk),
                look.p50_us,
                look.p99_us
            ));
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
    requests: &mpsc::SyncSender<Vec<u8>>,
) {
    let mut turn = 0;
    for _ in 0..batches {
        let mut body = vec![b'['];
        for place in 0..batch {
            let sender = turn % senders.keys.len();
            let to = senders.recipient(1, turn as u64);
            let raw = senders.form.transfer(&senders.keys[sender], nonces[sender], to, U256::ONE);
            nonces[sender] += 1;
            turn += 1;
            if place > 0 {
                body.push(b',');
            }
            append_call(&mut body, &raw);
        }
        body.push(b']');
        // Nobody takes more: the run has ended.
        if requests.send(body).is_err() {
            return;
        }
    }
}

/// Requests as they are signed. Batches of one sender may overtake each other between connections;
/// a node keeps the later nonce until the earlier comes.
struct Signed {
    requests: mpsc::Receiver<Vec<u8>>,
    batch: usize,
}

impl Source for Signed {
    fn next(&mut self, _: usize, out: &mut Vec<u8>) -> anyhow::Result<Option<u32>> {
        let Ok(body) = self.requests.recv() else { return Ok(None) };
        out.extend_from_slice(&body);
        Ok(Some(self.batch as u32))
    }
}
