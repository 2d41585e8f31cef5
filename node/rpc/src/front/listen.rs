//! The connections of one address: admits each, and gives it to a thread.

use super::{
    Front, Place, Socket,
    connection::Progress,
    threads::{Room, Seat, Threads},
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

/// Serves the connections of an address on the threads of all addresses.
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
        // From now on the runtime of its thread waits for it.
        let stream = match stream.into_std() {
            Ok(stream) => stream,
            Err(error) => return tracing::debug!(%error, %from, "a connection was lost"),
        };
        let (runtime, seat) = self.threads.seat(room(&self.endpoint, &Progress::default()));
        let listening = Arc::clone(self);
        let serving = async move {
            let socket = listening.admit(stream, from, seat).await?;
            Arc::clone(&listening.front).serve(socket, listening.stopping.clone()).await
        };
        tasks.spawn_on(serving, runtime);
    }

    fn resume(self: &Arc<Self>, tasks: &mut Tasks<Socket>, mut socket: Socket) {
        let (runtime, seat) = self.threads.seat(room(&socket.client.endpoint, &socket.progress));
        socket.place.seat = seat;
        let serving = Arc::clone(&self.front).serve(socket, self.stopping.clone());
        tasks.spawn_on(serving, runtime);
    }
}

/// Where a connection is to be served. WebSockets of an address of their own are with the large responses: the
/// events of thousands of subscriptions are sent at once.
pub(super) fn room(endpoint: &Endpoint, progress: &Progress) -> Room {
    if endpoint.http { progress.room() } else { Room::Bulk }
}

impl Listening {
    /// Acquires a place for a new connection, or tells the client that there is none.
    async fn admit(
        &self,
        stream: std::net::TcpStream,
        from: SocketAddr,
        seat: Seat,
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
        let place = Place { seat, _held: held };
        let rate = Arc::new(front.dispatcher.rates.connection());
        let id = front.next_id.fetch_add(1, Relaxed);
        let (endpoint, flow) = (Arc::clone(&self.endpoint), Arc::default());
        let client = Arc::new(Client { id, address, rate, endpoint, flow, account });
        Some(Socket { stream, read: Bytes::new(), client, progress, place })
    }
}

/// Tells a client that there is no place. It may not read that.
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
    // Little enough for the socket's buffer, so this does not wait for the client.
    let _: io::Result<()> = stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await;
    let _ = stream.shutdown().await;
}
