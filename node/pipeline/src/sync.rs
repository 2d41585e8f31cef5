//! The types that the concurrent modules use: [`super::ring`], [`super::worker_waker`], [`super::stage`],
//! [`super::undo_floor`], `ante/combining.rs`, `submit/queue.rs` and `submit/ordered_output.rs`.
//!
//! They are imported through this module so that the crate `models` can compile the same files with the types of a
//! model checker, which runs them in every order of execution. A type that these files import from elsewhere is not
//! part of the model.

pub(super) use crossbeam::{
    queue::ArrayQueue,
    sync::{Parker, Unparker},
};
pub(super) use std::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, fence},
    },
    thread,
};
