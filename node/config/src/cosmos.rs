//! Settings of the Cosmos interfaces: their addresses and limits.

use super::{Listen, bounds, local, local_hosts, local_origins};
use serde::{Deserialize, Serialize};

/// Default of `max-connections` for REST, gRPC and the CometBFT RPC. Browsers and tools keep several open.
const MAX_CONNECTIONS: u32 = 1000;
/// Default of `max-concurrent` for Cosmos queries. They are short, and share the cores with the pipeline.
const MAX_CONCURRENT: u32 = 64;
/// Default of `max-request-bytes` for Cosmos requests: the largest transaction in base64, with a margin.
const MAX_REQUEST_BYTES: u32 = 1024 * 1024;

/// `[rest]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rest {
    /// The address to listen on.
    pub address: Listen,
    /// Host names that requests may use, as in `json-rpc.allowed-hosts`.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may read responses and submit transactions, as in `json-rpc.cors-origins`.
    pub cors_origins: Vec<String>,
    /// Maximum number of connections.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_connections: u32,
    /// Maximum number of concurrent requests; further requests wait.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_concurrent: u32,
    /// Maximum size of a request in bytes.
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
    /// The address to listen on.
    pub address: Listen,
    /// Maximum number of connections.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_connections: u32,
    /// Maximum number of concurrent requests; further requests wait.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_concurrent: u32,
    /// Maximum size of a request in bytes.
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
    /// The address to listen on.
    pub address: Listen,
    /// Host names that requests may use, as in `json-rpc.allowed-hosts`.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may read responses and submit transactions, as in `json-rpc.cors-origins`.
    pub cors_origins: Vec<String>,
    /// Maximum number of connections.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_connections: u32,
    /// Maximum number of concurrent requests; further requests wait.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_concurrent: u32,
    /// Maximum size of a request in bytes.
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
