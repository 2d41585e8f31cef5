//! Replicates blocks: a source serves its blocks with their results. A follower checks them and passes them to its
//! pipeline, which executes them again only if `replication.verify` is `execute`.
//!
//! The protocol is `proto/evmd/replication/v1/source.proto`, and `docs/replication.md` explains how each part is
//! checked. The state of a source is one published view, and a few encoded blocks that all followers share. A follower
//! never trusts its source: only a certificate that is valid for the genesis makes a block part of the chain.
//!
//! - `channel`: connections to other nodes.
//! - `encoding`: the encoding of a block and its results as messages.
//! - `encoded_blocks`: the encoded blocks that followers share.
//! - `source`: the gRPC service.
//! - `arriving`: the assembly of blocks from pieces.
//! - `checks`: the checks of a block before it reaches the pipeline.
//! - `incoming`: one connection to a source, from the pieces to the chain.
//! - `follower`: the choice of a source.
//! - `terms`: the producer terms of a source and of its followers.
//! - `forwarder`: transactions and calls of clients that are forwarded to the producer.

mod arriving;
mod channel;
mod checks;
mod encoded_blocks;
mod encoding;
mod follower;
mod forwarder;
mod incoming;
#[allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    rustdoc::all,
    unused_qualifications,
    reason = "generated; the .proto file documents the items"
)]
pub mod protocol {
    include!("generated/evmd.replication.v1.rs");
}
mod source;
mod terms;

pub use channel::Roots;
pub use follower::{FollowContext, Follower, InvalidSource};
pub use forwarder::Forwarder;
pub use source::{SourceContext, serve};
pub use terms::{NodeTerms, Terms, TermsError, ask_node};

/// Version of the protocol. A source refuses requests of another version.
pub const PROTOCOL_VERSION: u32 = 1;
/// Maximum number of data bytes in a piece: the unit in which the server measures responses.
const PIECE_BYTES: usize = 64 * 1024;
/// Maximum size of an encoded block in bytes: enough for some 500,000 transfers with their results.
const MAX_ENCODED_BYTES: usize = 128 * 1024 * 1024;
