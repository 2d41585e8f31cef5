//! Detects which HTTP server of a node listens at a URL, and finds the addresses of its other servers.

use super::client::Client;
use anyhow::{Context, bail};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use config::Endpoints;
use prost::Message;
use proto::cosmos::base::tendermint::v1beta1::GetNodeInfoResponse;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// A REST query that every node supports.
const NODE_INFO: &str = "/cosmos/base/tendermint/v1beta1/node_info";
/// The same query for CometBFT's RPC, which passes it to the gRPC service.
const NODE_INFO_SERVICE: &str = "/cosmos.base.tendermint.v1beta1.Service/GetNodeInfo";

/// A server that responds over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Server {
    Rest,
    JsonRpc,
    Comet,
    Metrics,
}

impl Server {
    const ALL: [Self; 4] = [Self::Rest, Self::JsonRpc, Self::Comet, Self::Metrics];

    const fn name(self) -> &'static str {
        match self {
            Self::Rest => "REST",
            Self::JsonRpc => "JSON-RPC",
            Self::Comet => "the CometBFT RPC",
            Self::Metrics => "metrics",
        }
    }

    /// Returns the flag of `evmd start` that sets the address of this server.
    const fn flag(self) -> &'static str {
        match self {
            Self::Rest => "--rest.address",
            Self::JsonRpc => "--json-rpc.address",
            Self::Comet => "--comet.address",
            Self::Metrics => "--metrics.address",
        }
    }

    pub(in crate::cli) const fn default_port(self) -> u16 {
        match self {
            Self::Rest => 1317,
            Self::JsonRpc => 8545,
            Self::Comet => 26657,
            Self::Metrics => 26660,
        }
    }

    /// Returns the address of this server, or an error if the node does not run it.
    pub(super) fn address(self, endpoints: &Endpoints) -> anyhow::Result<SocketAddr> {
        let address = match self {
            Self::Rest => endpoints.rest,
            Self::JsonRpc => endpoints.json_rpc,
            Self::Comet => endpoints.comet,
            Self::Metrics => endpoints.metrics,
        };
        address.with_context(|| {
            format!(
                "the node does not serve {}, because the server is off or its default address was in use when the node \
                 started: start it with an address ({})",
                self.name(),
                self.flag()
            )
        })
    }

    /// Returns whether this server listens at the URL of the client. Other servers refuse its requests in various ways,
    /// so every failure means that another server listens there.
    fn listens_at(self, client: &Client) -> bool {
        match self {
            Self::Rest => client.get(NODE_INFO, "").is_ok_and(|response| is_rest(&response)),
            Self::JsonRpc => match own_endpoints(client) {
                Ok(_) => true,
                Err(error) => is_not_served(&error),
            },
            Self::Comet => comet_status(client),
            Self::Metrics => status_of(client).is_some(),
        }
    }
}

/// Returns a client of the server `wanted`. `url` may be the address of any HTTP server of the node.
pub(super) fn client_of(wanted: Server, url: &str) -> anyhow::Result<Client> {
    let named = Client::new(url, Server::Rest.default_port())?;
    named.connect()?;
    if wanted.listens_at(&named) {
        return Ok(named);
    }
    let mut others = Server::ALL.into_iter().filter(|server| *server != wanted);
    let Some(server) = others.find(|server| server.listens_at(&named)) else {
        let servers =
            Server::ALL.map(|server| format!("{} ({})", server.name(), server.default_port()));
        bail!(
            "--node {url} is not the address of an HTTP server of a node: use the address of {}, such as --node \
             http://127.0.0.1:{}; the default ports are in parentheses",
            servers.join(", "),
            Server::Rest.default_port()
        );
    };
    let client = address_from(server, &named, wanted)?;
    if !wanted.listens_at(&client) {
        bail!(
            "{} of the node at {url} does not respond at {}: set its address with --node",
            wanted.name(),
            client.authority()
        );
    }
    Ok(client)
}

