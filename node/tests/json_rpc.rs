//! JSON-RPC as a client sees it: over sockets, on a chain of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "json_rpc/audit.rs"]
mod audit;
#[path = "json_rpc/bad_input.rs"]
mod bad_input;
#[path = "json_rpc/calls.rs"]
mod calls;
#[path = "json_rpc/client.rs"]
mod client;
mod common;
#[path = "json_rpc/explorer.rs"]
mod explorer;
#[path = "json_rpc/fees.rs"]
mod fees;
#[path = "json_rpc/history.rs"]
mod history;
#[path = "json_rpc/native.rs"]
mod native;
#[path = "json_rpc/own.rs"]
mod own;
#[path = "json_rpc/parity.rs"]
mod parity;
#[path = "json_rpc/prices.rs"]
mod prices;
#[path = "json_rpc/protection.rs"]
mod protection;
#[path = "json_rpc/push.rs"]
mod push;
#[path = "json_rpc/seats.rs"]
mod seats;
#[path = "json_rpc/signing.rs"]
mod signing;
#[path = "json_rpc/traces.rs"]
mod traces;
