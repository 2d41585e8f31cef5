//! Workloads shared by the benchmarks: the same bytes for every contestant, made from a seed.

pub mod signatures;

mod transfers;

pub use transfers::transfer;
