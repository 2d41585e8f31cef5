//! Opens the listening sockets of all servers before the pipeline and the servers start. This way, one error names all
//! addresses that cannot be used, and every server knows the addresses of the others, including ports that the kernel
//! chose.

use config::{Comet, Config, Listen, Pages};
use pipeline::{Fault, INGEST_FLAG, INGEST_NAME, ListenError};
use server::listener::Listener;
use std::{
    io::{Error, ErrorKind},
    net::SocketAddr,
};
use tokio::runtime::Handle;

pub(super) const COMET_NAME: &str = "CometBFT RPC";
const METRICS_NAME: &str = "metrics";
const P2P_NAME: &str = "p2p";
pub(super) const REPLICATION_NAME: &str = "replication";
pub(super) const PAGES_NAME: &str = "web pages";

/// The sockets of the servers, except those of ingest and p2p, which the pipeline and the consensus engine open.
#[derive(Default)]
pub(super) struct Listeners {
    pub(super) json_rpc: Option<Listener>,
    pub(super) web_socket: Option<Listener>,
    pub(super) rest: Option<Listener>,
    pub(super) grpc: Option<Listener>,
    pub(super) comet: Option<Listener>,
    pub(super) replication: Option<Listener>,
    /// Registered in the runtime of this server.
    pub(super) metrics: Option<Listener>,
    /// Registered in the runtime of this server.
    pub(super) pages: Option<Listener>,
    /// The servers that do not run because their default address is in use.
    pub(super) in_use: Vec<InUse>,
}

/// A server that does not run because another process uses its default address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InUse {
    server: &'static str,
    flag: &'static str,
    address: SocketAddr,
}

/// Returns why the server with this name does not run: its address is in use, or it is off.
pub(super) fn reason_not_served(in_use: &[InUse], server: &str) -> String {
    match in_use.iter().find(|in_use| in_use.server == server) {
        Some(InUse { flag, address, .. }) => format!("not served: {address} is in use ({flag})"),
        None => Listen::Off.to_string(),
    }
}

impl Listeners {
    /// Opens the sockets, those of metrics and pages in their own runtimes, and stores their addresses in the settings.
    /// Sets the address of a server that does not run to `off`.
    ///
    /// # Errors
    /// [`Fault::Listen`] with all addresses on which the node cannot listen.
    pub(super) async fn open(
        config: &mut Config,
        metrics_runtime: &Handle,
        page_runtime: &Handle,
    ) -> Result<Self, Fault> {
        let optional = optional(config);
        let (open, failed, in_use) = (Vec::new(), Vec::new(), Vec::new());
        let mut sockets = Sockets { metrics_runtime, page_runtime, optional, open, failed, in_use };
        let json_rpc = ("JSON-RPC", "--json-rpc.address");
        let web_socket = ("WebSocket", "--json-rpc.ws-address");
        let metrics = (METRICS_NAME, "--metrics.address");
        let mut opened = Self {
            json_rpc: sockets.open(json_rpc, &mut config.json_rpc.address).await,
            web_socket: sockets.open(web_socket, &mut config.json_rpc.ws_address).await,
            rest: sockets.open(("REST", "--rest.address"), &mut config.rest.address).await,
            grpc: sockets.open(("gRPC", "--grpc.address"), &mut config.grpc.address).await,
            metrics: sockets.open(metrics, &mut config.metrics.address).await,
            ..Self::default()
        };
        // The pipeline opens this socket again. It is opened here only so that the error names all addresses.
        let mut ingest_address = config.ingest.address;
        let ingest = sockets.open((INGEST_NAME, INGEST_FLAG), &mut ingest_address).await;
        let comet = (COMET_NAME, "--comet.address");
        opened.comet = sockets.open(comet, &mut config.comet.address).await;
        let pages = (PAGES_NAME, "--pages.address");
        opened.pages = sockets.open(pages, &mut config.pages.address).await;
        let replication = (REPLICATION_NAME, "--replication.address");
        opened.replication = sockets.open(replication, &mut config.replication.address).await;
        // Likewise, the consensus engine opens this socket again, and it is opened here only for the error.
        let p2p = sockets.open((P2P_NAME, "--p2p.address"), &mut config.p2p.address).await;
        drop((ingest, p2p));
        opened.in_use = sockets.in_use;
        if sockets.failed.is_empty() { Ok(opened) } else { Err(Fault::Listen(sockets.failed)) }
    }
}

/// Returns the default addresses of the servers that the node can run without. Other processes, such as a CometBFT node
/// or a web server, often use these addresses.
fn optional(config: &Config) -> [(&'static str, Option<Listen>); 2] {
    let shifted = |default: Listen| default.shifted(config.server.port_offset);
    [
        (COMET_NAME, shifted(Comet::default().address)),
        (PAGES_NAME, shifted(Pages::default().address)),
    ]
}

/// Opens sockets one by one, and collects the failures.
struct Sockets<'a> {
    metrics_runtime: &'a Handle,
    page_runtime: &'a Handle,
    /// See [`optional`].
    optional: [(&'static str, Option<Listen>); 2],
    /// The name, the flag and the address of each open socket.
    open: Vec<(&'static str, &'static str, SocketAddr)>,
    failed: Vec<ListenError>,
    in_use: Vec<InUse>,
}

impl Sockets<'_> {
    /// Opens a socket, unless the server is off, and sets `listen` to its address. If it cannot be opened, stores the
    /// error and sets `listen` to `off`.
    async fn open(
        &mut self,
        (name, flag): (&'static str, &'static str),
        listen: &mut Listen,
    ) -> Option<Listener> {
        let bind = Listener::bind(name, flag, listen.address()?);
        let bound = match name {
            METRICS_NAME => self.metrics_runtime.spawn(bind).await.expect("bind does not panic"),
            PAGES_NAME => self.page_runtime.spawn(bind).await.expect("bind does not panic"),
            _ => bind.await,
        };
        match bound {
            Ok(listener) => {
                *listen = Listen::At(listener.address);
                self.open.push((name, flag, listener.address));
                Some(listener)
            }
            Err(error) => {
                *listen = Listen::Off;
                self.fail(error);
                None
            }
        }
    }

    fn fail(&mut self, mut error: ListenError) {
        if error.source.kind() != ErrorKind::AddrInUse {
            self.failed.push(error);
            return;
        }
        let own = self.open.iter().find(|(_, _, open)| overlap(*open, error.address));
        if let Some((name, flag, _)) = own {
            let reason = format!("{name} of this node has the same address ({flag})");
            error.source = Error::new(ErrorKind::AddrInUse, reason);
        }
        let (server, flag, address) = (error.server, error.flag, error.address);
        if self.optional.contains(&(server, Some(Listen::At(address)))) {
            self.in_use.push(InUse { server, flag, address });
            tracing::warn!(
                "{} not served on {}: {}; set another address with {}",
                is_or_are(error.server),
                error.address,
                error.source,
                error.flag
            );
            return;
        }
        self.failed.push(error);
    }
}

/// Returns the name of a server, followed by "is" or "are".
fn is_or_are(server: &str) -> String {
    let verb = if server.ends_with('s') { "are" } else { "is" };
    format!("{server} {verb}")
}

/// Returns whether these addresses conflict, so that two sockets cannot listen on them at the same time.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() == b.port() && (a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified())
}
