//! Runs the models in the model checker.

use crate::{
    fault::FaultCell,
    stage::{Stage, Worker},
    sync::thread::JoinHandle,
};

/// Maximum number of operations of one execution. A model that exceeds it has a loop that does not end.
const MAX_OPERATIONS: usize = 10_000;

/// Runs `model` in every order of execution with at most `preemptions` switches away from a thread that could have
/// continued (or as many as loom's variable LOOM_MAX_PREEMPTIONS states). Most errors need only one or two.
///
/// # Panics
/// If an execution panics or deadlocks.
pub(crate) fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = MAX_OPERATIONS;
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(model);
}

/// The threads of a pipeline in a model.
pub(crate) struct Workers {
    faults: FaultCell,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(crate) fn new() -> Self {
        Self { faults: FaultCell::default(), threads: Vec::new() }
    }

    /// Starts a worker that runs this stage.
    pub(crate) fn start(&mut self, worker: Worker, stage: impl Stage + 'static) {
        let worker = worker.runs(stage);
        self.threads.push(worker.spawn(self.faults.clone()).expect("the model starts any thread"));
    }

    /// Waits until all stages have finished.
    ///
    /// # Panics
    /// If one of them ended with a fault.
    pub(crate) fn join(self) {
        for thread in self.threads {
            thread.join().expect("workers catch panics");
        }
        if let Some(fault) = self.faults.take() {
            panic!("{fault}");
        }
    }
}
