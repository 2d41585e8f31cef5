//! Settings of all servers.

use super::memory::derived;
use crate::Network;
use serde::{Deserialize, Serialize};

/// Bytes that clients may use on a machine with enough memory: 32 responses of the default maximum size. Two
/// cores write hundreds of such responses within the timeout of a slow client.
pub(super) const FULL_CLIENT_BYTES: u64 = 2 << 30;
/// Minimum for the number derived from the memory: one response of the default maximum size, and request bodies.
pub(super) const MIN_CLIENT_BYTES: u64 = 128 << 20;

/// `[server]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Server {
    /// Maximum number of bytes that the clients of all servers use together: bytes received but not answered,
    /// and bytes of responses that they have not read. 0 derives it from the memory of the machine.
    pub max_client_bytes: u64,
    /// A number that is added to the port of every server, so that several nodes can run on one machine.
    pub port_offset: u16,
    /// Addresses or networks of reverse proxies. If one of them forwards a request, the client is the address
    /// in `Forwarded` or `X-Forwarded-For`.
    pub trusted_proxies: Vec<Network>,
}

impl Server {
    /// Returns the effective limit in bytes.
    pub fn max_client_bytes(&self) -> u64 {
        match self.max_client_bytes {
            0 => derived(FULL_CLIENT_BYTES, MIN_CLIENT_BYTES),
            set => set,
        }
    }
}
