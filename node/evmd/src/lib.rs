//! The program `evmd` consists of its [command line](cli) and the code that composes the other crates into a node.
//!
//! - [`eth_calls`]: runs the contract calls of the Cosmos interfaces as JSON-RPC does.
//! - [`snapshots`]: makes a snapshot every N blocks.

pub mod cli;
pub mod eth_calls;
pub mod snapshots;

use server::costs::InterfaceCosts;

/// The costs of the queries of all interfaces, which `docs/costs.md` lists.
pub const COSTS: [InterfaceCosts; 3] =
    [rpc::costs::INTERFACE, cosmos_api::costs::GRPC, cosmos_api::costs::COMET];
