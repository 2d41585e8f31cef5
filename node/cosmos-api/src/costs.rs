//! Lists the costs of the queries of the Cosmos interfaces (see [`server::costs`]).

mod comet;
mod grpc;

pub use comet::INTERFACE as COMET;
pub use grpc::{INTERFACE as GRPC, has_concurrency_limit, has_time_limit};
