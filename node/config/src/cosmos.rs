//! The Cosmos interfaces: where each is served, and how much it takes.

use super::{bounds, local, local_hosts, local_origins};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Connections to REST, gRPC and CometBFT's RPC, each: browsers and tools keep a few open.
const MAX_CONNECTIONS: u32 = 1000;
/// Cosmos queries answered at once: they are short, and share the cores with the pipeline.
const MAX_CONCURRENT: u32 = 64;
/// Bytes of a Cosmos request: a transaction of the largest size in base64, and room.
const MAX_REQUEST_BYTES: u32 = 1024 * 1024;

/// `[rest]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rest {
    /// Where it is served.
    pub address: SocketAddr,
    /// Names that requests may be addressed to, as `json-rpc.allowed-hosts`.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may read answers and submit transactions, as `json-rpc.cors-origins`.
    pub cors_origins: Vec<String>,
    /// Most connections at once.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_connections: u32,
    /// Most requests answered at once; others wait.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_concurrent: u32,
    /// Most bytes of a request.
    pub max_request_bytes: u32,
}

impl Default for Rest {
    fn default() -> Self {
        Self {
            address: local(1317),
            allowed_hosts: local_hosts(),
            cors_origins: local_origins(),
            max_connections: MAX_CONNECTIONS,
            max_concurrent: MAX_CONCURRENT,
            max_request_bytes: MAX_REQUEST_BYTES,
        }
    }
}

/// `[grpc]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Grpc {
    /// Where it is served.
    pub address: SocketAddr,
    /// Most connections at once.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_connections: u32,
    /// Most requests answered at once; others wait.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_concurrent: u32,
    /// Most bytes of a request.
    pub max_request_bytes: u32,
}

impl Default for Grpc {
    fn default() -> Self {
        Self {
            address: local(9090),
            max_connections: MAX_CONNECTIONS,
            max_concurrent: MAX_CONCURRENT,
            max_request_bytes: MAX_REQUEST_BYTES,
        }
    }
}

/// `[comet]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Comet {
    /// Where it is served.
    pub address: SocketAddr,
    /// Names that requests may be addressed to, as `json-rpc.allowed-hosts`.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may read answers and submit transactions, as `json-rpc.cors-origins`.
    pub cors_origins: Vec<String>,
    /// Most connections at once.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_connections: u32,
    /// Most requests answered at once; others wait.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_concurrent: u32,
    /// Most bytes of a request.
    pub max_request_bytes: u32,
}

impl Default for Comet {
    fn default() -> Self {
        Self {
            address: local(26657),
            allowed_hosts: local_hosts(),
            cors_origins: local_origins(),
            max_connections: MAX_CONNECTIONS,
            max_concurrent: MAX_CONCURRENT,
            max_request_bytes: MAX_REQUEST_BYTES,
        }
    }
}
