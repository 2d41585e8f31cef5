//! Model of flat combining (`pipeline/src/ante/combining.rs`): callers and the worker run the same stage.

use crate::{
    ante::{Ante, CombiningStage, CombiningWorker},
    batch::{Call, Recovered, Reply, tx},
    checker::{Workers, check},
    ring::{Outbox, ring},
    stage::Worker,
    sync::thread,
};

/// A running ante stage, with the ends that callers use.
pub(crate) struct Admission {
    pub(crate) out: Outbox<Vec<Recovered>>,
    pub(crate) combining: CombiningStage,
    pub(crate) workers: Workers,
}

impl Admission {
    pub(crate) fn start() -> Self {
        let worker = Worker::new("ante");
        let (out, submissions) = ring("submit", 2, &[], &[]);
        let combining = CombiningStage::new(worker.waker());
        let stage = CombiningWorker::new(combining.clone(), Ante::new(submissions));
        let mut workers = Workers::new();
        workers.start(worker, stage);
        Self { out, combining, workers }
    }

    /// Closes the ring of submissions, and waits until the worker has ended.
    fn stop(self) {
        drop(self.out);
        self.combining.wake();
        self.workers.join();
    }
}

/// Callers put their batches into the ring, and then run the stage or leave it to the worker. Each of them
/// receives its own result.
///
/// # Panics
/// If a caller waits forever, or receives another result.
pub fn every_caller_is_answered() {
    check(2, || {
        let admission = Admission::start();
        let callers = [0, 1].map(|number| {
            let (out, combining) = (admission.out.clone(), admission.combining.clone());
            thread::spawn(move || {
                let (call, caller) = Call::new(None);
                out.offer(vec![(Ok(tx(number)), Reply::Rpc(caller))]).expect("ring not full");
                combining.run_combined();
                assert_eq!(call.wait(), Some(Ok(tx(number).hash)));
            })
        });
        for caller in callers {
            caller.join().expect("the caller is answered");
        }
        admission.stop();
    });
}
