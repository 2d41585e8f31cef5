//! Settings of the web pages: their address and limits.

use super::{Listen, bounds, local, local_hosts};
use serde::{Deserialize, Serialize};

/// Default of `max-connections`. A browser keeps up to six open.
const MAX_CONNECTIONS: u32 = 500;
/// Default of `max-concurrent`. A page takes about a millisecond of a core, which the pipeline needs too.
const MAX_CONCURRENT: u32 = 2;

/// `[pages]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pages {
    /// The address to listen on.
    pub address: Listen,
    /// Host names that requests may use, as in `json-rpc.allowed-hosts`.
    pub allowed_hosts: Vec<String>,
    /// Maximum number of connections.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_connections: u32,
    /// Maximum number of concurrent requests; further requests wait.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_concurrent: u32,
}

impl Default for Pages {
    fn default() -> Self {
        Self {
            address: local(8080),
            allowed_hosts: local_hosts(),
            max_connections: MAX_CONNECTIONS,
            max_concurrent: MAX_CONCURRENT,
        }
    }
}
