//! The checks of a transaction before it is pooled or executed in a block. Those of Ethereum transactions include
//! the checks of cosmos/evm's `EVMMonoDecorator`.
//!
//! Each rule is a small function. [`check`](self::check()) calls them in order: first the cheapest ones, which
//! need no state (type, protection, chain id, signature, the transaction's own fields), then the others in the
//! order of cosmos/evm. The four fee steps are the functions of `steps`. "Row 7b" in a comment is the number of
//! a check in that order.
//!
//! The functions read at most one account with its code, and write nothing. The caller has recovered the sender.

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
pub use reject::{Reject, RemoteReject};
