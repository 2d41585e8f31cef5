//! Models of the node's concurrent code. The model checker `loom` runs each of them once for every order in
//! which its threads can execute, and with every value that a load can return under the memory model, up to a
//! number of preemptions.
//!
//! The code that is checked is that of the crate `pipeline`: this crate compiles the same files. They name
//! their atomics, locks and threads through a module `sync`, which in this crate has the types of the model
//! checker. What surrounds these files is simpler here: `batch` and `fault` lack what the files do not use, and
//! `ante` has a stage with the real pool and journal, but without checks of transactions.
//!
//! Parking never times out in a model. The pipeline therefore does not depend on the timeouts of its workers:
//! a lost wake-up is a deadlock here, which the model checker reports.
//!
//! `cargo test -p models` runs all models.

#[path = "../../pipeline/src/meter.rs"]
#[allow(dead_code, unreachable_pub, reason = "the models do not use all of the pipeline's code")]
mod meter;
#[path = "../../pipeline/src/recent_latency.rs"]
#[allow(dead_code, reason = "the models do not use all of the pipeline's code")]
mod recent_latency;
#[path = "../../pipeline/src/reorder.rs"]
#[allow(dead_code, reason = "the models do not use all of the pipeline's code")]
mod reorder;
#[path = "../../pipeline/src/ring.rs"]
#[allow(dead_code, reason = "the models do not use all of the pipeline's code")]
mod ring;
#[path = "../../pipeline/src/stage.rs"]
#[allow(dead_code, reason = "the models do not use all of the pipeline's code")]
mod stage;
#[path = "../../pipeline/src/undo_floor.rs"]
#[allow(dead_code, reason = "the models do not use all of the pipeline's code")]
mod undo_floor;
#[path = "../../pipeline/src/worker_waker.rs"]
#[allow(dead_code, reason = "the models do not use all of the pipeline's code")]
mod worker_waker;

mod ante;
mod batch;
mod chain;
mod checker;
pub mod combining_model;
mod fault;
pub mod journal_model;
pub mod ring_model;
pub mod submit;
mod sync;
pub mod undo_model;
pub mod waker_model;
