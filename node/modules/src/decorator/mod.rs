//! `EVMMonoDecorator`: every rule an Ethereum transaction must satisfy before it is pooled, or
//! runs in a block, on the native chain.
//!
//! Each rule is a small function; [`check`](self::check()) says in which order they run: first
//! what costs least and needs no state (type, protection, chain id, signature, the transaction's own
//! fields), then the reference's order. The four fee steps of the requirement are the functions of
//! `steps`. The rows in their comments are those of the reference's table of checks.
//!
//! Pure: reads one account, writes nothing, knows neither pool nor block. The sender has been
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
