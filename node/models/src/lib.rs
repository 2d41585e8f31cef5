//! Models of the node's concurrent code. The model checker `loom` runs each model in every order in which its threads
//! can execute, up to a maximum number of preemptions, and with every value that a load can return under the memory
//! model.
//!
//! The checked code is that of the crate `pipeline`: this crate compiles the same files. They import their atomics,
//! locks and threads from a module `sync`, which in this crate has the types of the model checker. The modules around
//! these files are simpler here: `batch` and `fault` contain only what the files use, and the stage in `ante` has the
//! real pool and journal, but does not check transactions.
//!
//! Parking never times out in a model: a lost wake-up is a deadlock, which the model checker reports. The models thus
//! show that the pipeline does not depend on the timeouts of its workers.
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
