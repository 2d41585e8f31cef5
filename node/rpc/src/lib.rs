//! The JSON-RPC server for HTTP and WebSocket. It answers calls by reading the published view of the chain.
//!
//! The crates `rpc-eth` and `rpc-debug` contain the methods, and `methods` merges their tables. `front` serves HTTP and
//! WebSocket, and passes calls to `dispatch`; jsonrpsee manages subscriptions. All calls of a batch read the same view.
//! Reads that take microseconds run inline, on the thread that serves the socket. Other calls are queued, and run on
//! the threads of `queues`.

mod block_receipts;
mod client;
pub mod costs;
mod discover;
mod dispatch;
mod envelope;
mod flow;
mod front;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod large_bodies;
mod local_calls;
mod meter;
mod methods;
mod pending;
mod queues;
mod rates;
mod reply;
mod serve;
mod subscribe;
mod subscriber;
mod subscription;
mod unsent_responses;

pub use front::ConnectionsPerThread;
pub use local_calls::LocalCalls;
pub use meter::{CallMeter, CallReading, LATENCY_BOUNDS_US};
pub use methods::{methods, namespaces};
pub use rpc_debug::development::NAMESPACES as DEVELOPMENT_NAMESPACES;
pub use rpc_eth::development::Development;
pub use serve::{Servers, serve};
pub use subscription::SUBSCRIPTIONS;
