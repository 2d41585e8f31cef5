//! `EVMMonoDecorator`: every rule an Ethereum transaction must satisfy before it is pooled, or
//! runs in a block, on the native chain.

mod code;
mod envelope;
mod reject;

pub use code::Code;
pub use envelope::EnvelopeFault;
pub use reject::Reject;
