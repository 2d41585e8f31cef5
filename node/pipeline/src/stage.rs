//! The stage trait, and the worker loop, which runs steps, parks, updates counters, and handles panics and shutdown.

use super::{
    fault::{Fault, FaultCell},
    meter::Meter,
    sync::{Parker, thread},
    worker_waker::{WorkerWaker, park},
};
use platform::slice;
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The stage received or sent something: step again at once.
    Worked,
    /// There is no input.
    Idle,
    /// The output waits for credit.
    Blocked,
    /// All input has ended and everything was sent: the stage is finished.
    Finished,
}

/// One stage of the pipeline. It owns its state and its ring ends; dropping the stage closes its outboxes.
pub(super) trait Stage: Send {
    /// Returns the stage's name in metrics, logs and thread names.
    fn name(&self) -> &'static str;

    /// Does a limited amount of work. It must not block, except on the disk if that is the stage's purpose.
    /// An error ends the stage; batches sent before are still processed.
    fn step(&mut self) -> Result<Progress, Fault>;

    /// Returns the stage's counters.
    fn meter(&self) -> &Arc<Meter>;

    /// Returns the maximum time that the worker may sleep without being woken.
    fn wake_after(&self) -> Duration {
        HOUSEKEEPING
    }

    /// Sleeps until the worker is woken or `timeout` passes. Only a stage that waits on sockets overrides this,
    /// and that stage has its own worker.
    fn sleep(&mut self, parker: &Parker, timeout: Duration) {
        park(parker, timeout);
    }
}

/// Maximum sleep of a worker, which limits how late it notices a lost wake-up, a timer or a counter.
pub(super) const HOUSEKEEPING: Duration = Duration::from_millis(100);

/// A thread that runs one or more stages in turn.
pub(super) struct Worker {
    name: String,
    waker: WorkerWaker,
    parker: Parker,
    stages: Vec<Box<dyn Stage>>,
}

impl Worker {
    /// Creates a worker that has no stages yet. Its waker can be passed to rings.
    pub(super) fn new(name: impl Into<String>) -> Self {
        let (waker, parker) = WorkerWaker::thread();
        Self { name: name.into(), waker, parker, stages: Vec::new() }
    }

    /// Creates a worker whose stage overrides [`Stage::sleep`] and is woken through `waker`.
    pub(super) fn with_waker(name: impl Into<String>, waker: WorkerWaker) -> Self {
        Self { waker, ..Self::new(name) }
    }

    /// Returns the handle that wakes this worker.
    pub(super) fn waker(&self) -> WorkerWaker {
        self.waker.clone()
    }

    /// Adds a stage, which runs after the stages added before it.
    #[must_use]
    pub(super) fn runs(mut self, stage: impl Stage + 'static) -> Self {
        self.stages.push(Box::new(stage));
        self
    }

    /// Starts the thread. The first fault of any stage goes to `faults`.
    pub(super) fn spawn(self, faults: FaultCell) -> std::io::Result<thread::JoinHandle<()>> {
        let thread = thread::Builder::new().name(self.name.clone());
        thread.spawn(move || {
            // `round` catches panics in steps; this catches all others.
            let ended = catch_unwind(AssertUnwindSafe(|| self.run(&faults)));
            if let Err(panic) = ended {
                faults.put(Fault::panicked("worker", &*panic));
            }
        })
    }

    fn run(mut self, faults: &FaultCell) {
        slice::request(slice::STAGES);
        while !self.stages.is_empty() {
            if self.round(faults) {
                continue;
            }
            self.waker.begin_idle();
            // The last stage may have finished in either of the two rounds.
            if !self.round(faults) && !self.stages.is_empty() {
                self.sleep();
            }
            self.waker.end_idle();
        }
    }

    /// Runs one step of every stage; returns whether any of them did work.
    fn round(&mut self, faults: &FaultCell) -> bool {
        let mut worked = false;
        self.stages.retain_mut(|stage| {
            let begun = Instant::now();
            let progress = catch_unwind(AssertUnwindSafe(|| stage.step()))
                .unwrap_or_else(|panic| Err(Fault::panicked(stage.name(), &*panic)));
            let spent = begun.elapsed();
            match progress {
                Ok(Progress::Worked) => {
                    stage.meter().busy(spent);
                    worked = true;
                    true
                }
                Ok(Progress::Idle) => true,
                Ok(Progress::Blocked) => {
                    stage.meter().found_blocked();
                    true
                }
                Ok(Progress::Finished) => false,
                Err(fault) => {
                    faults.put(fault);
                    false
                }
            }
        });
        worked
    }

    fn sleep(&mut self) {
        let wake_after = self.stages.iter().map(|stage| stage.wake_after()).min();
        let wake_after = wake_after.unwrap_or(HOUSEKEEPING).min(HOUSEKEEPING);
        let begun = Instant::now();
        match self.stages.as_mut_slice() {
            [stage] => stage.sleep(&self.parker, wake_after),
            _ => park(&self.parker, wake_after),
        }
        let slept = begun.elapsed();
        for stage in &self.stages {
            stage.meter().slept(slept);
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stages: Vec<_> = self.stages.iter().map(|stage| stage.name()).collect();
        f.debug_struct("Worker").field("name", &self.name).field("stages", &stages).finish()
    }
}
