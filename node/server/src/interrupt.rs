//! Tells work that its caller has gone away, or that its time is over.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Tells work that its caller has gone away. The default value never does: work that is done at once ends before
/// its caller can go away.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Option<Arc<AtomicBool>>);

impl Interrupt {
    /// A moment in the future, or when the caller goes away before.
    pub fn within(&self, time: Duration) -> Deadline {
        Deadline { at: Instant::now() + time, gone: self.0.clone() }
    }
}

/// When work is to be given up.
#[derive(Clone, Debug)]
pub struct Deadline {
    at: Instant,
    gone: Option<Arc<AtomicBool>>,
}

impl Deadline {
    /// Whether it is time to give up.
    pub fn passed(&self) -> bool {
        self.gone.as_ref().is_some_and(|gone| gone.load(Relaxed)) || Instant::now() > self.at
    }
}

/// Raises the flag when the caller's future is dropped.
#[derive(Debug)]
pub struct Caller(Arc<AtomicBool>);

impl Caller {
    /// A caller, to be held while it waits, and what tells its work that it has gone.
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
