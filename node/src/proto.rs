//! The messages and services of `node/proto`, generated.

#![allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    rustdoc::all,
    unused_qualifications,
    reason = "generated; what they mean is said in the .proto files"
)]

include!(concat!(env!("OUT_DIR"), "/proto.rs"));

/// The definitions of all of them, for reflection and for JSON: an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
