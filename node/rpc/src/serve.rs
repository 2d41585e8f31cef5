//! Starts and stops the servers of JSON-RPC.

use crate::{
    client::Endpoint,
    dispatch::Dispatcher,
    front::{ConnectionsPerThread, Front, Listening, Threads},
    local_calls::LocalCalls,
    meter::CallMeter,
};
use config::JsonRpc;
use pipeline::Fault;
use rpc_eth::Context;
use server::{accept::accept, listener::Listener, stop::Stop};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinHandle;

/// Maximum wait for calls in flight on shutdown.
const STOP_WAIT: Duration = Duration::from_secs(3);

/// Interval at which expired filters and pending blocks are dropped.
const SWEEP_PERIOD: Duration = Duration::from_secs(1);

/// The running servers.
#[derive(Debug)]
pub struct Servers {
    listening: Vec<JoinHandle<()>>,
    stop: Stop,
    calls: Arc<CallMeter>,
    local: LocalCalls,
    /// The threads that serve the connections.
    threads: Arc<Threads>,
    /// The tasks that drop expired filters and, on a development chain, wake calls that wait for a block.
    tasks: Vec<JoinHandle<()>>,
}

/// Serves JSON-RPC until [`Servers::stop`]: at `http` over HTTP and WebSocket, at `web_socket` over WebSocket only. A
/// server that is disabled has no listener.
///
/// # Errors
/// Returns an error if a thread cannot be started.
///
/// # Panics
/// Panics outside a Tokio runtime.
pub fn serve(
    config: &JsonRpc,
    http: Option<Listener>,
    web_socket: Option<Listener>,
    context: Context,
) -> Result<Servers, Fault> {
    let following = context.development.is_some().then(|| {
        let inclusions = Arc::clone(&context.inclusions);
        tokio::spawn(inclusions.follow(context.published.clone()))
    });
    let dispatcher = Arc::new(Dispatcher::new(context, config));
    let calls = dispatcher.meter();
    let local = LocalCalls::new(Arc::clone(&dispatcher));
    let (stop, stopping) = Stop::new();
    let threads = Threads::start(config.threads());
    let what = || "the threads of JSON-RPC".to_owned();
    let threads = threads.map_err(|source| Fault::Socket { what: what(), source })?;
    let threads = Arc::new(threads);
    let sweeping = tokio::spawn(sweep(Arc::clone(&dispatcher)));
    let tasks = following.into_iter().chain([sweeping]).collect();
    let front = Arc::new(Front::new(dispatcher, &threads, config));
    let listen = |listener: Listener, api, http| {
        let endpoint = Endpoint::new(api, http);
        let listening = Listening::new(&front, endpoint, &threads, stopping.clone());
        tokio::spawn(accept(listener.socket, Arc::new(listening), stopping.clone()))
    };
    let http = http.map(|listener| listen(listener, &config.api, true));
    let web_socket = web_socket.map(|listener| listen(listener, &config.ws_api, false));
    let listening = http.into_iter().chain(web_socket).collect();
    Ok(Servers { listening, stop, calls, local, threads, tasks })
}

async fn sweep(dispatcher: Arc<Dispatcher>) {
    let mut ticks = tokio::time::interval(SWEEP_PERIOD);
    loop {
        ticks.tick().await;
        dispatcher.sweep();
    }
}

impl Servers {
    /// Returns the counters of calls.
    pub fn calls(&self) -> Arc<CallMeter> {
        Arc::clone(&self.calls)
    }

    /// Returns the handle that answers calls that do not come over JSON-RPC.
    pub fn local_calls(&self) -> LocalCalls {
        self.local.clone()
    }

    /// Returns the number of connections on each thread.
    pub fn connections_per_thread(&self) -> ConnectionsPerThread {
        self.threads.connections_per_thread()
    }

    /// Refuses new calls, waits up to 3 seconds for those in flight, and closes the connections.
    pub async fn stop(self) {
        let Self { mut listening, stop, threads, tasks, .. } = self;
        tasks.iter().for_each(JoinHandle::abort);
        stop.signal();
        let ended = async {
            for listening in &mut listening {
                // A panic there has been reported.
                let _ = listening.await;
            }
        };
        if tokio::time::timeout(STOP_WAIT, ended).await.is_err() {
            tracing::warn!("JSON-RPC calls were still running and are cancelled");
        }
        for listening in listening {
            // This also closes its connections.
            listening.abort();
        }
        drop(threads);
    }
}
