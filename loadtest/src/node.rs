//! An evmd process that this client starts and kills.

use crate::{cpu::Process, http::Url, rpc::Rpc};
use anyhow::{Context, bail};
use serde_json::Value;
use std::{
    fs::File,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

/// The options that set the addresses of the node's servers. The kernel chooses the ports, and the node prints them.
const SERVERS: [&str; 8] = [
    "--json-rpc.address",
    "--json-rpc.ws-address",
    "--rest.address",
    "--grpc.address",
    "--comet.address",
    "--ingest.address",
    "--metrics.address",
    "--pages.address",
];

/// Timeout of a request for the status.
const STATUS_TIMEOUT: Duration = Duration::from_secs(60);

/// The program `evmd` and a home folder.
#[derive(Clone, Debug)]
pub(crate) struct Evmd {
    program: PathBuf,
    home: PathBuf,
}

/// The replay of blocks at startup, as `evmd start` printed it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Replayed {
    pub(crate) blocks: u64,
    pub(crate) transactions: u64,
    pub(crate) seconds: f64,
}

/// The result of `evmd debug state-root`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Audit {
    /// The newest block of the index.
    pub(crate) block: u64,
    pub(crate) head: u64,
    /// Transactions in the blocks between `block` and `head`.
    pub(crate) unflushed: u64,
}

