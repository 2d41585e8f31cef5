//! REST, gRPC and `evmd query` as clients see them: over sockets, on a development chain.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "cosmos/answers.rs"]
mod answers;
#[path = "cosmos/call.rs"]
mod call;
#[path = "cosmos/cli.rs"]
mod cli;
#[path = "json_rpc/client.rs"]
mod client;
#[path = "cosmos/comet.rs"]
mod comet;
#[path = "cosmos/comet_socket.rs"]
mod comet_socket;
#[path = "cosmos/comet_txs.rs"]
mod comet_txs;
mod common;
#[path = "cosmos/cosmjs.rs"]
mod cosmjs;
#[path = "cosmos/golden.rs"]
mod golden;
#[path = "cosmos/gov.rs"]
mod gov;
#[path = "cosmos/grpc.rs"]
mod grpc;
#[path = "cosmos/journal.rs"]
mod journal;
#[path = "cosmos/rest.rs"]
mod rest;
#[path = "cosmos/search.rs"]
mod search;
#[path = "cosmos/served.rs"]
mod served;
#[path = "cosmos/txs.rs"]
mod txs;
