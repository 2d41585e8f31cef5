//! The contract of a stage, and the loop around stages, written once: order of steps, parking,
//! counters, panics and shutdown.

use super::{
    fault::{Fault, FaultCell},
    meter::Meter,
    worker_waker::{Bell, park},
};
use crossbeam::sync::Parker;
use platform::slice;
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// What one step achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Took or gave something: step again at once.
    Worked,
    /// Nothing to take.
    Idle,
    /// Something to give, and no credit to give it.
    Blocked,
    /// All input has ended and everything was given: the stage is over.
    Finished,
}

/// One stage of the pipeline. Owns its state and its ring ends; dropping it closes its outboxes.
pub(super) trait Stage: Send {
    /// The stage's name in metrics, logs and thread names.
    fn name(&self) -> &'static str;

    /// Does one bounded piece of work. Must not block, except on the disk where that is the
    /// stage's work. An error ends the stage; what it has given already still runs to the end.
    fn step(&mut self) -> Result<Progress, Fault>;

    /// The stage's counters.
    fn meter(&self) -> &Arc<Meter>;

    /// How long the worker may sleep when nothing rings its bell.
    fn patience(&self) -> Duration {
        HOUSEKEEPING
    }

    /// Sleeps until the bell rings or `timeout` passes. Only a stage that waits on sockets
    /// replaces it, and such a stage has a worker of its own.
    fn sleep(&mut self, parker: &Parker, timeout: Duration) {
        park(parker, timeout);
    }
}

/// Longest sleep of a worker: bounds how late a lost wake-up, a timer or a counter can be.
const HOUSEKEEPING: Duration = Duration::from_millis(100);

/// A thread that runs one or more stages in turn.
pub(super) struct Worker {
    name: String,
    bell: Bell,
    parker: Parker,
    stages: Vec<Box<dyn Stage>>,
}

impl Worker {
    /// A worker without stages yet; its bell can be given to rings.
    pub(super) fn new(name: impl Into<String>) -> Self {
        let (bell, parker) = Bell::thread();
        Self { name: name.into(), bell, parker, stages: Vec::new() }
    }

    /// A worker whose stage sleeps elsewhere and is woken through `bell`.
    pub(super) fn with_bell(name: impl Into<String>, bell: Bell) -> Self {
        Self { bell, ..Self::new(name) }
    }

    /// The bell that wakes this worker.
    pub(super) fn bell(&self) -> Bell {
        self.bell.clone()
    }

    /// Adds a stage, to run after those added before.
    #[must_use]
    pub(super) fn runs(mut self, stage: impl Stage + 'static) -> Self {
        self.stages.push(Box::new(stage));
        self
    }

    /// Starts the thread. The first fault of any stage goes to `faults`.
    pub(super) fn spawn(self, faults: FaultCell) -> std::io::Result<JoinHandle<()>> {
        let thread = std::thread::Builder::new().name(self.name.clone());
        thread.spawn(move || {
            // A step that panics is caught in its round; this is what is beside the steps.
            let ended = catch_unwind(AssertUnwindSafe(|| self.run(&faults)));
            if let Err(panic) = ended {
                faults.put(Fault::panicked("worker", &*panic));
            }
        })
    }

    fn run(mut self, faults: &FaultCell) {
        slice::ask(slice::STAGES);
        while !self.stages.is_empty() {
            if self.round(faults) {
                continue;
            }
            self.bell.begin_idle();
            if !self.stages.is_empty() && !self.round(faults) {
                self.sleep();
            }
            self.bell.end_idle();
        }
    }

    /// Steps every stage once; says whether any of them worked.
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
        let patience = self.stages.iter().map(|stage| stage.patience()).min();
        let patience = patience.unwrap_or(HOUSEKEEPING).min(HOUSEKEEPING);
        let begun = Instant::now();
        match self.stages.as_mut_slice() {
            [stage] => stage.sleep(&self.parker, patience),
            _ => park(&self.parker, patience),
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
