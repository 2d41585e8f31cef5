//! Lets several validators agree on the blocks of a chain (`docs/adr/0038-consensus-engine.md`). Types of the consensus
//! library are not visible outside this module.

mod application;
mod block;
mod certificate;
mod delivery;
mod engine;
mod engine_files;
mod guarded_scheme;
mod network;
mod observer;
#[cfg(test)]
mod simulation;
mod transactions;
mod vote_record;

pub use application::{
    CertifiedBlock, Chain, Contradiction, ContradictionKind,
    MAX_SECONDS_AHEAD as MAX_VOTED_SECONDS_AHEAD,
};
pub use engine::Timeouts;
pub use network::{KeyBytes, Peer, Validator, ValidatorError, ValidatorOptions, public_key};
pub use transactions::MAX_TRANSACTION_MESSAGE_BYTES;
pub use vote_record::{VoteRecord, VoteRecordError};