/// Returns a client of `wanted`. Finds its address through `server`, which listens at `named`.
fn address_from(server: Server, named: &Client, wanted: Server) -> anyhow::Result<Client> {
    let json_rpc = match server {
        Server::Metrics => {
            let endpoints = status_of(named).context("the status of the node has no addresses")?;
            return on_machine_of(named, wanted.address(&endpoints)?);
        }
        Server::JsonRpc => return through_json_rpc(named, wanted),
        Server::Rest => {
            let (_, info) = named.get(NODE_INFO, "")?;
            let info: Value = serde_json::from_str(&info)?;
            info["default_node_info"]["other"]["rpc_address"].as_str().map(str::to_owned)
        }
        Server::Comet => Some(rpc_address_of_comet(named)?),
    };
    let json_rpc = json_rpc.as_deref().and_then(|url| url.strip_prefix("http://")?.parse().ok());
    let json_rpc =
        on_machine_of(named, json_rpc.context("the node named no address of JSON-RPC")?)?;
    match wanted {
        Server::JsonRpc => Ok(json_rpc),
        _ => through_json_rpc(&json_rpc, wanted),
    }
}

fn through_json_rpc(json_rpc: &Client, wanted: Server) -> anyhow::Result<Client> {
    match own_endpoints(json_rpc) {
        Ok(endpoints) => on_machine_of(json_rpc, wanted.address(&endpoints)?),
        Err(error) if is_not_served(&error) => bail!(
            "the JSON-RPC server at {} does not serve the namespace evmd, which names the address of {}: give that \
             address, such as --node http://{}:{}, or start the node with evmd in json-rpc.api (--json-rpc.api)",
            json_rpc.authority(),
            wanted.name(),
            json_rpc.host(),
            wanted.default_port()
        ),
        Err(error) => Err(error),
    }
}

/// Returns a client for another address of the node. A loopback or unspecified one is replaced by the host of `named`.
fn on_machine_of(named: &Client, address: SocketAddr) -> anyhow::Result<Client> {
    let is_local = address.ip().is_unspecified() || address.ip().is_loopback();
    let url = if is_local {
        format!("http://{}:{}", named.host(), address.port())
    } else {
        format!("http://{address}")
    };
    Client::new(&url, address.port())
}

/// Queries the addresses of the node with `evmd_endpoints`.
fn own_endpoints(client: &Client) -> anyhow::Result<Endpoints> {
    client.call("evmd_endpoints", &json!([]))
}

/// Returns whether this is the error of a JSON-RPC server that does not serve `evmd_endpoints`.
fn is_not_served(error: &anyhow::Error) -> bool {
    error.to_string().contains("the method evmd_endpoints does not exist/is not available")
}

fn comet_status(client: &Client) -> bool {
    let Ok((200, body)) = client.get("/status", "") else { return false };
    let status: Value = serde_json::from_str(&body).unwrap_or_default();
    status["result"]["node_info"].is_object()
}

/// Queries CometBFT's RPC for the address of JSON-RPC. `status` contains only the address of CometBFT's RPC itself.
fn rpc_address_of_comet(client: &Client) -> anyhow::Result<String> {
    let response: Value = client.call("abci_query", &json!({ "path": NODE_INFO_SERVICE }))?;
    let value =
        response["response"]["value"].as_str().context("the node returned no information")?;
    let info = GetNodeInfoResponse::decode(BASE64.decode(value)?.as_slice())?;
    let other = info.default_node_info.unwrap_or_default().other.unwrap_or_default();
    Ok(other.rpc_address)
}

/// The addresses in the response of `/status`.
#[derive(Deserialize)]
struct StatusEndpoints {
    endpoints: Endpoints,
}

fn status_of(client: &Client) -> Option<Endpoints> {
    let (status, body) = client.get("/status", "").ok()?;
    let found = serde_json::from_str::<StatusEndpoints>(&body).ok().filter(|_| status == 200);
    found.map(|found| found.endpoints)
}

/// Returns whether REST sent a response: a JSON object without `jsonrpc` (status 200), or with `code` and `message`.
pub(in crate::cli) fn is_rest((status, text): &(u16, String)) -> bool {
    let Ok(Value::Object(response)) = serde_json::from_str(text) else { return false };
    *status == 200 && !response.contains_key("jsonrpc")
        || response.contains_key("code") && response.contains_key("message")
}
