//! What all scenarios have in common on the command line.

use crate::{cpu::Process, drive::Plan, http::Url, rpc::Rpc, wire::Endpoint};
use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::{fs::File, io::IsTerminal, path::PathBuf, time::Duration};

/// Most connections: a process has about a thousand files unless told otherwise.
const MAX_CONNECTIONS: usize = 1000;
/// Rounds of a comparison, so that a median says something.
const COMPARE_ROUNDS: u32 = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    #[default]
    Text,
    Json,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// The node's JSON-RPC: http://, or ws:// of an address that answers HTTP too
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8545")]
    pub(crate) url: String,
    /// Another node to load alternately in the same run; ratios are printed
    #[arg(long, value_name = "URL")]
    pub(crate) compare: Option<String>,
    /// The node's process, for its CPU time; found by its port on loopback
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// The other node's process
    #[arg(long, value_name = "PID", requires = "compare")]
    pub(crate) compare_pid: Option<u32>,
    /// Connections, each with one request under way over HTTP
    #[arg(long, short, value_name = "N", default_value_t = 8)]
    pub(crate) connections: usize,
    /// Requests under way on a WebSocket or ingest connection
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<usize>,
    /// Threads of this client
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// Seconds a measurement takes
    #[arg(long, short, value_name = "SECONDS", default_value_t = 5.0)]
    pub(crate) duration: f64,
    /// Seconds of the same load before each measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 0.3)]
    pub(crate) warmup: f64,
    /// Open loop: requests a second in all, whatever the answers do. Without it, each connection
    /// sends its next request when the last is answered
    #[arg(long, value_name = "PER_SECOND")]
    pub(crate) rate: Option<f64>,
    /// Measurements of each part; medians are printed [default: 1, or 3 with --compare]
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<u32>,
    /// Longest wait for an answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub(crate) timeout: f64,
    /// The same seed makes the same requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// Write a report with plots
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// A node under load.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) url: Url,
    pub(crate) rpc: Rpc,
    pub(crate) process: Option<Process>,
    /// What it calls itself.
    pub(crate) version: String,
}

impl Node {
    /// Asks the node who it is.
    pub(crate) fn connect(url: &str, pid: Option<u32>) -> anyhow::Result<Self> {
        let url = Url::parse(url)?;
        let rpc = Rpc::new(&url);
        let reached = rpc.chain_id();
        if url.is_ws {
            // evmd's and geth's ports of WebSockets alone do not.
            reached
                .context("a ws:// address has to answer HTTP, too, for what is asked beforehand")?;
        } else {
            reached?;
        }
        let process = match pid {
            Some(pid) => Some(Process::from_pid(pid)?),
            None => Process::listening(url.address),
        };
        let version = rpc.client_version();
        Ok(Self { url, rpc, process, version })
    }

    /// A server that is measured and not asked anything else.
    pub(crate) fn without_rpc(url: &str, version: &str) -> anyhow::Result<Self> {
        let url = Url::parse(url)?;
        let (rpc, process) = (Rpc::new(&url), Process::listening(url.address));
        Ok(Self { url, rpc, process, version: version.to_owned() })
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::from_url(&self.url)
    }
}

impl Common {
    /// Refuses what makes no sense before anything is loaded.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if !(1..=MAX_CONNECTIONS).contains(&self.connections) {
            bail!("--connections {}: 1 to {MAX_CONNECTIONS} are possible", self.connections);
        }
        if self.threads == 0 || self.threads > self.connections {
            bail!("--threads {}: 1 to the number of connections are possible", self.threads);
        }
        if self.depth == Some(0) {
            bail!("--depth 0: nothing could be under way");
        }
        if self.rounds == Some(0) {
            bail!("--rounds 0: nothing would be measured");
        }
        positive("--duration", self.duration)?;
        positive("--timeout", self.timeout)?;
        if !(0.0..=3600.0).contains(&self.warmup) {
            bail!("--warmup {}: 0 to 3600 seconds are possible", self.warmup);
        }
        if let Some(path) = &self.html {
            // Before hours of measuring, not after.
            let file = File::options().append(true).create(true).open(path);
            file.with_context(|| format!("--html {}", path.display()))?;
        }
        self.rate.map_or(Ok(()), |rate| positive("--rate", rate))
    }

    /// The nodes: the one under test, and the one it is compared with.
    pub(crate) fn nodes(&self) -> anyhow::Result<Vec<Node>> {
        let mut nodes = vec![Node::connect(&self.url, self.pid)?];
        if let Some(url) = &self.compare {
            let other = Node::connect(url, self.compare_pid).context("--compare")?;
            if other.url.address == nodes[0].url.address {
                bail!("--compare names the same node as --url: {}", other.url.address);
            }
            nodes.push(other);
        }
        Ok(nodes)
    }

    pub(crate) fn plan(&self) -> Plan {
        Plan {
            connections: self.connections,
            depth: self.depth,
            duration: Some(Duration::from_secs_f64(self.duration)),
            rate: self.rate,
            timeout: Duration::from_secs_f64(self.timeout),
        }
    }

    pub(crate) fn rounds(&self) -> u32 {
        let default = if self.compare.is_some() { COMPARE_ROUNDS } else { 1 };
        self.rounds.unwrap_or(default)
    }
}

/// A bar on a terminal, nothing elsewhere.
pub(crate) fn bar(what: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{prefix:<40} {bar:30} {percent:>3} % {msg}")
        .expect("the template is a constant");
    ProgressBar::new(1).with_style(style).with_prefix(what.to_owned())
}

fn positive(name: &str, value: f64) -> anyhow::Result<()> {
    if value > 0.0 && value <= 1e9 {
        return Ok(());
    }
    bail!("{name} {value}: must be above 0 and at most 1000000000")
}
