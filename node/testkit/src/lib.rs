//! Helpers for the tests of several crates. No program links this crate.
//!
//! - [`Endpoints`]: the addresses of a node, with a client. A test that uses only them can run against a node in the
//!   process of the test, against a [`NodeProcess`], or against any node whose addresses are known.
//! - [`NodeProcess`]: a node in a process of its own.
//! - [`london_at_block_7`]: the genesis of a chain.

#![allow(clippy::unwrap_used, reason = "a failure of a test's preparation fails the test")]

mod copy_folder;
mod endpoints;
mod genesis;
mod http;
mod node_process;
mod own_address;
mod tls;
mod websocket;

pub use copy_folder::copy_folder;
pub use endpoints::Endpoints;
pub use genesis::london_at_block_7;
pub use http::{exchange, exchange_with_head};
pub use node_process::NodeProcess;
pub use own_address::{own_address, own_addresses};
pub use tls::tls_file;
pub use websocket::Socket;

use std::time::Duration;

/// Maximum wait for a response or a condition. It is long because on a busy machine, a process with low priority, such
/// as that of a snapshot, needs minutes for work that otherwise takes seconds.
pub const MAX_WAIT: Duration = Duration::from_secs(300);
