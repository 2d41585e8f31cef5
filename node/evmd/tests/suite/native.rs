//! Blocks of a native chain over a state in memory: charges, fees, delegations, access, and what
//! must hold for random blocks.

mod access;
mod charges;
mod delegation;
mod early;
mod foresight;
mod ledger;
mod random;
mod short;
