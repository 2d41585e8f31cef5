//! Runs HTTP servers with limits on connections, memory, idle time and concurrent requests.
//!
//! - [`listen`]: the servers of REST, gRPC, CometBFT's RPC, metrics and the web pages.
//! - [`listener`]: listening sockets.
//! - [`stop`]: the shutdown signal of a server.
//! - [`accept`]: accepts connections until the server stops.
//! - [`access`]: the hosts and origins that a server accepts.
//! - [`body`]: reads the bodies of requests.
//! - [`compression`]: gzip of large responses.
//! - [`concurrency_limit`]: limits the numbers of running and of waiting requests of one kind.
//! - [`connection`]: the layers of a connection: timeouts, yielding, eviction, half-closed clients.
//! - [`costs`]: the types that describe the costs of queries.
//! - [`descriptors`]: the limit of open files, and how connections share it.
//! - [`fair_queue`]: a queue that serves clients round-robin; [`fair_permits`]: a limited number of permits with such a queue.
//! - [`front_page`]: a link to the web pages, for browsers.
//! - [`heights`]: makes a request wait for a block that its client has already seen on another node.
//! - [`tls`]: encrypted connections.
//! - [`interrupt`]: interrupts work whose caller has disconnected or whose time limit has passed.

pub mod accept;
pub mod access;
pub mod body;
pub mod compression;
pub mod concurrency_limit;
pub mod connection;
pub mod costs;
pub mod descriptors;
pub mod fair_permits;
pub mod fair_queue;
pub mod front_page;
pub mod heights;
pub mod interrupt;
pub mod listen;
pub mod listener;
pub mod stop;
pub mod tls;
