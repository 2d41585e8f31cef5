//! Tests the fee market against the worked examples of its specification, third-party vectors, and independent
//! models.

mod fees;
mod formula;
mod market;
mod params;

use feemarket::LegacyDec;

fn dec(text: &str) -> LegacyDec {
    text.parse().unwrap()
}
