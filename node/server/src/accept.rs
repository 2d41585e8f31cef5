//! Accepts connections until the server stops, and then waits until all of them have ended.

use crate::stop::Stopping;
use budget::{Budget, Evictable, Held, Refused, Resource};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, sleep_until},
};

/// The wait after a failed accept, for example because too many files are open.
const ACCEPT_WAIT: Duration = Duration::from_millis(50);

/// The tasks that serve connections. A task returns its connection if another thread should continue to serve it.
pub type Tasks<M> = JoinSet<Option<M>>;

/// Serves the connections that [`accept`] accepts.
pub trait Serve: Send + Sync + 'static {
    /// A connection that moves to another thread; [`std::convert::Infallible`] if connections never move.
    type Moved: Send + 'static;

    /// Starts a task that serves a new connection.
    fn start(self: &Arc<Self>, tasks: &mut Tasks<Self::Moved>, stream: TcpStream, from: SocketAddr);

    /// Starts a task that continues to serve a connection which its previous task returned.
    fn resume(self: &Arc<Self>, tasks: &mut Tasks<Self::Moved>, moved: Self::Moved);
}

/// Acquires a connection permit for the client or trusted proxy at `from`. `connection` can be evicted to release it.
///
/// # Errors
/// See [`Refused`].
pub fn admit(
    budget: &Budget,
    connections: &Arc<Resource>,
    from: IpAddr,
    connection: &Arc<Evictable>,
) -> Result<Held, Refused> {
    connections.acquire_as(from, budget.proxies.contains(from), 1, connection)
}

/// Accepts connections until the shutdown signal. Then waits until the open ones have ended.
pub async fn accept<S: Serve>(listener: TcpListener, service: Arc<S>, mut stopping: Stopping) {
    let mut tasks = Tasks::new();
    let mut not_before = Instant::now();
    loop {
        let accept = async {
            sleep_until(not_before).await;
            listener.accept().await
        };
        let accepted = tokio::select! {
            accepted = accept => accepted,
            Some(ended) = tasks.join_next() => {
                // A panic of the task has already been reported.
                if let Ok(Some(moved)) = ended {
                    service.resume(&mut tasks, moved);
                }
                continue;
            }
            () = stopping.wait() => break,
        };
        match accepted {
            Ok((stream, from)) => {
                // A failure only increases latency.
                let _ = stream.set_nodelay(true);
                service.start(&mut tasks, stream, from);
            }
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                not_before = Instant::now() + ACCEPT_WAIT;
            }
        }
    }
    drop(listener);
    while tasks.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::Stop;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Writes a byte in each of two tasks, and then waits for the end of the input.
    struct TwoTasks;

    impl Serve for TwoTasks {
        type Moved = TcpStream;

        fn start(
            self: &Arc<Self>,
            tasks: &mut Tasks<TcpStream>,
            mut stream: TcpStream,
            _: SocketAddr,
        ) {
            tasks.spawn(async move {
                stream.write_all(b"1").await.unwrap();
                Some(stream)
            });
        }

        fn resume(self: &Arc<Self>, tasks: &mut Tasks<TcpStream>, mut stream: TcpStream) {
            tasks.spawn(async move {
                stream.write_all(b"2").await.unwrap();
                let _ = stream.read(&mut [0]).await;
                None
            });
        }
    }

    #[tokio::test]
    async fn moved_connection_is_resumed_and_accept_waits_for_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopping) = Stop::new();
        let mut accepting = tokio::spawn(accept(listener, Arc::new(TwoTasks), stopping));
        let mut client = TcpStream::connect(address).await.unwrap();
        let mut bytes = [0; 2];
        client.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"12");
        stop.signal();
        // The server has stopped accepting once a connection is refused.
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        tokio::select! {
            biased;
            ended = &mut accepting => panic!("a connection is open: {ended:?}"),
            () = tokio::task::yield_now() => {}
        }
        drop(client);
        accepting.await.unwrap();
    }
}
