//! The stage behind a lock, so that callers need not wake its thread: whoever has put something into its
//! rings does the stage's work with it where he is, if nobody is at it. Waking a thread and being woken
//! again costs several times what a check or an answer does.
//!
//! Callers never wait for the lock: where it is taken, they ring the stage's bell and go on.

use super::Ante;
use crate::{
    fault::Fault,
    meter::Meter,
    stage::{Progress, Stage},
    worker_waker::Bell,
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    ante: Arc<Mutex<Option<Ante>>>,
    bell: Bell,
}

impl Desk {
    /// Without a stage so far; `bell` wakes the worker that will run it.
    pub(crate) fn new(bell: Bell) -> Self {
        Self { ante: Arc::default(), bell }
    }

    /// Sees to what callers have put into the stage's rings: here, or by waking its worker.
    pub(crate) fn attend(&self) {
        let done = match self.ante.try_lock() {
            Ok(mut ante) => ante.as_mut().is_some_and(Ante::attend),
            Err(_) => false,
        };
        if !done {
            self.wake();
        }
    }

    /// Has the worker look at what there is.
    pub(crate) fn wake(&self) {
        self.bell.ring();
    }
}

/// The stage as its worker runs it; dropping it ends the stage for everybody.
#[derive(Debug)]
pub(crate) struct AtDesk {
    desk: Desk,
    meter: Arc<Meter>,
}

impl AtDesk {
    /// Puts the stage behind the desk.
    pub(crate) fn new(desk: Desk, ante: Ante) -> Self {
        let meter = Arc::clone(&ante.meter);
        *desk.ante.lock().unwrap_or_else(PoisonError::into_inner) = Some(ante);
        Self { desk, meter }
    }

    /// # Panics
    /// If somebody panicked at the desk: the stage may be in the middle of anything.
    fn with<T>(&self, work: impl FnOnce(&mut Ante) -> T) -> T {
        let mut ante = self.desk.ante.lock().expect("whoever was at the desk has ended well");
        work(ante.as_mut().expect("the stage is there until this is dropped"))
    }
}

impl Stage for AtDesk {
    fn name(&self) -> &'static str {
        "ante"
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        self.with(Ante::step)
    }

    fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn patience(&self) -> Duration {
        self.with(Ante::patience)
    }
}

impl Drop for AtDesk {
    fn drop(&mut self) {
        drop(self.desk.ante.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever cannot do the work wakes the worker, and does not wait.
    #[test]
    fn a_caller_who_finds_somebody_or_nobody_there_rings() {
        let (bell, _parker) = Bell::thread();
        let desk = Desk::new(bell.clone());
        for busy in [false, true] {
            let _somebody = busy.then(|| desk.ante.lock());
            bell.begin_idle();
            desk.attend();
            assert!(!bell.ring(), "the worker is awake already");
        }
    }
}
