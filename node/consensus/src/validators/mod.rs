//! Several validators agree on the blocks of a chain (`docs/adr/0038-consensus-engine.md`). Types of the engine are not
//! visible outside this module.

mod application;
mod block;
mod delivery;
mod engine;
mod evidence;
mod guarded_scheme;
mod network;
#[cfg(test)]
mod simulation;
mod vote_record;

pub use application::{Chain, MAX_SECONDS_AHEAD as MAX_VOTED_SECONDS_AHEAD};
pub use engine::Timeouts;
pub use network::{
    KeyBytes, MAX_VALIDATORS, Peer, Validator, ValidatorError, ValidatorOptions, public_key,
};
pub use vote_record::{VoteRecord, VoteRecordError};