/// A running node; dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Running {
    process: Child,
    /// Keeps the pipe open, so that the node can write to stdout.
    _banner: BufReader<ChildStdout>,
    pub(crate) rpc: Rpc,
    pub(crate) ws: Url,
    pub(crate) ingest: SocketAddr,
    /// The URL of the node's status.
    status: String,
    /// Time from starting the process to serving.
    pub(crate) starting: Duration,
    pub(crate) replayed: Replayed,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Evmd {
    /// Finds the given program, or the `evmd` in the folder of this program.
    pub(crate) fn find(program: Option<&Path>, home: &Path) -> anyhow::Result<Self> {
        let program = match program {
            Some(program) => program.to_owned(),
            None => std::env::current_exe()?.with_file_name("evmd"),
        };
        if !program.exists() {
            bail!("{} does not exist: build it, or set --evmd", program.display());
        }
        Ok(Self { program, home: home.to_owned() })
    }

    /// Creates a chain in the home folder, with the given genesis file or the default of `evmd init`.
    pub(crate) fn init(&self, genesis: Option<&Path>) -> anyhow::Result<()> {
        let mut command = Command::new(&self.program);
        command.arg("init").arg("--home").arg(&self.home);
        if let Some(genesis) = genesis {
            command.arg("--genesis").arg(genesis);
        }
        let output = command.output().context("evmd init")?;
        if !output.status.success() {
            bail!("evmd init: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    /// Creates the home folders of validators inside this home folder. Returns their public keys.
    pub(crate) fn testnet(&self, validators: usize) -> anyhow::Result<Vec<String>> {
        let mut command = Command::new(&self.program);
        command.args(["testnet", "--output", "json", "--validators", &validators.to_string()]);
        let output =
            command.arg("--output-dir").arg(&self.home).output().context("evmd testnet")?;
        if !output.status.success() {
            bail!("evmd testnet: {}", String::from_utf8_lossy(&output.stderr));
        }
        let made: Value = serde_json::from_slice(&output.stdout)?;
        let keys = made["validators"].as_array().context("no validators")?.iter();
        let key = |validator: &Value| validator["consensusKey"].as_str().map(str::to_owned);
        keys.map(|validator| key(validator).context("no consensusKey")).collect()
    }

    /// Starts the node with ports that the kernel chooses, and waits until it serves.
    pub(crate) fn start(&self) -> anyhow::Result<Running> {
        self.start_with(&[])
    }

    /// Does the same as [`Self::start`] with more options, which may include addresses of servers.
    pub(crate) fn start_with(&self, options: &[(&str, String)]) -> anyhow::Result<Running> {
        let begun = Instant::now();
        let has_no_address = |server: &&&str| !options.iter().any(|(option, _)| option == *server);
        let mut process = Command::new(&self.program)
            .args(["start", "--quiet"])
            .args(SERVERS.iter().filter(has_no_address).flat_map(|option| [*option, "127.0.0.1:0"]))
            .args(options.iter().flat_map(|(option, value)| [*option, value]))
            .arg("--home")
            .arg(&self.home)
            .stdout(Stdio::piped())
            .stderr(self.log()?)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let mut banner =
            BufReader::new(process.stdout.take().context("the output of evmd is piped")?);
        let (mut json_rpc, mut ingest, mut status) = (None, None, None);
        let (mut replayed, mut line) = (Replayed::default(), String::new());
        // The lines after "metrics" are not needed.
        while !line.starts_with("metrics") {
            line.clear();
            if banner.read_line(&mut line)? == 0 {
                let status = process.wait()?;
                let program = self.program.display();
                bail!("{program} start --home {} ended: {status}", self.home.display());
            }
            if let Some(urls) = line.strip_prefix("JSON-RPC") {
                json_rpc =
                    urls.trim().split_once(' ').map(|(http, ws)| (http.to_owned(), ws.to_owned()));
            }
            if let Some(at) = line.strip_prefix("transactions") {
                ingest = at.trim().strip_prefix("tcp://").and_then(|at| at.parse().ok());
            }
            if let Some(urls) = line.strip_prefix("metrics") {
                status = urls.trim().split_once("/metrics").map(|(url, _)| format!("{url}/status"));
            }
            if let Some(text) = line.strip_prefix("replayed") {
                replayed = Replayed::parse(text)
                    .context("cannot parse the line of the banner about replayed blocks")?;
            }
        }
        let (http, ws) = json_rpc.context("the banner lacks the addresses of JSON-RPC")?;
        Ok(Running {
            process,
            _banner: banner,
            rpc: Rpc::new(&Url::parse(&http)?),
            ws: Url::parse(&ws)?,
            ingest: ingest.context("the banner lacks the address of the TCP ingest")?,
            status: status.context("the banner lacks the address of the metrics")?,
            starting: begun.elapsed(),
            replayed,
        })
    }

    /// Opens the file for the node's log, next to its home folder. A restarted node appends to it.
    fn log(&self) -> anyhow::Result<File> {
        let path = self.home.with_extension("log");
        let file = File::options().create(true).append(true).open(&path);
        file.with_context(|| path.display().to_string())
    }

    /// Runs `evmd debug state-root`, which recomputes the state root of a home that may be in use.
    /// Fails if the root is wrong.
    pub(crate) fn audit(&self) -> anyhow::Result<Audit> {
        let mut command = Command::new(&self.program);
        command.args(["debug", "state-root", "-o", "json", "--home"]).arg(&self.home);
        let output = command.output().context("evmd debug state-root")?;
        if !output.status.success() {
            bail!("evmd debug state-root: {}", String::from_utf8_lossy(&output.stderr));
        }
        let found: Value = serde_json::from_slice(&output.stdout)?;
        let number = |name: &str| found[name].as_u64().with_context(|| format!("no {name}"));
        Ok(Audit {
            block: number("block")?,
            head: number("head")?,
            unflushed: number("unflushedTransactions")?,
        })
    }
}

impl Running {
    /// Returns the CPU time of the process.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        Process::from_pid(self.process.id())?.cpu()
    }

    /// Median and 95th percentile of the time to finality in milliseconds, or `None` if the node is not a validator.
    pub(crate) fn finality(&self) -> anyhow::Result<Option<[f64; 2]>> {
        let request = ureq::get(&self.status).config().timeout_global(Some(STATUS_TIMEOUT)).build();
        let response = request.call().context("/status")?;
        let status: Value = serde_json::from_reader(response.into_body().into_reader())?;
        let ms = |name: &str| status["validator"]["finalityMs"][name].as_f64();
        Ok(ms("p50").zip(ms("p95")).map(|(median, p95)| [median, p95]))
    }

    /// Sends a signal. `option` is the option of the program `kill`, such as `-STOP`.
    pub(crate) fn signal(&self, option: &str) -> anyhow::Result<()> {
        let status = Command::new("kill").args([option, &self.process.id().to_string()]).status();
        if !status.context("kill")?.success() {
            bail!("kill {option} failed");
        }
        Ok(())
    }

    /// Sends SIGKILL and waits until the process has ended.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Replayed {
    /// Parses "N blocks with N transactions in S s".
    fn parse(text: &str) -> Option<Self> {
        let words: Vec<_> = text.split_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse().ok();
        Some(Self {
            blocks: number(0)?,
            transactions: number(3)?,
            seconds: words.get(6)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replay_line_of_the_banner_is_parsed() {
        let text = "         26 blocks with 260000 transactions in 1.250 s\n";
        let read = Replayed::parse(text).unwrap();
        assert_eq!((read.blocks, read.transactions, read.seconds), (26, 260_000, 1.25));
        assert!(Replayed::parse("nothing").is_none());
    }
}
