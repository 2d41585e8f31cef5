//! The node a command talks to. `--node` has one meaning everywhere: an HTTP address of the node,
//! whichever: REST, JSON-RPC or metrics. What a command needs is asked at that address, and if
//! another is served there, at the one the node names for it.

use super::client::Client;
use anyhow::{Context, bail};
use config::Endpoints;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// Port of REST, where the URL names none.
const DEFAULT_PORT: u16 = 1317;

/// Where a command finds its node.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct NodeArg {
    /// Where the node serves REST; its JSON-RPC and metrics addresses do as well
    #[arg(long, value_name = "URL", env = "EVMD_NODE", default_value = "http://127.0.0.1:1317")]
    pub(in crate::cli) node: String,
}

/// What `/status` says of addresses.
#[derive(Deserialize)]
struct StatusEndpoints {
    endpoints: Endpoints,
}

impl NodeArg {
    /// A client of the address named.
    fn named(&self) -> anyhow::Result<Client> {
        Client::new(&self.node, DEFAULT_PORT)
    }

    /// Gets a path of REST; status and JSON text.
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

    /// What the node tells of itself.
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
            bail!("{} is no address of a node that serves {what} (--node)", self.node);
        }
        Ok(())
    }

    /// A client of another address of the same node.
    fn other(&self, wanted: impl Fn(&Endpoints) -> SocketAddr) -> anyhow::Result<Client> {
        let named = self.named()?;
        let endpoints = endpoints(&named)?;
        let endpoints =
            endpoints.with_context(|| format!("{} is no address of a node (--node)", self.node))?;
        let address = wanted(&endpoints);
        // An address that stands for all of a machine's, or for the machine itself, is of the node's.
        let is_local = address.ip().is_unspecified() || address.ip().is_loopback();
        let host = if is_local { named.host().to_owned() } else { address.ip().to_string() };
        Client::new(&format!("http://{host}:{}", address.port()), DEFAULT_PORT)
    }
}

/// Asks a server of any kind where its node serves what.
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

/// An answer of REST is JSON, a failure with its code; what else answers there has other failures.
fn is_rest((status, text): &(u16, String)) -> bool {
    let Ok(Value::Object(answer)) = serde_json::from_str(text) else { return false };
    *status == 200 && !answer.contains_key("jsonrpc")
        || answer.contains_key("code") && answer.contains_key("message")
}
