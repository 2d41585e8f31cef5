//! Workloads shared by the benchmarks: every candidate receives the same bytes, generated from a seed.

pub mod fee_plot;
pub mod signatures;
pub mod threads;
pub mod token;
pub mod workload;
pub mod world;

mod transfers;

pub use transfers::{transfer, transfers};

use criterion::Criterion;
use platform::heap::Heap;
use std::time::Duration;

/// The allocator of the evmd binary.
#[global_allocator]
static HEAP: Heap = Heap;

/// Settings with which a benchmark of many rows takes only minutes.
pub fn quick() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1_500))
        .sample_size(20)
}
