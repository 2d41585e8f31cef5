//! Command-line options that all scenarios share.

use crate::{cpu::Process, drive::Plan, http::Url, rpc::Rpc, wire::Endpoint};
use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::{fs::File, io::IsTerminal, path::PathBuf, time::Duration};

/// Maximum number of connections: by default, a process may open 1024 files.
const MAX_CONNECTIONS: usize = 1000;
/// Default number of rounds of a comparison, so that the median is meaningful.
const COMPARE_ROUNDS: u32 = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    #[default]
    Text,
    Json,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// JSON-RPC URL of the node: http://, or ws:// of an address that also serves HTTP
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8545")]
    pub(crate) url: String,
    /// Another node, loaded alternately in the same run; ratios are printed
    #[arg(long, value_name = "URL")]
    pub(crate) compare: Option<String>,
    /// Process whose CPU time is measured [default: the process that listens at a loopback URL]
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// Process of the other node
    #[arg(long, value_name = "PID", requires = "compare")]
    pub(crate) compare_pid: Option<u32>,
    /// Number of connections; over HTTP each has one request in flight
    #[arg(long, short, value_name = "N", default_value_t = 8)]
    pub(crate) connections: usize,
    /// Maximum requests in flight on a WebSocket or ingest connection
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<usize>,
    /// Threads of this client
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// Duration of a measurement, in seconds
    #[arg(long, short, value_name = "SECONDS", default_value_t = 5.0)]
    pub(crate) duration: f64,
    /// Duration of the warm-up before each measurement, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0.3)]
    pub(crate) warmup: f64,
    /// Open loop: total requests per second, independent of the responses. Without it, each
    /// connection sends its next request when the last one is answered
    #[arg(long, value_name = "PER_SECOND")]
    pub(crate) rate: Option<f64>,
    /// Number of measurements of each part; the medians are printed [default: 1, or 3 with
    /// --compare]
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<u32>,
    /// Timeout of a request, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub(crate) timeout: f64,
    /// Seed of the requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// Write an HTML report with plots
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// A node under load.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) url: Url,
    pub(crate) rpc: Rpc,
    pub(crate) process: Option<Process>,
    /// The response to `web3_clientVersion`, or a description of a server without this method.
    pub(crate) version: String,
}

impl Node {
    /// Connects to a node and reads its chain id and version.
    pub(crate) fn connect(url: &str, pid: Option<u32>) -> anyhow::Result<Self> {
        let url = Url::parse(url)?;
        let rpc = Rpc::new(&url);
        let reached = rpc.chain_id();
        if url.is_ws {
            // The WebSocket-only ports of evmd and geth do not serve HTTP.
            reached.context(
                "a ws:// address must also serve HTTP, for calls before the measurement",
            )?;
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

    /// Creates a node for a server that is measured but receives no other calls.
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
    /// Validates the options before anything is loaded.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if !(1..=MAX_CONNECTIONS).contains(&self.connections) {
            bail!(
                "--connections must be between 1 and {MAX_CONNECTIONS}, got {}",
                self.connections
            );
        }
        if self.threads == 0 || self.threads > self.connections {
            bail!(
                "--threads must be between 1 and the number of connections, got {}",
                self.threads
            );
        }
        if self.depth == Some(0) {
            bail!("--depth must be at least 1, got 0");
        }
        if self.rounds == Some(0) {
            bail!("--rounds must be at least 1, got 0");
        }
        positive("--duration", self.duration)?;
        positive("--timeout", self.timeout)?;
        if !(0.0..=3600.0).contains(&self.warmup) {
            bail!("--warmup must be between 0 and 3600 seconds, got {}", self.warmup);
        }
        if let Some(path) = &self.html {
            // Fail now instead of after hours of measuring.
            let file = File::options().append(true).create(true).open(path);
            file.with_context(|| format!("--html {}: cannot write the file", path.display()))?;
        }
        self.rate.map_or(Ok(()), |rate| positive("--rate", rate))
    }

    /// Connects to the node of `--url`, and to the node of `--compare` if it is set.
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

/// Returns a progress bar, which is hidden unless stderr is a terminal.
pub(crate) fn bar(label: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{prefix:<40} {bar:30} {percent:>3} % {msg}")
        .expect("the template is a constant");
    ProgressBar::new(1).with_style(style).with_prefix(label.to_owned())
}

fn positive(name: &str, value: f64) -> anyhow::Result<()> {
    if value > 0.0 && value <= 1e9 {
        return Ok(());
    }
    bail!("{name} must be above 0 and at most 1000000000, got {value}")
}
