//! What all servers share.

use super::memory::derived;
use crate::Network;
use serde::{Deserialize, Serialize};

/// Bytes that clients may use on a machine with enough memory: 32 responses of the default maximum size. Two
/// cores write hundreds of them within the time that a slow client has.
pub(super) const FULL_CLIENT_BYTES: u64 = 2 << 30;
/// Its minimum: one response of the default maximum size, and request bodies.
pub(super) const MIN_CLIENT_BYTES: u64 = 128 << 20;

/// `[server]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Server {
    /// Bytes that the clients of all servers may use together: received and not answered yet, or of responses
    /// that they have not read. 0 derives it from the memory.
    pub max_client_bytes: u64,
    /// Addresses, or networks, of reverse proxies. The client of a request that one of them passes on is the
    /// address in `Forwarded` or `X-Forwarded-For`.
    pub trusted_proxies: Vec<Network>,
}

impl Server {
    /// The limit in force.
    pub fn max_client_bytes(&self) -> u64 {
        match self.max_client_bytes {
            0 => derived(FULL_CLIENT_BYTES, MIN_CLIENT_BYTES),
            set => set,
        }
    }
}
