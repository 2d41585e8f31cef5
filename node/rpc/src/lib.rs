//! Ethereum JSON-RPC over HTTP and WebSocket, answered from the published view.
//!
//! The methods are in the crates `rpc-eth` and `rpc-debug`; `methods` is the table of all. HTTP and WebSockets are
//! served by `front`, which calls `dispatch`; jsonrpsee keeps subscriptions. A request, or a whole batch, sees one
//! view. Reads of microseconds run where the socket is served, those that may take long stand in `lines`.

pub mod costs;
mod discover;
mod dispatch;
mod envelope;
mod front;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod lines;
mod meter;
mod methods;
mod pending;
mod pushed;
mod rates;
mod serve;
mod subscribe;

pub use front::Seats;
pub use meter::{CallMeter, CallReading, LATENCY_BOUNDS_US};
pub use methods::{methods, namespaces};
pub use serve::{Servers, serve};
pub use subscribe::SUBSCRIPTIONS;
