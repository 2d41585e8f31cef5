//! HTTP servers with limits on connections, memory, idle time and concurrent requests.
//!
//! - [`listen`]: the listener of REST, gRPC, CometBFT's RPC and metrics.
//! - [`access`]: which hosts and origins a server accepts.
//! - [`compression`]: gzip of large responses.
//! - [`costs`]: how the costs of queries are described.
//! - [`half_close`]: clients that have closed their sending side.
//! - [`interrupt`]: interrupts work whose caller has disconnected.

pub mod access;
pub mod compression;
pub mod costs;
pub mod half_close;
pub mod interrupt;
pub mod listen;
