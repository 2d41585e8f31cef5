//! Admits the connections of one listening address and assigns each to a thread.

use super::{
    ConnectionPermit, Front, Socket,
    connection::Progress,
    threads::{ThreadConnection, ThreadGroup, Threads},
};
use crate::client::{Client, Endpoint};
use hyper::body::Bytes;
use server::{
    accept::{Serve, Tasks, admit},
    stop::Stopping,
};
use std::{
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
};
use tokio::{io::AsyncWriteExt, net::TcpStream};

/// Serves the connections of one listening address on the threads that all addresses share.
#[derive(Debug)]
pub(crate) struct Listening {
    front: Arc<Front>,
    endpoint: Arc<Endpoint>,
    threads: Arc<Threads>,
    stopping: Stopping,
}

impl Listening {
    pub(crate) fn new(
        front: &Arc<Front>,
        endpoint: Endpoint,
        threads: &Arc<Threads>,
        stopping: Stopping,
    ) -> Self {
        let (front, threads) = (Arc::clone(front), Arc::clone(threads));
        Self { front, endpoint: Arc::new(endpoint), threads, stopping }
    }
}

impl Serve for Listening {
    type Moved = Socket;

    fn start(self: &Arc<Self>, tasks: &mut Tasks<Socket>, stream: TcpStream, from: SocketAddr) {
        // The runtime of the serving thread registers the socket again.
        let stream = match stream.into_std() {
            Ok(stream) => stream,
            Err(error) => return tracing::debug!(%error, %from, "a connection was lost"),
        };
        let (runtime, thread) = self.threads.assign(group_of(&self.endpoint, &Progress::default()));
        let listening = Arc::clone(self);
        let serving = async move {
            let socket = listening.admit(stream, from, thread).await?;
            Arc::clone(&listening.front).serve(socket, listening.stopping.clone()).await
        };
        tasks.spawn_on(serving, runtime);
    }

    fn resume(self: &Arc<Self>, tasks: &mut Tasks<Socket>, mut socket: Socket) {
        let (runtime, thread) =
            self.threads.assign(group_of(&socket.client.endpoint, &socket.progress));
        socket.permit.thread = thread;
        let serving = Arc::clone(&self.front).serve(socket, self.stopping.clone());
        tasks.spawn_on(serving, runtime);
    }
}

/// Returns the threads that serve a connection. If the address is for WebSockets only, its connections are on the
/// threads for large responses, because the notifications of thousands of subscriptions are sent at once.
pub(super) fn group_of(endpoint: &Endpoint, progress: &Progress) -> ThreadGroup {
    if endpoint.http { progress.group() } else { ThreadGroup::Bulk }
}

impl Listening {
    /// Acquires a permit for a new connection, or sends the client an error.
    async fn admit(
        &self,
        stream: std::net::TcpStream,
        from: SocketAddr,
        thread: ThreadConnection,
    ) -> Option<Socket> {
        let front = &self.front;
        let address = from.ip().to_canonical();
        let progress = Arc::<Progress>::default();
        let (budget, owner) = (front.budget(), &progress.evictable);
        let held = match admit(budget, &budget.json_rpc, address, owner) {
            Ok(held) => held,
            Err(refused) => {
                match TcpStream::from_std(stream) {
                    Ok(stream) => refuse(stream, refused.limit()).await,
                    Err(error) => tracing::debug!(%error, %from, "a connection was not refused"),
                }
                return None;
            }
        };
        let account = budget.account(address, owner);
        let permit = ConnectionPermit { thread, _held: held };
        let rate = Arc::new(front.dispatcher.rates.connection());
        let id = front.next_id.fetch_add(1, Relaxed);
        let (endpoint, flow) = (Arc::clone(&self.endpoint), Arc::default());
        let client = Arc::new(Client { id, address, rate, endpoint, flow, account });
        Some(Socket { stream, read: Bytes::new(), client, progress, permit })
    }
}

/// Refuses a connection with an HTTP error, which the client may never read.
async fn refuse(mut stream: TcpStream, limit: u64) {
    let body = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{{\"code\":-32005,\"message\":\"too many \
         connections: at most {limit}\",\"data\":{{\"limit\":{limit}}}}}}}"
    );
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\
         \r\nconnection: close\r\nretry-after: 1\r\n\r\n",
        body.len()
    );
    // The response fits into the socket's buffer, so this does not wait for the client.
    let _: io::Result<()> = stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await;
    let _ = stream.shutdown().await;
}
