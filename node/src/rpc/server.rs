//! Opens the sockets of JSON-RPC and closes them again.

use super::{
    Context,
    dispatch::{Dispatcher, Service},
    meter::CallMeter,
};
use crate::{config::JsonRpc, pipeline::Fault};
use jsonrpsee::{
    RpcModule,
    server::{
        BatchRequestConfig, PingConfig, Server, ServerConfig, ServerHandle,
        middleware::rpc::RpcServiceBuilder,
    },
};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tower_http::cors::CorsLayer;

/// Longest wait at the end for calls in flight.
const STOP_WAIT: Duration = Duration::from_secs(3);
/// Messages that may wait for a slow WebSocket client before its calls are no longer read.
const WS_BUFFER_MESSAGES: u32 = 256;
/// A WebSocket that answers no ping for this long is closed.
const WS_SILENCE: Duration = Duration::from_secs(60);

/// The running servers.
#[derive(Debug)]
pub struct Servers {
    http: ServerHandle,
    ws: ServerHandle,
    /// Where HTTP (and WebSocket) is served.
    pub address: SocketAddr,
    /// Where WebSocket alone is served.
    pub ws_address: SocketAddr,
    calls: Arc<CallMeter>,
}

/// Serves JSON-RPC on the configured addresses until [`Servers::stop`].
///
/// # Errors
/// When an address cannot be listened on.
pub async fn serve(config: &JsonRpc, context: Context) -> Result<Servers, Fault> {
    let dispatcher = Arc::new(Dispatcher::new(context, config));
    let calls = dispatcher.meter();
    let limits = ServerConfig::builder()
        .max_connections(config.max_connections)
        .max_request_body_size(config.max_request_bytes)
        .max_response_body_size(config.max_response_bytes)
        .set_batch_request_config(BatchRequestConfig::Limit(config.max_batch))
        .set_message_buffer_capacity(WS_BUFFER_MESSAGES)
        .enable_ws_ping(PingConfig::new().inactive_limit(WS_SILENCE))
        .set_tcp_no_delay(true);
    let (http, address) =
        start(limits.clone().build(), config.address, Arc::clone(&dispatcher)).await?;
    let (ws, ws_address) = start(limits.ws_only().build(), config.ws_address, dispatcher).await?;
    Ok(Servers { http, ws, address, ws_address, calls })
}

async fn start(
    config: ServerConfig,
    address: SocketAddr,
    dispatcher: Arc<Dispatcher>,
) -> Result<(ServerHandle, SocketAddr), Fault> {
    let fault = |source| Fault::Socket { what: format!("JSON-RPC on {address}"), source };
    let layer = RpcServiceBuilder::new()
        .layer_fn(move |below| Service::new(Arc::clone(&dispatcher), below));
    let server = Server::builder()
        .set_config(config)
        // Development pages are served from other ports; nothing here answers to cookies.
        .set_http_middleware(tower::ServiceBuilder::new().layer(CorsLayer::permissive()))
        .set_rpc_middleware(layer)
        .build(address)
        .await
        .map_err(fault)?;
    let bound = server.local_addr().map_err(fault)?;
    // Calls are answered by the dispatcher; the module is for subscriptions, of which there are
    // none yet.
    Ok((server.start(RpcModule::new(())), bound))
}

impl Servers {
    /// The counters of calls.
    pub fn calls(&self) -> Arc<CallMeter> {
        Arc::clone(&self.calls)
    }

    /// Takes no more calls, finishes those in flight for a while, and closes the connections.
    pub async fn stop(self) {
        let Self { http, ws, .. } = self;
        // An error says that the server has ended already.
        let _ = (http.stop(), ws.stop());
        let ended = async { tokio::join!(http.stopped(), ws.stopped()) };
        if tokio::time::timeout(STOP_WAIT, ended).await.is_err() {
            tracing::warn!("JSON-RPC calls were still running and are abandoned");
        }
    }
}
