//! `EVMMonoDecorator`: the rules for Ethereum transactions on a native chain, before they are pooled or executed
//! in a block.
//!
//! Each rule is a small function. [`check`](self::check()) determines their order: first the cheapest ones that
//! need no state (type, protection, chain id, signature, the transaction's own fields), then the order of
//! cosmos/evm. The four fee steps are the functions of `steps`. The row numbers in comments identify the checks
//! of cosmos/evm.
//!
//! The functions read one account and write nothing. They do not depend on the pool or the block. The sender has
//! been recovered before and is not recovered again.

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
