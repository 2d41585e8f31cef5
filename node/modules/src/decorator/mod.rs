//! `EVMMonoDecorator`: the rules for Ethereum transactions before they are pooled, or executed in a block, on
//! the native chain.
//!
//! Each rule is a small function. [`check`](self::check()) determines their order: first the cheapest ones
//! that need no state (type, protection, chain id, signature, the transaction's own fields), then the
//! reference's order. The four fee steps of the requirement are the functions of `steps`. The rows in
//! comments are those of the reference's table of checks.
//!
//! The functions read one account and write nothing. They know neither the pool nor the block. The sender was
//! recovered before and is not recovered again.

mod account;
mod check;
mod cosmos;
mod envelope;
mod reject;
mod stateless;
mod steps;
#[cfg(test)]
mod tests;

pub use account::{Sender, Standing, cost, has_code, is_delegation};
pub use check::{Admitted, BlobRules, CheckContext, Mode, check, check_rules, check_sender};
pub use cosmos::awaits_base_fee;
pub use envelope::EnvelopeFault;
pub use reject::Reject;
