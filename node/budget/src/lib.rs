//! Limits that the clients of all servers share: memory, connections and filters.
//!
//! A [`Resource`] has one limit for all clients together, and tracks the use of each client address. One
//! address may use all of it as long as no other address needs any. When more than half is used, the address
//! that uses the most is refused. If a request of another address does not fit, the largest user loses its connection
//! that has been idle for the longest time (`docs/adr/0024`). For IPv6, networks of several sizes are compared.
//!
//! A [`Budget`] is created once, when the pipeline starts, and all servers share it.

mod evictable;
mod networks;
mod proxies;
mod resource;
mod usage;

pub use evictable::Evictable;
pub use networks::{Networks, client_key};
pub use proxies::TrustedProxies;
pub use resource::{Held, Refused, Resource, ResourceReading};
pub use usage::{Account, Usage, accounted};

use config::Config;
use std::{net::IpAddr, sync::Arc, time::Duration};

/// When all ingest connections are in use, one that has been idle for longer is closed for a new one of any client.
const MAX_INGEST_IDLE: Duration = Duration::from_secs(60);

/// Maximum number of connections of the metrics server, for a few scrapers, load balancers and people.
pub const MAX_METRICS_CONNECTIONS: u32 = 32;

/// The resources that clients share.
#[derive(Debug)]
pub struct Budget {
    /// Bytes received but not answered yet, and bytes of responses that clients have not read.
    pub memory: Arc<Resource>,
    /// JSON-RPC connections, including WebSockets.
    pub json_rpc: Arc<Resource>,
    /// REST connections.
    pub rest: Arc<Resource>,
    /// gRPC connections.
    pub grpc: Arc<Resource>,
    /// Connections of the CometBFT RPC.
    pub comet: Arc<Resource>,
    /// Connections of the metrics server.
    pub metrics: Arc<Resource>,
    /// Connections of the web pages.
    pub pages: Arc<Resource>,
    /// Connections of followers.
    pub replication: Arc<Resource>,
    /// Ingest connections.
    pub ingest: Arc<Resource>,
    /// JSON-RPC filters.
    pub filters: Arc<Resource>,
    /// Proxies whose forwarding headers are trusted.
    pub proxies: TrustedProxies,
}

impl Budget {
    /// Creates the resources with the limits in these settings.
    pub fn new(config: &Config) -> Arc<Self> {
        let connections = |name, limit: u32| Resource::new(name, limit.into());
        let per_ip = match config.json_rpc.max_connections_per_ip {
            0 => u64::MAX,
            set => set.into(),
        };
        let json_rpc = connections("json_rpc_connections", config.json_rpc.max_connections);
        let ingest = connections("ingest_connections", config.ingest.max_connections);
        Arc::new(Self {
            memory: Resource::new("memory_bytes", config.server.max_client_bytes()).into(),
            json_rpc: json_rpc.with_limit_per_client(per_ip).into(),
            rest: connections("rest_connections", config.rest.max_connections).into(),
            grpc: connections("grpc_connections", config.grpc.max_connections).into(),
            comet: connections("comet_connections", config.comet.max_connections).into(),
            metrics: connections("metrics_connections", MAX_METRICS_CONNECTIONS).into(),
            pages: connections("pages_connections", config.pages.max_connections).into(),
            replication: connections("replication_connections", config.replication.max_followers)
                .into(),
            ingest: ingest.with_max_idle(MAX_INGEST_IDLE).into(),
            filters: Resource::new("filters", config.json_rpc.filter_cap as u64).into(),
            proxies: TrustedProxies::new(&config.server.trusted_proxies),
        })
    }

    /// Returns the memory account of a client's connection.
    pub fn account(&self, client: IpAddr, owner: &Arc<Evictable>) -> Arc<Account> {
        let (memory, owner) = (Arc::clone(&self.memory), Arc::clone(owner));
        Arc::new(Account { memory, client, owner })
    }

    /// Returns the use of each resource.
    pub fn readings(&self) -> impl Iterator<Item = ResourceReading> {
        let connections = [
            &self.json_rpc,
            &self.rest,
            &self.grpc,
            &self.comet,
            &self.metrics,
            &self.pages,
            &self.replication,
            &self.ingest,
        ];
        [&self.memory, &self.filters]
            .into_iter()
            .chain(connections)
            .map(|resource| resource.reading())
    }
}
