//! The node that a command uses. `--node` has the same meaning for all commands: an HTTP address of REST,
//! JSON-RPC or metrics. A command that needs another server finds its address through the given one.

use super::client::Client;
use anyhow::bail;
use config::Endpoints;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// The port of REST, if the URL has no port.
pub(in crate::cli) const DEFAULT_PORT: u16 = 1317;
/// The default port of metrics.
const METRICS_PORT: u16 = 26660;

/// The address of the node.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct NodeArg {
    /// Address of the node's REST server; those of JSON-RPC and metrics also work
    #[arg(long, value_name = "URL", env = "EVMD_NODE", default_value = "http://127.0.0.1:1317")]
    pub(in crate::cli) node: String,
}

/// The addresses in the response of `/status`.
#[derive(Deserialize)]
struct StatusEndpoints {
    endpoints: Endpoints,
}

impl NodeArg {
    /// A client of the given address.
    fn named(&self) -> anyhow::Result<Client> {
        Client::new(&self.node, DEFAULT_PORT)
    }

    /// Gets a path of REST; returns status and JSON text.
    pub(in crate::cli) fn rest(&self, path: &str, headers: &str) -> anyhow::Result<(u16, String)> {
        let named = self.named()?;
        let answer = named.get(path, headers)?;
        if is_rest(&answer) {
            return Ok(answer);
        }
        let rest = self.other("REST", DEFAULT_PORT, |endpoints| endpoints.rest)?;
        let answer = rest.get(path, headers)?;
        self.check(is_rest(&answer), "REST", DEFAULT_PORT)?;
        Ok(answer)
    }

    /// The status of the node.
    pub(in crate::cli) fn status(&self) -> anyhow::Result<String> {
        let is_status = |answer: &(u16, String)| answer.0 == 200 && status(&answer.1).is_some();
        let mut answer = self.named()?.get("/status", "")?;
        if !is_status(&answer) {
            let metrics = self.other("metrics", METRICS_PORT, |endpoints| endpoints.metrics)?;
            answer = metrics.get("/status", "")?;
        }
        self.check(is_status(&answer), "metrics", METRICS_PORT)?;
        Ok(answer.1)
    }

    fn check(&self, good: bool, server: &str, port: u16) -> anyhow::Result<()> {
        if !good {
            bail!(not_the_address(&self.node, server, port));
        }
        Ok(())
    }

    /// A client of another server of the same node. `server` is its name and `port` its default port.
    fn other(
        &self,
        server: &str,
        port: u16,
        wanted: impl Fn(&Endpoints) -> SocketAddr,
    ) -> anyhow::Result<Client> {
        let named = self.named()?;
        let endpoints = match endpoints(&named)? {
            Found::Endpoints(endpoints) => endpoints,
            Found::NotServed(json_rpc) => bail!(
                "the JSON-RPC server at {json_rpc} does not serve the namespace evmd, which names the address of \
                 {server}: give that address, such as --node http://{}:{port}, or start the node with evmd in \
                 json-rpc.api (--json-rpc.api)",
                named.host()
            ),
            Found::Nothing => bail!(not_the_address(&self.node, server, port)),
        };
        let address = wanted(&endpoints);
        // An unspecified or loopback address refers to the machine of the node.
        let is_local = address.ip().is_unspecified() || address.ip().is_loopback();
        let host = if is_local { named.host().to_owned() } else { address.ip().to_string() };
        Client::new(&format!("http://{host}:{}", address.port()), DEFAULT_PORT)
    }
}

/// The error for a URL that is not the address of this server.
pub(in crate::cli) fn not_the_address(url: &str, server: &str, port: u16) -> String {
    format!(
        "--node {url} is not the address of a node's {server} server, which has port {port} by default: give that \
         address, such as --node http://127.0.0.1:{port}"
    )
}

/// The response to a query for the addresses of all servers.
enum Found {
    Endpoints(Endpoints),
    /// The JSON-RPC server with this address does not serve `evmd_endpoints`.
    NotServed(String),
    /// The server is none of a node that knows the addresses.
    Nothing,
}

/// Queries any server of the node for the addresses of all servers.
fn endpoints(named: &Client) -> anyhow::Result<Found> {
    let call = |client: &Client| client.call("evmd_endpoints", &json!([])).map(Found::Endpoints);
    match call(named) {
        Err(error) if is_not_served(&error) => {
            return Ok(Found::NotServed(named.authority().to_owned()));
        }
        Err(_) => {}
        found => return found,
    }
    if let Some(endpoints) = status(&named.get("/status", "")?.1) {
        return Ok(Found::Endpoints(endpoints));
    }
    let (_, info) = named.get("/cosmos/base/tendermint/v1beta1/node_info", "")?;
    let info: Value = serde_json::from_str(&info).unwrap_or_default();
    match info["default_node_info"]["other"]["rpc_address"].as_str() {
        Some(rpc) => {
            let port = rpc.rsplit(':').next().unwrap_or_default();
            let rpc = Client::new(&format!("http://{}:{port}", named.host()), DEFAULT_PORT)?;
            match call(&rpc) {
                Err(error) if is_not_served(&error) => {
                    Ok(Found::NotServed(rpc.authority().to_owned()))
                }
                found => found,
            }
        }
        None => Ok(Found::Nothing),
    }
}

/// Whether this is JSON-RPC's error for a method that the address does not serve.
fn is_not_served(error: &anyhow::Error) -> bool {
    error.to_string().contains("the method evmd_endpoints does not exist/is not available")
}

fn status(text: &str) -> Option<Endpoints> {
    serde_json::from_str::<StatusEndpoints>(text).ok().map(|status| status.endpoints)
}

/// A response of REST is JSON, and an error has a code. Other servers have other errors.
pub(in crate::cli) fn is_rest((status, text): &(u16, String)) -> bool {
    let Ok(Value::Object(answer)) = serde_json::from_str(text) else { return false };
    *status == 200 && !answer.contains_key("jsonrpc")
        || answer.contains_key("code") && answer.contains_key("message")
}
