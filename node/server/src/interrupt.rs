//! Interrupts work when its caller has disconnected or its time is over.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Shows whether the caller of some work has disconnected. The default value never does, which is used for
/// short work.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Option<Arc<AtomicBool>>);

impl Interrupt {
    /// A deadline after this time, or when the caller disconnects if that is earlier.
    pub fn within(&self, time: Duration) -> Deadline {
        Deadline { at: Instant::now() + time, gone: self.0.clone() }
    }
}

/// The time at which work is abandoned.
#[derive(Clone, Debug)]
pub struct Deadline {
    at: Instant,
    gone: Option<Arc<AtomicBool>>,
}

impl Deadline {
    /// Whether the work should be abandoned.
    pub fn passed(&self) -> bool {
        self.gone.as_ref().is_some_and(|gone| gone.load(Relaxed)) || Instant::now() > self.at
    }
}

/// Sets the flag when the caller's future is dropped.
#[derive(Debug)]
pub struct Caller(Arc<AtomicBool>);

impl Caller {
    /// Returns a guard, which the caller holds while it waits, and the interrupt for its work.
    pub fn waiting() -> (Self, Interrupt) {
        let flag = Arc::<AtomicBool>::default();
        (Self(Arc::clone(&flag)), Interrupt(Some(flag)))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
