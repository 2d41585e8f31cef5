//! Interrupts work if its caller has disconnected or its time limit has passed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Shows whether the caller of some work has disconnected. The default value never does, so its deadlines pass only
/// when their time is over.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Option<Arc<AtomicBool>>);

impl Interrupt {
    /// Returns a deadline that passes after `time`, or when the caller disconnects if that happens first.
    pub fn within(&self, time: Duration) -> Deadline {
        Deadline { at: Instant::now() + time, dropped: self.0.clone() }
    }
}

/// The condition under which work is abandoned.
#[derive(Clone, Debug)]
pub struct Deadline {
    at: Instant,
    dropped: Option<Arc<AtomicBool>>,
}

impl Deadline {
    /// Whether the work should be abandoned.
    pub fn passed(&self) -> bool {
        self.dropped.as_ref().is_some_and(|flag| flag.load(Relaxed)) || Instant::now() > self.at
    }
}

/// A guard in the caller's future. Interrupts the work when dropped.
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
