//! HTTP servers with limits on connections, memory, idle time and concurrent requests.
//!
//! - [`listen`]: the listener of REST, gRPC, CometBFT's RPC and metrics.
//! - [`access`]: which hosts and origins a server accepts.
//! - [`compression`]: gzip of large responses.
//! - [`connection`]: the layers of a connection: timeouts, turns, eviction, clients that have closed their sending side.
//! - [`costs`]: how the costs of queries are described.
//! - [`interrupt`]: interrupts work whose caller has disconnected.

pub mod access;
pub mod compression;
pub mod connection;
pub mod costs;
pub mod interrupt;
pub mod listen;
