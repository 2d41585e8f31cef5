//! Blocks from one node to others: a source serves its blocks with their results, and a follower checks them and gives them to
//! its pipeline, which does not execute them again.
//!
//! The protocol is `proto/evmd/replication/v1/source.proto`, and `docs/replication.md` says what each part is checked against.
//! The state of a source is one published view, and a few encoded blocks that all followers share. A follower never
//! trusts its source: only the certificate of a block, whose key comes from the genesis, makes it part of the chain.
//!
//! - `channel`: connections to other nodes.
//! - `encoding`: a block and its results as one message.
//! - `encoded_blocks`: the encoded blocks that followers share.
//! - `source`: the gRPC service.
//! - `arriving`: pieces that become blocks.
//! - `checks`: what is checked before a block reaches the pipeline.
//! - `incoming`: the blocks of one connection, on their way into the chain.
//! - `follower`: the choice of a source.
//! - `terms`: the producer terms of a source and of its followers.
//! - `forwarder`: transactions of clients, on their way to the producer.

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
    reason = "generated; what they mean is said in the .proto file"
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

/// Version of the protocol. A source refuses another one.
pub const PROTOCOL_VERSION: u32 = 1;
/// Maximum number of data bytes in a piece: what the server counts as one piece of a response.
const PIECE_BYTES: usize = 64 * 1024;
/// Maximum size of an encoded block in bytes: those of some 500,000 transfers with their results.
const MAX_ENCODED_BYTES: usize = 128 * 1024 * 1024;
