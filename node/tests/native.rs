//! Blocks of a native chain over a state in memory: charges, fees, delegations, access, and what
//! must hold for random blocks.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "native/access.rs"]
mod access;
#[path = "native/charges.rs"]
mod charges;
#[path = "native/delegation.rs"]
mod delegation;
#[path = "native/early.rs"]
mod early;
#[path = "native/foresight.rs"]
mod foresight;
#[path = "native/ledger.rs"]
mod ledger;
#[path = "native/random.rs"]
mod random;
#[path = "native/short.rs"]
mod short;
