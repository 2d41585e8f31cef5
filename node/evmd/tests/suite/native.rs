//! Tests blocks of a native chain on an in-memory state: charges, fees, delegations, access control, and properties of
//! random blocks.

mod access;
mod access_prediction;
mod charges;
mod deferred_parent_hash;
mod delegation;
mod ledger;
mod proposer_fees;
mod random;
mod transfer_fast_path;
