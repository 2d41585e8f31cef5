//! The node that a command uses. `--node` has the same meaning for all commands: an HTTP address of REST,
//! JSON-RPC or metrics. A command that needs another server finds its address through the given one.

use super::client::Client;
use anyhow::{Context, bail};
use config::Endpoints;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// The port of REST, if the URL has no port.
const DEFAULT_PORT: u16 = 1317;

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
        let answer = self.other(|endpoints| endpoints.rest)?.get(path, headers)?;
        self.check(is_rest(&answer), "REST")?;
        Ok(answer)
    }

    /// The status of the node.
    pub(in crate::cli) fn status(&self) -> anyhow::Result<String> {
        let is_status = |answer: &(u16, String)| answer.0 == 200 && status(&answer.1).is_some();
        let mut answer = self.named()?.get("/status", "")?;
        if !is_status(&answer) {
            answer = self.other(|endpoints| endpoints.metrics)?.get("/status", "")?;
        }
        self.check(is_status(&answer), "metrics")?;
        Ok(answer.1)
    }

    fn check(&self, good: bool, what: &str) -> anyhow::Result<()> {
        if !good {
            bail!("{} is not the address of a node that serves {what} (--node)", self.node);
        }
        Ok(())
    }

    /// A client of another server of the same node.
    fn other(&self, wanted: impl Fn(&Endpoints) -> SocketAddr) -> anyhow::Result<Client> {
        let named = self.named()?;
        let endpoints = endpoints(&named)?;
        let endpoints = endpoints
            .with_context(|| format!("{} is not the address of a node (--node)", self.node))?;
        let address = wanted(&endpoints);
        // An unspecified or loopback address refers to the machine of the node.
        let is_local = address.ip().is_unspecified() || address.ip().is_loopback();
        let host = if is_local { named.host().to_owned() } else { address.ip().to_string() };
        Client::new(&format!("http://{host}:{}", address.port()), DEFAULT_PORT)
    }
}

/// Queries any server of the node for the addresses of all servers.
fn endpoints(named: &Client) -> anyhow::Result<Option<Endpoints>> {
    if let Ok(endpoints) = named.call("evmd_endpoints", &json!([])) {
        return Ok(Some(endpoints));
    }
    if let Some(endpoints) = status(&named.get("/status", "")?.1) {
        return Ok(Some(endpoints));
    }
    let (_, info) = named.get("/cosmos/base/tendermint/v1beta1/node_info", "")?;
    let info: Value = serde_json::from_str(&info).unwrap_or_default();
    match info["default_node_info"]["other"]["rpc_address"].as_str() {
        Some(rpc) => {
            let port = rpc.rsplit(':').next().unwrap_or_default();
            let rpc = Client::new(&format!("http://{}:{port}", named.host()), DEFAULT_PORT)?;
            rpc.call("evmd_endpoints", &json!([])).map(Some)
        }
        None => Ok(None),
    }
}

fn status(text: &str) -> Option<Endpoints> {
    serde_json::from_str::<StatusEndpoints>(text).ok().map(|status| status.endpoints)
}

/// A response of REST is JSON, and an error has a code. Other servers have other errors.
fn is_rest((status, text): &(u16, String)) -> bool {
    let Ok(Value::Object(answer)) = serde_json::from_str(text) else { return false };
    *status == 200 && !answer.contains_key("jsonrpc")
        || answer.contains_key("code") && answer.contains_key("message")
}
