//! HTTP servers with limits on connections, memory, silence and concurrent requests.
//!
//! - [`listen`]: the listener of REST, gRPC, CometBFT's RPC and metrics.
//! - [`access`]: which hosts and origins a server accepts.
//! - [`compression`]: gzip of large responses.
//! - [`costs`]: how the cost of queries is stated.
//! - [`half_close`]: clients that have closed their sending side.
//! - [`interrupt`]: tells work that its caller has gone away.

pub mod access;
pub mod compression;
pub mod costs;
pub mod half_close;
pub mod interrupt;
pub mod listen;
