//! Finds the node that a command uses. `--node` has the same meaning for all commands: the address of any HTTP server
//! of the node. `--home` selects the node that runs on a home folder, whatever its addresses are.

use super::{
    client::Client,
    server::{self, Server},
};
use crate::cli::{HomeArg, running_node};
use anyhow::bail;
use clap::{ArgMatches, Args, FromArgMatches, parser::ValueSource};
use home::Home;

/// The address of the node if neither an address nor a home folder selects one.
const DEFAULT_NODE: &str = "http://127.0.0.1:1317";

/// The address of the node, or its home folder.
#[derive(Clone, Debug)]
pub(in crate::cli) struct NodeArg {
    node: Option<String>,
    pub(in crate::cli) home: HomeArg,
    /// Whether `--home` is on the command line and `--node` is not, so that the home folder overrides `EVMD_NODE`.
    home_is_more_specific: bool,
}

/// The options of [`NodeArg`].
#[derive(Debug, Args)]
struct Options {
    /// Address of any HTTP server of the node: REST, JSON-RPC, the CometBFT RPC or metrics; by default that of the
    /// node that runs on the home folder, or else http://127.0.0.1:1317
    #[arg(long, value_name = "URL", env = "EVMD_NODE")]
    node: Option<String>,
    #[command(flatten)]
    home: HomeArg,
}

impl FromArgMatches for NodeArg {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let Options { node, home } = Options::from_arg_matches(matches)?;
        let is_flag = |name| matches.value_source(name) == Some(ValueSource::CommandLine);
        Ok(Self { node, home, home_is_more_specific: is_flag("home") && !is_flag("node") })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for NodeArg {
    fn augment_args(command: clap::Command) -> clap::Command {
        Options::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Options::augment_args_for_update(command)
    }
}

impl NodeArg {
    /// Returns whether the command line or the environment sets an address.
    pub(in crate::cli) const fn has_address(&self) -> bool {
        self.node.is_some()
    }

    /// Returns a client of this server of the node.
    pub(in crate::cli) fn client(&self, server: Server) -> anyhow::Result<Client> {
        if let Some(url) = self.node.as_deref().filter(|_| !self.home_is_more_specific) {
            return server::client_of(server, url);
        }
        if let Some(running) = self.running()? {
            let address = running_node::reachable(server.address(&running)?);
            return Client::new(&format!("http://{address}"), address.port());
        }
        server::client_of(server, self.node.as_deref().unwrap_or(DEFAULT_NODE))
    }

    /// Returns the addresses of the node that runs on the home folder. If the user has set the folder, it is an error
    /// if the folder does not exist, cannot be read, or has a chain but no running node, because another node may use
    /// the default address. A folder without a chain is accepted, because it may contain only keys.
    fn running(&self) -> anyhow::Result<Option<config::Endpoints>> {
        let Ok(path) = self.home.path() else { return Ok(None) };
        let running = match running_node::find(&path) {
            Err(error) if self.home.home.is_some() => bail!(
                "cannot read which node runs on the home folder {}: {error}; run the command as the user of the node, or \
                 name the node with --node",
                path.display()
            ),
            running => running.unwrap_or_default(),
        };
        if running.is_none() && self.home.home.is_some() && !path.exists() {
            bail!("the home folder {} does not exist", path.display());
        }
        if running.is_none() && self.home.home.is_some() && Home::exists(&path) {
            bail!(
                "no running node uses the home folder {0}: start it with `evmd start --home {0}`, or name another node with \
                 --node",
                path.display()
            );
        }
        Ok(running)
    }

    /// Sends a GET request for a REST path; returns the HTTP status and the JSON text.
    pub(in crate::cli) fn rest(&self, path: &str, headers: &str) -> anyhow::Result<(u16, String)> {
        self.client(Server::Rest)?.get(path, headers)
    }

    /// Returns the JSON text of `/status`.
    pub(in crate::cli) fn status(&self) -> anyhow::Result<String> {
        let (status, body) = self.client(Server::Metrics)?.get("/status", "")?;
        if status != 200 {
            bail!("the response of the node's metrics server has status {status}");
        }
        Ok(body)
    }
}
