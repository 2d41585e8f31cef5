//! Flat combining: the ante stage is behind a lock, and any caller may run it. A caller that has put something
//! into the stage's rings tries to take the lock and to run the stage itself, because waking the stage's thread
//! and being woken again for the result costs several times as much as a check or a query.
//!
//! Callers never wait for the lock. If it is taken, they wake the stage's worker and continue.

use super::Ante;
use crate::{
    fault::Fault,
    meter::Meter,
    stage::{Progress, Stage},
    sync::Mutex,
    worker_waker::WorkerWaker,
};
use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

/// A shared handle of the stage; see the module documentation.
#[derive(Clone, Debug)]
pub(crate) struct CombiningStage {
    ante: Arc<Mutex<Option<Ante>>>,
    waker: WorkerWaker,
}

impl CombiningStage {
    /// Creates a handle that has no stage yet; `waker` wakes the worker that will run the stage.
    pub(crate) fn new(waker: WorkerWaker) -> Self {
        Self { ante: Arc::new(Mutex::new(None)), waker }
    }

    /// Processes what callers have put into the stage's rings on this thread, or wakes the worker to do so.
    pub(crate) fn run_combined(&self) {
        let is_done = match self.ante.try_lock() {
            Ok(mut ante) => ante.as_mut().is_some_and(Ante::run_for_caller),
            Err(_) => false,
        };
        if !is_done {
            self.wake();
        }
    }

    pub(crate) fn wake(&self) {
        self.waker.wake();
    }
}

/// The worker's end of the stage. Dropping it ends the stage for all callers.
#[derive(Debug)]
pub(crate) struct CombiningWorker {
    stage: CombiningStage,
    meter: Arc<Meter>,
}

impl CombiningWorker {
    /// Makes the stage available through the handle.
    pub(crate) fn new(stage: CombiningStage, ante: Ante) -> Self {
        let meter = Arc::clone(&ante.meter);
        *stage.ante.lock().unwrap_or_else(PoisonError::into_inner) = Some(ante);
        Self { stage, meter }
    }

    /// # Panics
    /// If the stage panicked on another thread, because its state may be inconsistent.
    fn with<T>(&self, work: impl FnOnce(&mut Ante) -> T) -> T {
        let mut ante = self.stage.ante.lock().expect("no thread has panicked in the stage");
        work(ante.as_mut().expect("the stage exists until the worker is dropped"))
    }
}

impl Stage for CombiningWorker {
    fn name(&self) -> &'static str {
        "ante"
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        self.with(Ante::step)
    }

    fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn wake_after(&self) -> Duration {
        self.with(Ante::wake_after)
    }
}

impl Drop for CombiningWorker {
    fn drop(&mut self) {
        drop(self.stage.ante.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caller_that_cannot_run_the_stage_wakes_the_worker() {
        let (waker, _parker) = WorkerWaker::thread();
        let stage = CombiningStage::new(waker.clone());
        for busy in [false, true] {
            let _guard = busy.then(|| stage.ante.lock());
            waker.begin_idle();
            stage.run_combined();
            assert!(!waker.wake(), "the worker is awake already");
        }
    }
}
