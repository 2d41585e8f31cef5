//! HTTP servers with limits on connections, memory, idle time and concurrent requests.
//!
//! - [`listen`]: the servers of REST, gRPC, CometBFT's RPC and metrics.
//! - [`listener`]: listening sockets.
//! - [`stop`]: the signal to stop.
//! - [`accept`]: accepts connections until the server stops.
//! - [`access`]: which hosts and origins a server accepts.
//! - [`body`]: reads the bodies of requests.
//! - [`compression`]: gzip of large responses.
//! - [`concurrency_limit`]: a limited number of requests that run, and of those that wait.
//! - [`connection`]: the layers of a connection: timeouts, turns, eviction, clients that have closed their sending side.
//! - [`costs`]: how the costs of queries are described.
//! - [`descriptors`]: the limit of open files, and the share of connections.
//! - [`fair_queue`]: a queue that serves clients in turn; [`turns`]: a limited number of places with such a queue.
//! - [`front_page`]: a link to the web pages, for browsers.
//! - [`heights`]: the height that a client has seen, for clients of several nodes.
//! - [`tls`]: encrypted connections.
//! - [`interrupt`]: interrupts work whose caller has disconnected.

pub mod accept;
pub mod access;
pub mod body;
pub mod compression;
pub mod concurrency_limit;
pub mod connection;
pub mod costs;
pub mod descriptors;
pub mod fair_queue;
pub mod front_page;
pub mod heights;
pub mod interrupt;
pub mod listen;
pub mod listener;
pub mod stop;
pub mod tls;
pub mod turns;
