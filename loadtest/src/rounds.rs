//! Runs the parts of a scenario round by round, on one node or alternately on two.

use crate::{
    cpu::Process,
    drive::{Plan, Source, Watch, drive},
    interrupt,
    options::{Common, Node, bar},
    report::Report,
    round::{Round, Row},
    stats::Stats,
    wire::Endpoint,
};
use anyhow::ensure;
use indicatif::ProgressBar;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// A measurement on one node.
pub(crate) trait Part {
    fn name(&self) -> String;
    /// Runs the measurement once.
    fn run(&mut self, bar: &ProgressBar) -> anyhow::Result<Round>;
}

/// Measures all parts on all nodes. `parts[n]` are the parts of node `n`; all nodes have the same number of parts.
pub(crate) fn run<'a>(
    scenario: &str,
    common: &Common,
    nodes: &[Node],
    mut parts: Vec<Vec<Box<dyn Part + 'a>>>,
) -> anyhow::Result<Report> {
    let mut rows: Vec<Vec<Row>> = parts
        .iter()
        .map(|parts| parts.iter().map(|part| Row::new(part.name())).collect())
        .collect();
    interrupt::listen()?;
    let begun = Instant::now();
    'rounds: for round in 0..common.rounds() {
        for part in 0..parts[0].len() {
            for node in node_order(round, nodes.len()) {
                let measured = &mut parts[node][part];
                let bar = bar(&format!("{} [{}]", measured.name(), nodes[node].url.host));
                let result = measured.run(&bar);
                bar.finish_and_clear();
                let result = result?;
                if !interrupt::requested() || result.stats.requests > 0 {
                    rows[node][part].rounds.push(result);
                }
                if interrupt::requested() {
                    break 'rounds;
                }
            }
        }
    }
    if interrupt::requested() {
        discard_unmeasured(&mut rows)?;
    }
    Ok(Report::new(scenario, common, nodes, rows, begun.elapsed()))
}

/// After an interruption, drops the parts that were not measured on every node.
fn discard_unmeasured(rows: &mut [Vec<Row>]) -> anyhow::Result<()> {
    let measured = |part: &usize| rows.iter().all(|rows| !rows[*part].rounds.is_empty());
    let whole = (0..rows[0].len()).take_while(measured).count();
    ensure!(whole > 0, "interrupted before anything was measured");
    for rows in rows {
        rows.truncate(whole);
    }
    Ok(())
}

/// Connects to the nodes, and measures the parts that `parts` returns for each of them.
pub(crate) fn run_on_each_node<'a>(
    scenario: &str,
    common: &'a Common,
    parts: impl Fn(&Node) -> anyhow::Result<Vec<Box<dyn Part + 'a>>>,
) -> anyhow::Result<(Report, &'a Common)> {
    common.check()?;
    let nodes = common.nodes()?;
    let parts = nodes.iter().map(parts).collect::<anyhow::Result<_>>()?;
    Ok((run(scenario, common, &nodes, parts)?, common))
}

/// Returns the order of the nodes in a round. It alternates, so that no node is always first.
fn node_order(round: u32, nodes: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..nodes).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Runs `load` and measures its time and the CPU time of the node and of this client.
pub(crate) fn measure(
    process: Option<Process>,
    load: impl FnOnce() -> anyhow::Result<Stats>,
) -> anyhow::Result<Round> {
    let own = Process::own();
    let server_before = process.map(Process::cpu).transpose()?;
    let client_before = own.cpu()?;
    let begun = Instant::now();
    let stats = load()?;
    let elapsed = begun.elapsed();
    // A restarted node is another process, so its CPU time is unknown.
    let server_after = process.and_then(|process| process.cpu().ok());
    let server_cpu = server_before.zip(server_after).map(|(before, after)| after - before);
    let client_cpu = own.cpu()? - client_before;
    Ok(Round { server_cpu, client_cpu, ..Round::from_stats(stats, elapsed) })
}

/// Repeats prepared requests in the same order. The connections start at evenly spaced requests.
#[derive(Debug)]
pub(crate) struct RepeatedRequests {
    bodies: Arc<[Vec<u8>]>,
    at: Vec<usize>,
}

impl RepeatedRequests {
    pub(crate) fn new(bodies: Arc<[Vec<u8>]>, connections: usize) -> Self {
        let at = (0..connections).map(|number| number * bodies.len() / connections).collect();
        Self { bodies, at }
    }
}

impl Source for RepeatedRequests {
    fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> anyhow::Result<Option<u32>> {
        let at = &mut self.at[connection];
        out.extend_from_slice(&self.bodies[*at]);
        *at = (*at + 1) % self.bodies.len();
        Ok(Some(1))
    }
}

/// A part that repeats prepared requests; each request is one operation.
#[derive(Debug)]
pub(crate) struct Calls {
    name: String,
    endpoint: Endpoint,
    process: Option<Process>,
    plan: Plan,
    threads: usize,
    warmup: Duration,
    bodies: Arc<[Vec<u8>]>,
}

impl Calls {
    pub(crate) fn new(name: &str, common: &Common, node: &Node, bodies: Vec<Vec<u8>>) -> Self {
        Self {
            name: name.to_owned(),
            endpoint: node.endpoint(),
            process: node.process,
            plan: common.plan(),
            threads: common.threads,
            warmup: Duration::from_secs_f64(common.warmup),
            bodies: bodies.into(),
        }
    }

    fn load(&self, plan: &Plan, bar: &ProgressBar) -> anyhow::Result<Stats> {
        let source = |_| {
            let bodies = Arc::clone(&self.bodies);
            Box::new(RepeatedRequests::new(bodies, plan.connections)) as Box<dyn Source>
        };
        let sources = (0..self.threads).map(source).collect();
        drive(&self.endpoint, plan, sources, &Watch::default(), bar)
    }
}

impl Part for Calls {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn run(&mut self, bar: &ProgressBar) -> anyhow::Result<Round> {
        if !self.warmup.is_zero() {
            let warmup = Plan { duration: Some(self.warmup), ..self.plan };
            self.load(&warmup, bar)?;
        }
        measure(self.process, || self.load(&self.plan, bar))
    }
}
