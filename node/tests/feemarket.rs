//! The fee market against the worked examples of its specification, third-party vectors, and
//! models written another way.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/mod.rs"]
mod common;
#[path = "feemarket/fees.rs"]
mod fees;
#[path = "feemarket/formula.rs"]
mod formula;
#[path = "feemarket/market.rs"]
mod market;
#[path = "feemarket/params.rs"]
mod params;

use node::feemarket::LegacyDec;

/// A decimal from its text.
fn dec(text: &str) -> LegacyDec {
    text.parse().unwrap()
}
