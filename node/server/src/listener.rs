//! Opens listening sockets. This happens before the servers start, so that their addresses are known to all servers.

use pipeline::ListenError;
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// A socket that listens for connections.
#[derive(Debug)]
pub struct Listener {
    /// The socket. It belongs to the runtime in which it was opened.
    pub socket: TcpListener,
    /// The address of the socket. If port 0 was requested, this is the port that the kernel chose.
    pub address: SocketAddr,
}

impl Listener {
    /// Listens on an address.
    ///
    /// # Errors
    /// If this is not possible. The error names the server and the flag of its address.
    pub async fn bind(
        server: &'static str,
        flag: &'static str,
        address: SocketAddr,
    ) -> Result<Self, ListenError> {
        let error = |source| ListenError { server, address, flag, source };
        let socket = TcpListener::bind(address).await.map_err(error)?;
        let address = socket.local_addr().map_err(error)?;
        Ok(Self { socket, address })
    }
}
