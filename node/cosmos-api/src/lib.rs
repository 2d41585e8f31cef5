//! Serves the Cosmos interfaces: gRPC, REST and CometBFT's RPC.
//!
//! - [`query`] computes the responses, with one function for each query.
//! - [`grpc`] serves the queries, [`rest`] serves the gRPC services in the format of the SDK's gateway, and
//!   [`comet`] serves them to clients that only use CometBFT's RPC.
//! - [`EthCalls`] runs contract calls. The program passes an implementation.

pub mod comet;
pub mod costs;
mod eth_calls;
pub mod grpc;
pub mod query;
pub mod rest;

pub use eth_calls::{EthCall, EthCallError, EthCalls};
