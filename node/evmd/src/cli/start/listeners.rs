//! The listening sockets of all servers. They are opened before anything else starts: one error names all addresses
//! that cannot be used, and every server knows the addresses of the others, also those with a port that the kernel
//! chose.

use config::{Comet, Config, Pages};
use pipeline::{Fault, INGEST_FLAG, INGEST_NAME, ListenError};
use server::listener::Listener;
use std::{
    io::{Error, ErrorKind},
    net::SocketAddr,
};
use tokio::runtime::Handle;

const COMET_NAME: &str = "CometBFT RPC";
const METRICS_NAME: &str = "metrics";
const PAGES_NAME: &str = "web pages";

/// The sockets of the servers, except for that of ingest, which the pipeline opens.
pub(super) struct Listeners {
    pub(super) json_rpc: Listener,
    pub(super) web_socket: Listener,
    pub(super) rest: Listener,
    pub(super) grpc: Listener,
    /// `None` if its default address is in use.
    pub(super) comet: Option<Listener>,
    /// Belongs to the runtime of this server.
    pub(super) metrics: Listener,
    /// Belongs to the runtime of this server. `None` if its default address is in use.
    pub(super) pages: Option<Listener>,
}

impl Listeners {
    /// Opens the sockets, those of metrics and pages in their own runtimes, and stores their addresses in the settings.
    ///
    /// # Errors
    /// [`Fault::Listen`] with all addresses that cannot be listened on.
    pub(super) async fn open(
        config: &mut Config,
        observing: &Handle,
        reading: &Handle,
    ) -> Result<Self, Fault> {
        let mut sockets = Sockets { observing, reading, open: Vec::new(), failed: Vec::new() };
        let web_socket = ("WebSocket", "--json-rpc.ws-address");
        let json_rpc =
            sockets.open(("JSON-RPC", "--json-rpc.address"), &mut config.json_rpc.address).await;
        let web_socket = sockets.open(web_socket, &mut config.json_rpc.ws_address).await;
        let rest = sockets.open(("REST", "--rest.address"), &mut config.rest.address).await;
        let grpc = sockets.open(("gRPC", "--grpc.address"), &mut config.grpc.address).await;
        let metrics = (METRICS_NAME, "--metrics.address");
        let metrics = sockets.open(metrics, &mut config.metrics.address).await;
        // The pipeline opens this socket again. Here it is only tried, so that the error names all addresses.
        let mut ingest_address = config.ingest.address;
        let ingest = sockets.open((INGEST_NAME, INGEST_FLAG), &mut ingest_address).await;
        let comet = sockets.open((COMET_NAME, "--comet.address"), &mut config.comet.address).await;
        let pages = sockets.open((PAGES_NAME, "--pages.address"), &mut config.pages.address).await;
        drop(ingest);
        let failed = sockets.failed;
        match (json_rpc, web_socket, rest, grpc, metrics) {
            (Some(json_rpc), Some(web_socket), Some(rest), Some(grpc), Some(metrics))
                if failed.is_empty() =>
            {
                Ok(Self { json_rpc, web_socket, rest, grpc, comet, metrics, pages })
            }
            _ => Err(Fault::Listen(failed)),
        }
    }
}

/// The sockets that are open so far.
struct Sockets<'a> {
    observing: &'a Handle,
    reading: &'a Handle,
    /// The name, the flag and the address of each.
    open: Vec<(&'static str, &'static str, SocketAddr)>,
    failed: Vec<ListenError>,
}

impl Sockets<'_> {
    /// Opens a socket and sets `address` to its address. If it cannot be opened, the error is stored.
    async fn open(
        &mut self,
        (name, flag): (&'static str, &'static str),
        address: &mut SocketAddr,
    ) -> Option<Listener> {
        let bind = Listener::bind(name, flag, *address);
        let bound = match name {
            METRICS_NAME => self.observing.spawn(bind).await.expect("bind does not panic"),
            PAGES_NAME => self.reading.spawn(bind).await.expect("bind does not panic"),
            _ => bind.await,
        };
        match bound {
            Ok(listener) => {
                *address = listener.address;
                self.open.push((name, flag, *address));
                Some(listener)
            }
            Err(error) => {
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
        // Other processes, such as a chain of CometBFT or a web server, often have the default addresses of these servers.
        // The node runs without them.
        let defaults =
            [(COMET_NAME, Comet::default().address), (PAGES_NAME, Pages::default().address)];
        if defaults.contains(&(error.server, error.address)) {
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

/// The name of a server with its verb.
fn is_or_are(server: &str) -> String {
    let verb = if server.ends_with('s') { "are" } else { "is" };
    format!("{server} {verb}")
}

/// Whether sockets cannot listen on both addresses.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port()
        && (one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified())
}
