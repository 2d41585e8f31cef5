//! Starts and stops the servers of JSON-RPC.

use crate::{
    client::Endpoint,
    dispatch::Dispatcher,
    front::{Front, Listening, Seats, Threads},
    meter::CallMeter,
};
use config::JsonRpc;
use pipeline::Fault;
use rpc_eth::Context;
use server::{accept::accept, stop::Stop};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, task::JoinHandle};

/// Maximum wait for calls in flight when the servers stop.
const STOP_WAIT: Duration = Duration::from_secs(3);

/// Period in which expired filters are removed and their memory is released.
const SWEEP_PERIOD: Duration = Duration::from_secs(1);

/// The running servers.
#[derive(Debug)]
pub struct Servers {
    listening: [JoinHandle<()>; 2],
    stop: Stop,
    /// The address of HTTP and WebSocket.
    pub address: SocketAddr,
    /// The address of WebSocket only.
    pub ws_address: SocketAddr,
    calls: Arc<CallMeter>,
    /// The threads that serve the connections.
    threads: Arc<Threads>,
    sweeping: JoinHandle<()>,
}

/// Serves JSON-RPC on the configured addresses until [`Servers::stop`].
///
/// # Errors
/// Returns an error if an address cannot be bound.
pub async fn serve(config: &JsonRpc, context: Context) -> Result<Servers, Fault> {
    let dispatcher = Arc::new(Dispatcher::new(context, config));
    let calls = dispatcher.meter();
    let (stop, stopping) = Stop::new();
    let (http, address) = bind(config.address).await?;
    let (ws, ws_address) = bind(config.ws_address).await?;
    let threads = Threads::start(config.threads());
    let threads =
        threads.map_err(|source| Fault::Socket { what: "JSON-RPC".to_owned(), source })?;
    let threads = Arc::new(threads);
    let sweeping = tokio::spawn(sweep(Arc::clone(&dispatcher)));
    let front = Arc::new(Front::new(dispatcher, &threads, config));
    let listen = |listener, api, http| {
        let endpoint = Endpoint::new(api, http);
        let listening = Listening::new(&front, endpoint, &threads, stopping.clone());
        tokio::spawn(accept(listener, Arc::new(listening), stopping.clone()))
    };
    let listening = [listen(http, &config.api, true), listen(ws, &config.ws_api, false)];
    Ok(Servers { listening, stop, address, ws_address, calls, threads, sweeping })
}

async fn sweep(dispatcher: Arc<Dispatcher>) {
    let mut ticks = tokio::time::interval(SWEEP_PERIOD);
    loop {
        ticks.tick().await;
        dispatcher.sweep();
    }
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Fault> {
    let fault = |source| Fault::Socket { what: format!("JSON-RPC on {address}"), source };
    let listener = TcpListener::bind(address).await.map_err(fault)?;
    let bound = listener.local_addr().map_err(fault)?;
    Ok((listener, bound))
}

impl Servers {
    /// Returns the counters of calls.
    pub fn calls(&self) -> Arc<CallMeter> {
        Arc::clone(&self.calls)
    }

    /// Returns the number of connections on each thread.
    pub fn seats(&self) -> Seats {
        self.threads.seats()
    }

    /// Refuses new calls, waits for those in flight, and closes the connections.
    pub async fn stop(self) {
        let Self { mut listening, stop, threads, sweeping, .. } = self;
        sweeping.abort();
        stop.signal();
        let ended = async {
            for listening in &mut listening {
                // A panic there has been reported.
                let _ = listening.await;
            }
        };
        if tokio::time::timeout(STOP_WAIT, ended).await.is_err() {
            tracing::warn!("JSON-RPC calls were still running and are abandoned");
        }
        for listening in listening {
            // This also closes its connections.
            listening.abort();
        }
        drop(threads);
    }
}
