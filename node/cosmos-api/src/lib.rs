//! The Cosmos interfaces: gRPC, REST and CometBFT's RPC.
//!
//! - [`query`]: the answers, one function for each query.
//! - [`grpc`] serves them, [`rest`] serves the gRPC services as the SDK's gateway does, [`comet`] serves them to
//!   clients that only use CometBFT's RPC.
//! - [`EthCalls`]: calls of contracts, passed in by the program.

pub mod comet;
pub mod costs;
mod eth_calls;
pub mod grpc;
pub mod query;
pub mod rest;

pub use eth_calls::{EthCall, EthCallError, EthCalls};
