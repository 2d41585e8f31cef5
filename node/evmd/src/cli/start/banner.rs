//! Prints the summary of a started node to standard output.

use super::listeners::{COMET_NAME, InUse, PAGES_NAME, reason_not_served};
use chain::{DEV_ACCOUNTS, DevAccount, Rules};
use config::{Config, Endpoints, Listen};
use home::Home;
use pages::text::{bytes, grouped};
use pipeline::{INGEST_NAME, Mining, MiningControl, Pipeline};
use state::View;
use std::io::Write;
use storage::StateRead;
use verify::Backend;

/// Prints the development accounts that have a balance on the chain, with their keys.
fn development_accounts(out: &mut impl Write, view: &View, prefix: &str) -> anyhow::Result<()> {
    let state = view.state.reader()?;
    let mut title =
        Some("\nDevelopment accounts. Their keys are public: never use them elsewhere.");
    for (n, DevAccount { address, private_key }) in DEV_ACCOUNTS.iter().enumerate() {
        if state.account(*address)?.is_none_or(|account| account.balance.is_zero()) {
            continue;
        }
        if let Some(title) = title.take() {
            writeln!(out, "{title}")?;
        }
        let bech32 = ::keys::bech32(prefix, *address);
        writeln!(out, "({n}) {address} {bech32}\n    key {private_key}")?;
    }
    Ok(())
}

/// Formats the memory that the process may use, and the settings derived from it.
fn derived(config: &Config) -> String {
    let values = config.derived();
    let values = values.iter().map(|(name, value)| match *name {
        "memory" => bytes(*value),
        name if name.ends_with("-bytes") => format!("{name} {}", bytes(*value)),
        name => format!("{name} {}", grouped(*value)),
    });
    values.collect::<Vec<_>>().join("\n                 ")
}

/// The data of the summary.
pub(super) struct Banner<'a> {
    pub(super) home: &'a Home,
    pub(super) pipeline: &'a Pipeline,
    /// The servers that do not run because another process uses their default address.
    pub(super) in_use: &'a [InUse],
    pub(super) mining: Option<&'a MiningControl>,
    pub(super) backend: Backend,
}

impl Banner<'_> {
    /// Prints the summary. On a native chain the development accounts come first, unless `quiet` is set.
    pub(super) fn print(&self, quiet: bool) -> anyhow::Result<()> {
        let Self { home, pipeline, .. } = self;
        let view = pipeline.published.load();
        let mut out = crate::cli::stdout();
        writeln!(out, "evmd {}", env!("CARGO_PKG_VERSION"))?;
        if home.spec.rules == Rules::Native && !quiet {
            development_accounts(&mut out, &view, &home.spec.bech32_prefix)?;
        }
        let replayed = home.replayed;
        if replayed.blocks > 0 {
            writeln!(
                out,
                "\nreplayed         {} blocks with {} transactions in {:.3} s",
                replayed.blocks,
                replayed.transactions,
                replayed.elapsed.as_secs_f64()
            )?;
        }
        let at = home.config.endpoints();
        writeln!(
            out,
            "
chain id         {}
home             {}
web pages        {}
head             {} {}
block time       {}
recovery         {}, {} threads
JSON-RPC         {}
REST             {}
gRPC             {}
CometBFT RPC     {}
transactions     {}{}
metrics          {}
memory           {}",
            home.spec.chain_id,
            home.path.display(),
            self.server(PAGES_NAME, at.pages.map(|at| format!("http://{at}"))),
            view.number(),
            view.head.hash,
            self.block_time(),
            self.backend,
            home.config.pipeline.recover_workers(),
            self.server("JSON-RPC", json_rpc(&at)),
            self.server("REST", at.rest.map(|at| format!("http://{at} /swagger"))),
            self.server("gRPC", at.grpc.map(|at| at.to_string())),
            self.server(COMET_NAME, at.comet.map(|at| format!("http://{at}"))),
            self.server(INGEST_NAME, at.ingest.map(|at| format!("tcp://{at}"))),
            replication(&home.config),
            self.server(
                "metrics",
                at.metrics.map(|at| format!("http://{at}/metrics /health /ready /status"))
            ),
            derived(&home.config),
        )?;
        out.flush()?;
        Ok(())
    }

    fn block_time(&self) -> String {
        let time = self.home.config.engine.block_time();
        match self.mining.map(MiningControl::get) {
            None if self.home.config.p2p.address != Listen::Off => {
                format!("{time:?} (this node is one of the validators)")
            }
            None => "none (this node does not produce blocks)".to_owned(),
            Some(Mining::Instant | Mining::OnRequest) => {
                "none (a block as soon as there is a transaction)".to_owned()
            }
            Some(Mining::Every(time)) => format!("{time:?} (earlier when a block is full)"),
        }
    }

    /// Returns the address of a server, or the reason why it has none.
    fn server(&self, name: &str, address: Option<String>) -> String {
        address.unwrap_or_else(|| reason_not_served(self.in_use, name))
    }
}

/// Formats the lines about validators, followers and sources.
fn replication(config: &Config) -> String {
    let mut lines = String::new();
    if let Some(at) = config.p2p.address.address() {
        let count = config.p2p.peers.len();
        lines += &format!("\nvalidators       tcp://{at}, {count} others");
    }
    if let Some(at) = config.replication.address.address() {
        let scheme = if config.replication.tls_certificate.is_empty() { "http" } else { "https" };
        lines += &format!("\nreplication      {scheme}://{at}");
    }
    if !config.replication.follow.is_empty() {
        lines += &format!("\nfollows          {}", config.replication.follow.join(" "));
    }
    lines
}

/// Formats the HTTP and WebSocket addresses of JSON-RPC. Without a WebSocket-only address, both are the HTTP address.
fn json_rpc(at: &Endpoints) -> Option<String> {
    let http = at.json_rpc.map(|at| format!("http://{at}"));
    let web_socket = at.json_rpc_ws.or(at.json_rpc).map(|at| format!("ws://{at}"));
    let found: Vec<_> = http.into_iter().chain(web_socket).collect();
    (!found.is_empty()).then(|| found.join(" "))
}
