//! The servers of a node, with their settings and flags, and their addresses.

use crate::{Config, Listen};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The addresses of all servers. A server that does not run has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Endpoints {
    /// JSON-RPC over HTTP and WebSocket.
    pub json_rpc: Option<SocketAddr>,
    /// JSON-RPC over WebSocket only.
    pub json_rpc_ws: Option<SocketAddr>,
    /// Cosmos queries over REST.
    pub rest: Option<SocketAddr>,
    /// Cosmos queries over gRPC.
    pub grpc: Option<SocketAddr>,
    /// CometBFT's RPC.
    pub comet: Option<SocketAddr>,
    /// Raw transactions over TCP.
    pub ingest: Option<SocketAddr>,
    /// Metrics, health and status.
    pub metrics: Option<SocketAddr>,
    /// Web pages.
    pub pages: Option<SocketAddr>,
    /// Blocks for replicas.
    pub replication: Option<SocketAddr>,
    /// Other validators.
    pub p2p: Option<SocketAddr>,
}

/// With `server.port-offset`, the port of a server would be higher than 65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "server.port-offset {offset} (--port-offset): {setting} {address} has no port that is {offset} higher, because \
         the highest port is 65535: set a lower offset or a lower port"
)]
pub struct PortTooHigh {
    offset: u16,
    setting: &'static str,
    address: Listen,
}

impl Config {
    /// Returns the addresses of all servers.
    pub const fn endpoints(&self) -> Endpoints {
        Endpoints {
            json_rpc: self.json_rpc.address.address(),
            json_rpc_ws: self.json_rpc.ws_address.address(),
            rest: self.rest.address.address(),
            grpc: self.grpc.address.address(),
            comet: self.comet.address.address(),
            ingest: self.ingest.address.address(),
            metrics: self.metrics.address.address(),
            pages: self.pages.address.address(),
            replication: self.replication.address.address(),
            p2p: self.p2p.address.address(),
        }
    }

    /// Returns the addresses on which servers listen, with the names of their settings.
    pub fn listening(&self) -> Vec<(&'static str, SocketAddr)> {
        let mut config = self.clone();
        let settings = config.address_settings().into_iter();
        settings.filter_map(|(name, listen)| Some((name, listen.address()?))).collect()
    }

    /// Returns the settings of addresses, with their names.
    fn address_settings(&mut self) -> [(&'static str, &mut Listen); 10] {
        [
            ("json-rpc.address", &mut self.json_rpc.address),
            ("json-rpc.ws-address", &mut self.json_rpc.ws_address),
            ("rest.address", &mut self.rest.address),
            ("grpc.address", &mut self.grpc.address),
            ("comet.address", &mut self.comet.address),
            ("ingest.address", &mut self.ingest.address),
            ("metrics.address", &mut self.metrics.address),
            ("pages.address", &mut self.pages.address),
            ("replication.address", &mut self.replication.address),
            ("p2p.address", &mut self.p2p.address),
        ]
    }

    /// Adds `server.port-offset` to all ports except 0.
    ///
    /// # Errors
    /// If a port would be too high.
    pub fn shift_ports(&mut self) -> Result<(), PortTooHigh> {
        let offset = self.server.port_offset;
        for (setting, address) in self.address_settings() {
            let too_high = PortTooHigh { offset, setting, address: *address };
            *address = address.shifted(offset).ok_or(too_high)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_applies_to_every_port() {
        let mut config = Config::default();
        config.server.port_offset = 100;
        config.shift_ports().expect("the default ports are low");
        let shifted = config.endpoints();
        assert_eq!(shifted.json_rpc, Some(SocketAddr::from(([127, 0, 0, 1], 8645))));
        assert_eq!(shifted.metrics, Some(SocketAddr::from(([127, 0, 0, 1], 26760))));
        config.server.port_offset = u16::MAX;
        let error = config.shift_ports().expect_err("too high").to_string();
        assert!(error.contains("json-rpc.address 127.0.0.1:8645 has no port"), "{error}");
    }
}
