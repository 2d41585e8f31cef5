//! Scenario `flood`: how a flood of heavy calls affects a cheap call. `eth_blockNumber` is called
//! at a fixed rate on a separate connection, first on an idle node, then during the flood.

use crate::{
    drive::{Plan, Source, Watch, drive},
    figures::letter,
    options::{Common, Node},
    reads::body,
    report::Report,
    round::{Round, Row},
    rounds::{self, Part, RepeatedRequests, measure},
    rpc::hex,
    sample::Sample,
    stats::Stats,
    token,
};
use anyhow::{Context, bail};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

/// Timeout of a heavy call. It should not expire, because the flood is abandoned after the probe.
const HEAVY_TIMEOUT: Duration = Duration::from_secs(3600);
/// The flood runs for this long before the probe begins.
const RAMP_UP: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Args)]
pub(crate) struct FloodArgs {
    #[command(flatten)]
    common: Common,
    /// Cheap calls per second, on one connection
    #[arg(long, value_name = "PER_SECOND", default_value_t = 500.0)]
    probe_rate: f64,
    /// Heavy calls of the flood
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Heavy::Logs, Heavy::Trace])]
    heavy: Vec<Heavy>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Heavy {
    /// eth_getLogs over all blocks
    Logs,
    /// debug_traceBlockByNumber
    Trace,
    /// eth_feeHistory over 1,024 blocks
    Fees,
    /// Whole blocks with their transactions
    Blocks,
}

impl Heavy {
    const fn method(self) -> &'static str {
        match self {
            Self::Logs => "eth_getLogs",
            Self::Trace => "debug_traceBlockByNumber",
            Self::Fees => "eth_feeHistory",
            Self::Blocks => "eth_getBlockByNumber",
        }
    }

    fn bodies(self, sample: &Sample) -> Vec<Vec<u8>> {
        let each = |request: &dyn Fn(&String) -> Vec<u8>| {
            sample.blocks.iter().map(|number| request(&hex(*number))).collect()
        };
        match self {
            Self::Logs => {
                let all = |topics: Value| json!([{ "fromBlock": "0x0", "toBlock": "latest", "topics": topics }]);
                let wide = [all(json!([])), all(json!([token::TRANSFER]))];
                wide.iter().map(|params| body(self.method(), params)).collect()
            }
            Self::Trace => each(&|number| body(self.method(), &json!([number, {}]))),
            Self::Fees => {
                let percentiles: Vec<f64> = (1..=100).map(f64::from).collect();
                vec![body(self.method(), &json!(["0x400", "latest", percentiles]))]
            }
            Self::Blocks => each(&|number| body(self.method(), &json!([number, true]))),
        }
    }
}

pub(crate) fn run(args: &FloodArgs) -> anyhow::Result<(Report, &Common)> {
    let common = &args.common;
    common.check()?;
    let nodes = common.nodes()?;
    let mut parts = Vec::new();
    for node in &nodes {
        for heavy in &args.heavy {
            check_served(node, *heavy)?;
        }
        let sample = Sample::take(&node.rpc, common.seed, None)?;
        let lists: Vec<_> = args.heavy.iter().map(|heavy| heavy.bodies(&sample)).collect();
        let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
        // Alternates between the kinds and repeats the shorter lists.
        let heavy: Vec<_> = (0..longest)
            .flat_map(|at| lists.iter().map(move |list| list[at % list.len()].clone()))
            .collect();
        let part = |flooded| {
            let heavy: Arc<[_]> = heavy.clone().into();
            Box::new(Probe { args, node: node.clone(), heavy, flooded }) as Box<dyn Part>
        };
        parts.push(vec![part(false), part(true)]);
    }
    let mut report = rounds::run("flood", common, &nodes, parts)?;
    for (number, rows) in report.rows.iter().enumerate() {
        // An interrupted run may contain only the first row.
        let [alone, flooded] = rows.as_slice() else { continue };
        let p99 = |row: &Row| row.sum().latency.value_at_quantile(0.99) as f64;
        report.notes.push(format!(
            "node {}: p99 of eth_blockNumber grows {:.2}x during the flood",
            letter(number),
            p99(flooded) / p99(alone).max(1.0)
        ));
    }
    Ok((report, common))
}

/// Fails if the node does not serve the heavy method. The flood would then cost nothing, and the
/// node would seem to withstand it.
fn check_served(node: &Node, heavy: Heavy) -> anyhow::Result<()> {
    let method = heavy.method();
    if node.rpc.has_method(method)? {
        return Ok(());
    }
    let namespace = method.split('_').next().unwrap_or(method);
    bail!(
        "{} does not serve {method}: start it with the namespace {namespace} (evmd: --json-rpc.api), \
         or choose other calls with --heavy",
        node.url.text
    )
}

/// The cheap call, alone or during the flood.
struct Probe<'a> {
    args: &'a FloodArgs,
    node: Node,
    heavy: Arc<[Vec<u8>]>,
    flooded: bool,
}

impl Probe<'_> {
    fn probe(&self, bar: &ProgressBar) -> anyhow::Result<Stats> {
        let rate = Some(self.args.probe_rate);
        let plan = Plan { connections: 1, rate, ..self.args.common.plan() };
        let bodies: Arc<[_]> = vec![body("eth_blockNumber", &json!([]))].into();
        let source: Box<dyn Source> = Box::new(RepeatedRequests::new(bodies, 1));
        drive(&self.node.endpoint(), &plan, vec![source], &Watch::default(), bar)
    }

    /// Sends heavy calls on all connections until `watch` stops them.
    fn flood(&self, watch: &Watch) -> anyhow::Result<Stats> {
        let plan =
            Plan { duration: None, rate: None, timeout: HEAVY_TIMEOUT, ..self.args.common.plan() };
        let source: Box<dyn Source> =
            Box::new(RepeatedRequests::new(Arc::clone(&self.heavy), plan.connections));
        drive(&self.node.endpoint(), &plan, vec![source], watch, &ProgressBar::hidden())
    }
}

impl Part for Probe<'_> {
    fn name(&self) -> String {
        let load = if self.flooded { "during the flood" } else { "idle" };
        format!("eth_blockNumber, {load}")
    }

    fn run(&mut self, bar: &ProgressBar) -> anyhow::Result<Round> {
        if !self.flooded {
            return measure(self.node.process, || self.probe(bar));
        }
        let watch = Watch::default();
        let this = &*self;
        let (round, flood) = std::thread::scope(|scope| {
            let flood = scope.spawn(|| this.flood(&watch));
            std::thread::park_timeout(RAMP_UP);
            let round = measure(this.node.process, || this.probe(bar));
            watch.abandon.store(true, Relaxed);
            (round, flood.join())
        });
        let flood = flood.map_err(|_| anyhow::anyhow!("the flood panicked"))?.context("flood")?;
        let mut round = round?;
        round.server_cpu = None; // Nearly all CPU time was spent on the flood.
        round.figures = vec![
            ("heavy/s", flood.per_second()),
            ("heavyErrors", flood.errors as f64),
            ("heavyMegabytes/s", flood.bytes as f64 / 1e6 / flood.elapsed.as_secs_f64()),
        ];
        // A node may protect itself by refusing calls, so refusals are reported but are not failures.
        round.refusals = flood.error_texts;
        Ok(round)
    }
}
