//! Workloads shared by the benchmarks: the same bytes for every contestant, made from a seed.

pub mod fee_plot;
pub mod signatures;

mod transfers;

pub use transfers::transfer;
